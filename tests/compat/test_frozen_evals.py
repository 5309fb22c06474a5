"""Results of evals that an older version left: found by their keys, so that only what is missing is computed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from frozen import Answer, answers, called, check, contents, frozen_place
from workplace import Workplace

ANSWERS = answers("evals")
STUBS: list[dict[str, Any]] = ANSWERS[0]["json"]
PARTIAL, NEW = "large/streaming/mock_benchmark", "large/streaming/mock_benchmark_reading_comprehension"


@pytest.fixture
def place() -> Iterator[Workplace]:
    """The results of an execution that is over, and of one that was killed at its last but one stub."""
    with frozen_place("evals") as place:
        yield place


def files_of_stubs(place: Workplace) -> dict[str, Any]:
    found = contents(place.path / "benchmark_results")
    return {name: content for name, content in found.items() if not name.startswith((".", "execution_"))}


@pytest.mark.parametrize("answer", ANSWERS, ids=called)
def test_it_is_read_as_it_was(place: Workplace, answer: Answer) -> None:
    check(place, answer)


def test_only_what_is_missing_is_computed(place: Workplace) -> None:
    before = files_of_stubs(place)
    done = place.run("evals", "run", "second.yaml", "--no-history", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    counts = {name: summary[name] for name in ("total", "skipped", "completed", "failed", "cancelled")}
    assert counts == {"total": 8, "skipped": 6, "completed": 2, "failed": 0, "cancelled": 0}
    assert [one["key"] for one in summary["results"]] == [stub["key"] for stub in STUBS]
    after = files_of_stubs(place)
    changed = {name for name in after if before.get(name) != after[name]}
    assert {name.rpartition("/")[0] for name in changed} == {PARTIAL, NEW} and before.keys() < after.keys()
    done_now = {name.rpartition("/")[0] for name in after if name.endswith("DONE.json")}
    assert len(done_now) == 8 and {PARTIAL, NEW} <= done_now


def test_a_stub_that_was_cut_short_keeps_its_answers(place: Workplace) -> None:
    file = place.path / "benchmark_results" / PARTIAL / "predictions.jsonl"
    before = file.read_bytes()
    assert 2 <= len(before.splitlines()) < 5
    assert place.run("evals", "run", "second.yaml", "--no-history", "--quiet").returncode == 0
    after = file.read_bytes()
    assert after.startswith(before) and len(after.splitlines()) == 5
    small = place.path / "benchmark_results/org_small/streaming/mock_benchmark/metrics.json"
    assert json.loads((file.parent / "metrics.json").read_text()) == json.loads(small.read_text())


def test_of_what_is_done_nothing_is_asked_again(place: Workplace) -> None:
    before = files_of_stubs(place)
    done = place.run("evals", "run", "first.yaml", "--no-history", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["skipped"] == 4 and files_of_stubs(place) == before


def test_another_seed_is_another_result(place: Workplace) -> None:
    """Else the tests above would say nothing: a version that takes every result for done would pass them."""
    suite = place.path / "first.yaml"
    suite.write_text(suite.read_text().replace("seed: 7", "seed: 8"))
    planned = json.loads(place.run("evals", "plan", "first.yaml", "--json").stdout)
    assert [stub["state"] for stub in planned] == ["new"] * 4
    assert {stub["key"] for stub in planned}.isdisjoint(stub["key"] for stub in STUBS)


def test_stored_answers_can_be_scored_again(place: Workplace) -> None:
    stub = place.path / "benchmark_results/org_small/streaming/mock_benchmark"
    before = (stub / "metrics.json").read_bytes(), (stub / "raw_results.csv").read_text().splitlines()
    done = place.run("evals", "score", stub)
    assert done.returncode == 0, done.stderr
    # The table has a further column since then: what each sample belongs to.
    rows = [line.rpartition(",")[0] for line in (stub / "raw_results.csv").read_text().splitlines()]
    assert ((stub / "metrics.json").read_bytes(), rows) == before
