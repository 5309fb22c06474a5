"""Attentions against a baseline: what so few samples can say, and which of them belong together."""

import csv
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from in_process import Here, make_here
from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    ExecutionResults,
    StreamingConfig,
)
from paceline.evals.comparison import Comparison, compare, exchange_test, fewest_groups
from paceline.evals.configs import BenchmarkStub
from paceline.evals.results import BenchmarkResult

Score = Callable[[random.Random], float]
SCORES: dict[str, Score] = {
    "binary": lambda chance: float(chance.random() < 0.6),
    "graded": lambda chance: chance.betavariate(2, 2),
}


def result(
    place: Path, attention: str, scores: Sequence[float], groups: Sequence[str] = (), task: str = "quiz"
) -> BenchmarkResult:
    """A result whose table has these scores."""
    directory = place / attention / task
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "raw_results.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sample_id", "score.accuracy", "group"])
        writer.writerows([f"s{i}", score, groups[i] if groups else ""] for i, score in enumerate(scores))
    value = {"value": sum(scores) / len(scores), "low": 0.0, "high": 1.0, "direction": "higher"}
    return BenchmarkResult(
        stub=BenchmarkStub(
            model_name="m",
            sparse_config_name=attention,
            sparse_attention_config=None,
            benchmark_name=task,
            subset=None,
            adapter_config=AdapterConfig("mock"),
            generation_kwargs={},
            result_dir=str(directory),
            key="",
            content={"benchmark": {"name": task}},
        ),
        metrics={
            "primary": "accuracy",
            "overall_score": value["value"],
            "metrics": {"accuracy": value},
            "density": 1.0,
        },
        execution_time=0.0,
        result_dir=str(directory),
        state="completed",
        facts={},
    )


def held(place: Path, old: Sequence[float], new: Sequence[float], groups: Sequence[str] = ()) -> Comparison:
    return compare([result(place, "dense", old, groups), result(place, "sparse", new, groups)])


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("count", [1, 2, 5, 10, 50])
def test_equal_attentions_are_hardly_ever_called_different(tmp_path: Path, kind: str, count: int) -> None:
    chance, score = random.Random(f"{kind} {count}"), SCORES[kind]
    called = 0
    for _ in range(60):
        old, new = ([score(chance) for _ in range(count)] for _ in range(2))
        (effect,) = held(tmp_path, old, new).effects
        called += effect.verdict in ("better", "worse")
        assert bool(effect.reason) == (count < 6)
    assert called <= 7  # 5 % of 60 is 3; more than 7 has a chance of one in a hundred
    assert count > 5 or called == 0


def test_few_samples_say_that_they_are_few(tmp_path: Path) -> None:
    (effect,) = held(tmp_path, [1.0] * 5, [0.0] * 5).effects
    assert effect.verdict == "inconclusive" and effect.reason == "too few: 5 samples, 6 can decide"
    (effect,) = held(tmp_path, [1.0], [1.0]).effects
    assert effect.verdict == "inconclusive" and (effect.low, effect.high) == (-1.0, 1.0)
    (effect,) = held(tmp_path, [1.0] * 6, [0.0] * 6).effects
    assert effect.verdict == "worse" and effect.p_value == pytest.approx(2 / 2**6)
    (effect,) = held(tmp_path, [0.5] * 9, [0.5] * 9).effects
    assert effect.verdict == "same"


def test_samples_of_one_document_count_as_one(tmp_path: Path) -> None:
    old, new = [1.0] * 40, [0.0] * 40
    documents = [f"document {i // 10}" for i in range(40)]
    (effect,) = held(tmp_path, old, new, documents).effects
    assert (effect.n, effect.groups, effect.verdict) == (40, 4, "inconclusive")
    assert effect.reason == "too few: 4 documents (40 samples), 6 can decide"
    # What all samples have in common is a part of what is asked.
    (effect,) = held(tmp_path, old, new, ["the one document"] * 40).effects
    assert (effect.groups, effect.verdict) == (40, "worse")


def test_all_effects_are_corrected_for_together(tmp_path: Path) -> None:
    """Of forty that are the same, some are different by chance alone."""
    chance = random.Random(5)
    results = []
    for task in range(40):
        for attention in ("dense", "sparse"):
            scores = [float(chance.random() < 0.5) for _ in range(30)]
            results.append(result(tmp_path, attention, scores, task=f"quiz{task}"))
    found = compare(results)
    assert min(one.p_value for one in found.effects) < 0.05
    assert {one.verdict for one in found.effects} == {"inconclusive"}
    assert fewest_groups(40, 0.05) == 11


def test_the_exchange_test_is_exact_where_it_can_be() -> None:
    assert exchange_test([1.0, 1.0, 1.0]) == 0.25 and exchange_test([0.0, 0.0]) == 1.0
    assert exchange_test([1.0] * 14) == pytest.approx(2 / 2**14)
    many = exchange_test([1.0] * 9 + [-1.0] * 6)
    assert many == pytest.approx(0.607, abs=0.02)
    assert exchange_test([1.0] * 60) < 1e-4


@pytest.fixture(scope="module")
def execution(tmp_path_factory: pytest.TempPathFactory) -> ExecutionResults:
    """Twelve texts with a question each, under two attentions."""
    place = tmp_path_factory.mktemp("evals")
    place.joinpath("data").mkdir()
    rows = [
        {
            "id": f"q{i}",
            "context": f"The code of door {i} is {1000 + i}. " + "Nothing else. " * 20,
            "question": f"What is the code of door {i}?",
            "answer": str(1000 + i),
        }
        for i in range(12)
    ]
    place.joinpath("data/mock_benchmark.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return BenchmarkExecutor(["cpu"], 1, place / "results").run_benchmark_matrix(
        ["m"],
        [("dense", None), ("streaming", StreamingConfig(sink_size=4, window_size=8))],
        [BenchmarkConfig("mock_benchmark", data_dir=str(place / "data"))],
        AdapterConfig("mock"),
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def test_what_is_kept_of_a_stub_says_which_samples_belong_together(execution: ExecutionResults) -> None:
    (effect,) = execution.compare().effects
    assert (effect.n, effect.groups, effect.verdict) == (12, 12, "worse")


def test_a_gate_that_can_fail(execution: ExecutionResults, here: Here) -> None:
    results = execution.directory
    done = here.run("evals", "compare", results)
    assert done.returncode == 1 and "worse" in done.stdout
    # Held against itself alone, there is nothing to compare.
    summary_path = results / "execution_summary.json"
    whole = json.loads(summary_path.read_text())
    dense = [one for one in whole["results"] if one["attention"] == "dense"]
    failure = {"model": "m", "attention": "streaming", "benchmark": "mock_benchmark", "subset": None}
    failed = {**failure, "error_type": "WorkerDied", "error_message": "gone"}
    try:
        summary_path.write_text(json.dumps({**whole, "results": dense}))
        done = here.run("evals", "compare", results)
        (line,) = done.stderr.splitlines()
        assert done.returncode == 2 and line.startswith("nothing was compared: dense stands alone")
        same = [one | {"attention": one["attention"]} for one in whole["results"]]
        summary_path.write_text(
            json.dumps({**whole, "results": same, "failures": [failed | {"subset": "hard"}]})
        )
        done = here.run("evals", "compare", results, "--baseline", "streaming")
        assert done.returncode == 0, "what the baseline failed at is not the fault of others"
        done = here.run("evals", "compare", results, "--json")
        assert json.loads(done.stdout)["gone"] == ["m/streaming/mock_benchmark_hard"]
    finally:
        summary_path.write_text(json.dumps(whole))


def test_an_attention_that_lacks_what_the_baseline_has_fails(tmp_path: Path) -> None:
    pairs = [result(tmp_path, name, [1.0, 0.0] * 5, task="one") for name in ("dense", "sparse")]
    found = compare([*pairs, result(tmp_path, "dense", [1.0] * 9, task="two")])
    assert found.gone == ("m/sparse/two",) and found.effects[0].verdict == "same"
