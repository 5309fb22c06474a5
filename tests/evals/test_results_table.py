"""Results as tables and pictures: a row for each stub, means over subsets with intervals, and the front."""

import csv
import io
import json
import random
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from paceline.errors import PacelineError
from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    ExecutionResults,
    StreamingConfig,
    load_results,
)
from paceline.evals.plot import draw
from paceline.evals.quality import ParetoPoint, front, quality
from paceline.evals.samples import Means, mean_interval, strata_interval
from paceline.evals.scoring import score_again
from paceline.evals.table import as_csv, as_latex, as_markdown, as_parquet, export, read_rows
from workplace import Workplace

HOSTILE = "a_b&<c>|%"


@pytest.fixture(scope="module")
def execution(tmp_path_factory: pytest.TempPathFactory) -> ExecutionResults:
    base = tmp_path_factory.mktemp("results")
    (base / "script").mkdir()
    executor = BenchmarkExecutor(["cpu"], 1, base / "out")
    return executor.run_benchmark_matrix(
        ["plain", HOSTILE],
        [("dense", None), ("narrow", StreamingConfig(sink_size=4, window_size=8))],
        [BenchmarkConfig("evals_parts:Tasks", ["task0", "task1"], params={"samples": 10})],
        AdapterConfig("mock", model_kwargs={"seconds_per_sample": 0.001, "seconds_to_load": 0.3}),
    )


def test_a_row_has_all_that_is_known_of_a_stub(execution: ExecutionResults) -> None:
    table = load_results(execution.directory)
    assert len(table) == 8 and list(load_results(execution.directory.parent)["key"]) == list(table["key"])
    row = table[(table["model"] == "plain") & (table["attention"] == "narrow")].iloc[0]
    assert json.loads(row["parameters"])["maskers"][0]["window_size"] == 8
    assert (row["benchmark"], row["subset"], row["num_samples"]) == ("evals_parts:Tasks", "task0", 10)
    assert row["score_low"] <= row["score"] <= row["score_high"] and 0 < row["density"] < 1
    assert row["documents"] == 3 and row["primary"] == "accuracy"
    assert (
        row["seconds_per_sample"] == row["generate_s"] / 10 and row["input_tokens"] > row["output_tokens"] > 0
    )
    assert execution.to_dataframe()["score"].tolist() == table["score"].tolist()


def test_loading_is_on_nobodys_bill(execution: ExecutionResults) -> None:
    """Loading a model takes 0.3 s here, and a sample a thousandth."""
    table = load_results(execution.directory)
    assert sorted(table["load_s"] > 0.2) == [False] * 6 + [True] * 2, "one load a model"
    assert table["generate_s"].tolist() == pytest.approx([0.01] * 8)


def test_scoring_again_keeps_the_times_of_generating(execution: ExecutionResults) -> None:
    before = load_results(execution.directory).to_dict("records")
    for result in execution.individual_results:
        score_again(Path(result.result_dir))
    assert load_results(execution.directory).to_dict("records") == before


def test_what_failed_is_a_row_too(tmp_path: Path) -> None:
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "generate-wrong").touch()
    results = BenchmarkExecutor(["cpu"], 1, tmp_path / "out").run_benchmark_matrix(
        ["m"],
        [("dense", None)],
        [BenchmarkConfig("evals_parts:Tasks", ["task0", "task1"])],
        AdapterConfig("evals_parts:TornAdapter", model_kwargs={"script": str(tmp_path / "script")}),
    )
    rows = read_rows(results.directory)
    assert [row["state"] for row in rows] == ["completed", "failed"]
    assert rows[1]["error"] == "ValueError: wrong argument" and "score" not in rows[1]
    for text in (as_markdown(rows), as_latex(rows), as_csv(rows)):
        assert "failed" in text and "wrong argument" in text


def test_every_format_has_every_stub(execution: ExecutionResults) -> None:
    pandas = pytest.importorskip("pandas")
    rows = read_rows(execution.directory)
    found = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert [one["key"] for one in found] == [row["key"] for row in rows]
    assert {one["model"] for one in found} == {"plain", HOSTILE}
    table = pandas.read_parquet(io.BytesIO(as_parquet(rows)))
    assert table["score"].tolist() == [row["score"] for row in rows]
    markdown = as_markdown(rows).splitlines()
    assert len(markdown) == 10 and {line.replace("\\|", "").count("|") for line in markdown} == {11}
    assert "narrow streaming(sink_size=4, window_size=8)" in markdown[4]
    latex = as_latex(rows)
    assert latex.count(r"\\") == 9 and r"a\_b\&\textless{}c\textgreater{}|\%" in latex
    assert export(rows, "latex") == latex.encode()
    with pytest.raises(PacelineError, match="no stub to export"):
        export([], "csv")


def test_a_mean_over_subsets_has_an_interval_and_a_cost(execution: ExecutionResults) -> None:
    points, refused = quality(execution.individual_results)
    assert not refused and len(points) == 4
    dense, narrow = points[:2]
    assert (dense.quality, dense.high, dense.density) == (1.0, 1.0, 1.0)
    assert dense.low is not None and 0.2 < dense.low < 1, "six right answers do not prove that all are"
    assert narrow.low is not None and narrow.high is not None and narrow.low <= narrow.quality <= narrow.high
    assert dense.on_front and narrow.on_front and narrow.density is not None and narrow.density < 1
    assert dense.seconds is not None and 0 < dense.seconds < 0.01


def test_intervals_over_subsets_cover_what_they_should() -> None:
    """Three subsets of unlike size and ease, 200 times: the mean over them lies within 95 of 100 intervals or so."""
    chance, ease, sizes = random.Random(4), (0.9, 0.5, 0.2), (12, 20, 40)
    hits = 0
    for _ in range(200):
        strata = [
            Means(
                sums=[float(chance.random() < one) for _ in range(size)],
                sizes=[1.0] * size,
                bounds=(0.0, 1.0),
            )
            for one, size in zip(ease, sizes, strict=True)
        ]
        found = strata_interval(strata)
        assert found is not None
        hits += found[0] <= sum(ease) / 3 <= found[1]
    assert 0.91 <= hits / 200 <= 1


def test_what_an_interval_cannot_be_of() -> None:
    one, two = (Means(sums=[1.0] * count, sizes=[1.0] * count, bounds=(0.0, 1.0)) for count in (1, 40))
    assert mean_interval(one) is None and strata_interval([two, one]) is None
    found = mean_interval(two)
    assert found is not None and found[1] == 1.0 and found[0] == pytest.approx(0.025 ** (1 / 40), abs=0.02)


def test_a_picture_is_drawn_in_both_forms(execution: ExecutionResults) -> None:
    points, _ = quality(execution.individual_results)
    for against in ("density", "latency"):
        picture = ElementTree.fromstring(draw(points, against, "svg"))
        texts = [str(element.text) for element in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert f"Quality against {against}" in texts and HOSTILE in texts and texts.count("narrow") == 2
        assert len(list(picture.iter("{http://www.w3.org/2000/svg}circle"))) == 4
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(draw(points, "density", "png")))
    assert image.format == "PNG" and image.size == (1800, 1040) and len(image.getcolors(1 << 20)) > 10


def point(attention: str, quality: float, density: float | None, source: str = "real") -> ParetoPoint:
    return ParetoPoint(
        model="m",
        attention=attention,
        quality=quality,
        low=None,
        high=None,
        density=density,
        seconds=None,
        source=source,
    )


def test_the_front_is_what_nobody_beats() -> None:
    points = [point("a", 0.9, 1.0), point("b", 0.9, 0.5), point("c", 0.4, 0.5), point("d", 0.3, 0.1)]
    assert [one.attention for one in front([*points, point("e", 1.0, None)], lambda one: one.density)] == [
        "b",
        "d",
    ]


def test_toy_rows_are_named_in_the_picture_and_nothing_to_draw_is_said() -> None:
    assert b"TOY ROWS" in draw([point("a", 0.5, 0.5, "toy")], "density", "svg")
    with pytest.raises(PacelineError, match="no attention has a known latency"):
        draw([point("a", 0.5, 0.5)], "latency", "svg")


SUITE = """\
evals:
  adapter: {name: mock}
  models: [m]
  attentions: [dense, {name: narrow, maskers: [{kind: streaming, sink_size: 4, window_size: 8}]}]
  benchmarks: [mock_benchmark, {name: 'evals_parts:Tasks', subsets: [task0]}]
"""


def test_the_commands_write_files_and_say_what_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    place = Workplace(tmp_path)
    place.write("suite.yaml", SUITE)
    assert place.run("evals", "run", "suite.yaml", "--no-history", "--quiet").returncode == 0
    printed = place.run("evals", "export", "--format", "md")
    assert printed.stdout.count("\n") == 6 and "note: 2 of toy rows of ours" in printed.stderr
    done = place.run("evals", "export", "--format", "parquet", "--output", "results.parquet")
    assert done.stdout == "4 stubs in results.parquet\n" and (place.path / "results.parquet").is_file()
    assert place.run("evals", "export", "--format", "parquet").returncode == 2
    # The model has toy rows and others: there is no mean over both.
    mixed = place.run("evals", "plot", "--output", "quality.svg")
    assert mixed.returncode == 2 and "no mean for m: its results are of real and toy rows" in mixed.stderr
    place.write("suite.yaml", SUITE.replace("mock_benchmark, ", ""))
    assert place.run("evals", "run", "suite.yaml", "--no-history", "--quiet").returncode == 0
    drawn = place.run("evals", "plot", "--output", "quality.svg")
    assert drawn.returncode == 0 and drawn.stdout.splitlines()[-1] == "quality.svg"
    assert b"</svg>" in (place.path / "quality.svg").read_bytes()
    assert place.run("evals", "plot", "--output", "quality.pdf").returncode == 2
