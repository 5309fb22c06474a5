"""Evals on the site: the same samples under two attentions, pair by pair, as `paceline evals compare` holds them."""

import csv
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard_browser import Watched, serious, watch
from dashboard_site import build_site, data, numbers
from paceline.dashboard.evals_pages import pack_scores
from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    ExecutionResults,
    StreamingConfig,
)
from paceline.evals.quality import quality
from paceline.evals.samples import read_samples
from paceline.history import open_store
from paceline.history.session_files import read_session
from paceline.record.codec import dump, load

HOSTILE = "<img src=x onerror='window.pwned=1'>"


class Evals:
    """An execution, its site, and how its pages are addressed."""

    def __init__(self, directory: Path, names: tuple[str, str] = ("small", "large")) -> None:
        self.directory = directory
        executor = BenchmarkExecutor(["cpu"], max_concurrent_runs=1, base_result_dir=directory / "results")
        self.results: ExecutionResults = executor.run_benchmark_matrix(
            model_names=list(names),
            sparse_attention_configs=[
                ("dense", None),
                ("streaming", StreamingConfig(sink_size=4, window_size=8)),
            ],
            benchmark_configs=[BenchmarkConfig("mock_benchmark", params={"repeat": 6})],
            adapter_config=AdapterConfig(adapter_name="mock"),
            generation_kwargs={"max_new_tokens": 32},
        )
        self.session = read_session(self.results.directory)
        with open_store(directory / "benchmark.db") as store:
            store.add(self.session.session, self.session.environment, self.session.records)

    @property
    def site(self) -> Path:
        return self.directory / "out"

    @property
    def metric(self) -> str:
        return str(self.results.individual_results[0].metrics["primary"])

    def build(self) -> dict[str, Any]:
        build_site(self.directory / "benchmark.db", self.site)
        found: dict[str, Any] = data(self.site, f"evals/{self.session.session.id}")
        return found

    def compare(self, more: str = "") -> str:
        sides = [json.dumps([self.session.session.id, name]) for name in ("dense", "streaming")]
        a, b = (f"e%3A{quote(side, safe='')}" for side in sides)
        return f"{self.site.as_uri()}/index.html#/compare?a={a}&b={b}{more}"


@pytest.fixture(scope="module")
def evals(tmp_path_factory: pytest.TempPathFactory) -> Evals:
    made = Evals(tmp_path_factory.mktemp("evals"))
    made.build()
    return made


def taken(page: Page, name: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).click()
    return Path(download.value.path()).read_text()


def test_every_score_is_in_the_site(evals: Evals) -> None:
    page = data(evals.site, f"evals/{evals.session.session.id}")
    (task,) = page["tasks"]
    assert page["missing"] == 0 and len(page["stubs"]) == 4
    for result in evals.results.individual_results:
        stub = next(
            one
            for one in page["stubs"]
            if (one["model"], one["attention"]) == (result.stub.model_name, result.stub.sparse_config_name)
        )
        scores = read_samples(result, stub["metric"]).scores
        assert unpacked(stub["scores"]) == [scores[name] for name in task["samples"]]
    points, _ = quality(evals.results.individual_results)
    assert page["points"] == [asdict(point) for point in points] and page["refused"] == []
    assert {stub["rows"] for stub in page["stubs"]} == {"toy"} and task["name"] == "mock_benchmark"
    (session,) = data(evals.site, "overview")["sessions"]
    assert session["attentions"] == ["dense", "streaming"]


def unpacked(packed: dict[str, Any]) -> list[float | None]:
    from base64 import b64decode

    if "b" not in packed:
        return numbers(packed["all"], packed["n"])
    levels = numbers(packed["of"], packed["k"])
    return [levels[place] for place in b64decode(packed["b"])]


@pytest.mark.parametrize("count", [0, 1, 3, 256, 257, 1000])
def test_scores_of_few_and_of_many_levels_are_packed(count: int) -> None:
    scores = [place / 1024 for place in range(count)]
    assert unpacked(pack_scores(scores)) == scores


def test_pairs_are_those_of_the_command(watched: Watched, evals: Evals) -> None:
    page = watched.open(evals.compare())
    effects = {one.model: one for one in evals.results.compare(baseline="dense").effects}
    assert {one.verdict for one in effects.values()} == {"inconclusive"}, (
        "three texts, whatever is asked of them"
    )
    expect(page.get_by_role("table", name="Paired differences").locator("tbody tr")).to_have_count(2)
    found = json.loads(taken(page, "JSON"))["comparisons"]
    assert len(found) == 2
    for ours in found:
        theirs = effects[ours["model"]]
        assert (ours["verdict"], ours["samples"]) == (theirs.verdict, theirs.n)
        assert ours["difference"] == pytest.approx(theirs.difference)
        assert ours["low"] == pytest.approx(theirs.low, abs=0.05)
        assert ours["high"] == pytest.approx(theirs.high, abs=0.05)
    rows = list(csv.DictReader(taken(page, "CSV").splitlines()))
    assert len(rows) == sum(one.n for one in effects.values())
    assert {row["difference"] for row in rows} <= {"-1", "0", "1"}


def test_a_pair_opens_to_its_samples_and_its_address_shows_them_again(watched: Watched, evals: Evals) -> None:
    page = watched.open(evals.compare())
    page.get_by_role("button", name="mock_benchmark").first.click()
    expect(page.locator(".waterfall rect").first).to_be_attached()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download mock_benchmark differences as PNG").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    samples = page.get_by_role("table", name="Samples of mock_benchmark")
    expect(samples.locator("tbody tr").first).to_contain_text("-1")
    again = watched.open(page.url)
    expect(again.locator(".waterfall")).to_be_visible()
    again.get_by_label("Exchange the sides").click()
    expect(again.get_by_role("table", name="Paired differences")).to_contain_text("+0.8")


def test_quality_stands_against_density_and_time(watched: Watched, evals: Evals) -> None:
    page = watched.open(evals.compare("&view=quality"))
    expect(page.locator(".scatter .dot")).to_have_count(4)
    expect(page.locator(".scatter .interval")).to_have_count(4)
    expect(page.locator("main")).to_contain_text("Toy rows: they say nothing about a model.")
    expect(page.locator("main")).to_contain_text("not tried by their authors on GPUs")
    page.locator("summary", has_text="Table of the points").click()
    expect(page.get_by_role("table", name="quality against density")).to_contain_text("streaming")
    page.get_by_role("combobox", name="Quality against").select_option("time")
    expect(page.get_by_role("table", name="quality against time a sample")).to_be_attached()
    page.get_by_label("Show").select_option("table")
    expect(page.get_by_role("table", name="Comparison")).to_contain_text("exec_time_s")
    expect(page.get_by_role("table", name="Comparison")).not_to_contain_text(evals.metric)


def test_a_session_of_evals_leads_to_its_attentions(watched: Watched, evals: Evals) -> None:
    page = watched.open(f"{evals.site.as_uri()}/index.html#/session/{evals.session.session.id}")
    page.get_by_role("link", name="Compare its attentions").click()
    expect(page.get_by_role("combobox", name="Baseline")).to_have_value(re.compile("^attention dense"))
    expect(page.locator(".tile", has_text="samples asked under both")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pairs_are_for_everybody(browser: Browser, evals: Evals, axe: str, scheme: Any) -> None:
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    found = watch(context)
    for more in ("", "&pair=small%2Fmock_benchmark", "&view=quality"):
        page = found.open(evals.compare(more))
        assert serious(page, axe) == [], more
    context.close()


def test_a_result_that_was_replaced_is_left_out_and_told(watched: Watched, tmp_path: Path) -> None:
    evals = Evals(tmp_path)
    dense = next(one for one in evals.results.individual_results if one.stub.sparse_config_name == "dense")
    first = Path(dense.result_dir)
    spec = load((first / "spec.json").read_bytes())
    (first / "spec.json").write_bytes(dump({**spec, "key": "another"}))
    page = evals.build()
    assert page["missing"] == 1 and len(page["stubs"]) == 3
    opened = watched.open(evals.compare())
    expect(opened.locator("main")).to_contain_text("1 result left out")
    expect(opened.locator("main")).to_contain_text("1 result without a counterpart")


def test_names_of_models_and_samples_stay_text(watched: Watched, tmp_path: Path) -> None:
    evals = Evals(tmp_path, (HOSTILE, "plain"))
    for result in evals.results.individual_results:
        raw = Path(result.result_dir) / "raw_results.csv"
        with raw.open(newline="") as file:
            head, *rows = csv.reader(file)
        with raw.open("w", newline="") as file:
            csv.writer(file).writerows([head, *([HOSTILE + row[0], *row[1:]] for row in rows)])
    evals.build()
    page = watched.open(evals.compare(f"&pair={quote(HOSTILE, safe='')}%2Fmock_benchmark"))
    expect(page.get_by_role("table", name="Samples of mock_benchmark")).to_contain_text(HOSTILE)
    page = watched.open(evals.compare("&view=quality"))
    expect(page.locator(".scatter")).to_be_visible()
    assert page.evaluate("() => [typeof window.pwned, document.images.length]") == ["undefined", 0]
