"""The page's one function of statistics says what Python's does, and a comparison on the page what the command says."""

import json
import math
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from dashboard_browser import Watched
from dashboard_server import serving
from dashboard_site import NIGHTS, build_site, make_history
from paceline.judge.comparison import Noise, compare_sessions
from paceline.judge.discoveries import holm
from paceline.model import Verdict
from stored_records import session
from workplace import Workplace

PAIRS = 1000
ASK = """pairs => pairs.map(({ baseline, candidate, ...options }) => {
  const sides = [baseline, candidate].map(side => side.map(values => Float64Array.from(values)));
  const found = pacelineDashboard.compareSessions(...sides, options);
  const plain = (_, value) => Math.abs(value) === Infinity ? String(value) : value;
  return JSON.parse(JSON.stringify(found, plain));
})"""


def generated(chance: random.Random) -> dict[str, Any]:
    """A pair of sides: few samples and many, sizes of all kinds, drifting, equal, negative and zero."""
    level = 10 ** chance.uniform(-9, 9)
    shift = chance.choice([1.0, 1.0, 1.02, 1.04, 0.9, 1.5, 25.0, 0.01])
    spread = chance.choice([0.0, 0.001, 0.01, 0.05, 0.3])
    kind = chance.choice(["positive"] * 6 + ["mixed", "negative", "zeros"])

    def samples(of: float) -> list[float]:
        count = chance.choice([1, 1, 2, 3, 5, 9, 10, 11, 30, 200])
        drift = chance.choice([0.0, 0.0, 0.002])
        values = [of * math.exp(chance.gauss(0, spread) + drift * i) for i in range(count)]
        if kind == "zeros":
            return [chance.choice([0.0, value]) for value in values]
        sign = -1 if kind == "negative" else 1
        return [value * (chance.choice([-1, 1]) if kind == "mixed" else sign) for value in values]

    sides = [
        [samples(of) for _ in range(chance.choice([1, 1, 1, 2, 3, 4, 8]))] for of in (level, level * shift)
    ]
    noise = None
    if chance.random() < 0.4:
        relative = chance.choice([0.002, 0.01, 0.1])
        known = relative if kind == "positive" or chance.random() < 0.5 else None
        noise = {
            "relative": known,
            "absolute": relative * level,
            "freedom": chance.choice([5, 12.5, 28, 100]),
        }
    margin = chance.choice([0.03, 0.03, 0.1])
    words = {"noise": noise, "higherIsBetter": chance.random() < 0.5, "margin": margin}
    return {"baseline": sides[0], "candidate": sides[1], **words}


def of_python(pair: dict[str, Any]) -> dict[str, Any]:
    found = compare_sessions(
        pair["baseline"],
        pair["candidate"],
        noise=Noise(**pair["noise"]) if pair["noise"] else None,
        higher_is_better=pair["higherIsBetter"],
        margin=pair["margin"],
    )
    told = asdict(found)
    names = {"minimum_detectable": "detectable", "p_value": "p"}
    return {names.get(name, name): value for name, value in told.items()}


def test_a_thousand_pairs_are_compared_alike(watched: Watched, site: str) -> None:
    chance = random.Random(19)
    pairs = [generated(chance) for _ in range(PAIRS)]
    found = watched.open(site).evaluate(ASK, pairs)
    verdicts: dict[Verdict, int] = {}
    for pair, ours in zip(pairs, found, strict=True):
        expected = of_python(pair)
        verdicts[expected["verdict"]] = verdicts.get(expected["verdict"], 0) + 1
        assert ours["verdict"] == expected["verdict"], pair
        levels = dict(zip(("baseline", "candidate"), ours.pop("levels"), strict=True))
        for name, value in {**ours, **levels}.items():
            if name != "verdict":
                assert float(value) == pytest.approx(expected[name], rel=1e-7, abs=1e-12), (name, pair)
    assert min(verdicts.values()) >= 50 and len(verdicts) == 4, "pairs of every kind"


def test_many_p_values_are_corrected_alike(watched: Watched, site: str) -> None:
    chance = random.Random(7)
    lists = [
        [chance.random() ** chance.choice([1, 3, 9]) for _ in range(count)] for count in (0, 1, 2, 5, 150)
    ]
    lists.append([0.01, 0.01, 0.01, 0.02, 1.0])
    found = watched.open(site).evaluate("lists => lists.map(pacelineDashboard.holm)", lists)
    assert found == [pytest.approx(list(holm(values))) for values in lists]


@pytest.fixture
def compared(place: Workplace) -> tuple[Workplace, list[Any]]:
    """A history in a place, and what the command says of two of its sessions."""
    make_history(place.path / "benchmark.db")
    names = [session(night).name for night in (NIGHTS - 21, NIGHTS - 1)]
    told = json.loads(place.run("compare", *names, "--json").stdout)
    return place, told["comparisons"]


def rows_of(watched: Watched, address: str) -> list[Any]:
    ids = [session(night).id for night in (NIGHTS - 21, NIGHTS - 1)]
    page = watched.open(f"{address}#/compare?a=s%3A{ids[0]}&b=s%3A{ids[1]}&verdict=all")
    expect(page.locator("table.rows tbody tr").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    rows: list[Any] = json.loads(Path(download.value.path()).read_text())["comparisons"]
    return rows


def test_a_site_says_what_the_command_says(compared: tuple[Workplace, list[Any]], watched: Watched) -> None:
    place, told = compared
    build_site(place.path / "benchmark.db", place.path / "site")
    found = rows_of(watched, f"{(place.path / 'site').as_uri()}/index.html")
    ours = {(one["case"], one["metric"]): one for one in found}
    assert ours.keys() == {(one["case"], one["metric"]) for one in told}
    for one in told:
        row = ours[one["case"], one["metric"]]
        assert row["ratio"] == pytest.approx(one["ratio"])
        if one["verdict"] == "worse":
            assert row["verdict"] == "worse"
    assert any(one["verdict"] == "worse" for one in told)


def test_a_server_answers_with_the_commands_own_numbers(
    compared: tuple[Workplace, list[Any]], watched: Watched
) -> None:
    place, told = compared
    with serving(place) as port:
        found = rows_of(watched, f"http://localhost:{port}/")
    names = {
        "minimum_detectable": "detectable",
        "p_adjusted": "p",
        "baseline": "before",
        "candidate": "after",
    }
    for one, row in zip(told, found, strict=True):
        for name in ("case", "metric", "verdict", "ratio", "low", "high", *names):
            assert row[names.get(name, name)] == pytest.approx(one[name]), name
