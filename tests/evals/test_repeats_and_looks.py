"""Samples that are asked several times, the baseline against itself, and stopping when a verdict is certain."""

import json
import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from evals_parts import HOLD, Many
from paceline.errors import PacelineError
from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    ExecutionResults,
    StreamingConfig,
)
from paceline.evals.comparison import compare
from paceline.evals.early_stop import RATE
from paceline.evals.exchange import exchange_test
from paceline.evals.interfaces import Prediction
from paceline.evals.repeats import repeated, score_repeats
from paceline.evals.samples import flip_rate, read_samples
from paceline.evals.scoring import in_parts, sample_group, score_again
from patience import wait_until
from workplace import Workplace


def run(
    base: Path, request: dict[str, Any], *, loss: float = 0.0, chance: float = 0.7, **params: int
) -> ExecutionResults:
    return BenchmarkExecutor(["cpu", "cpu"], 2, base).run_benchmark_matrix(
        ["m"],
        [("dense", None), ("sparse", StreamingConfig()), ("other", StreamingConfig(sink_size=9))],
        [BenchmarkConfig("evals_parts:Many", params=params)],
        AdapterConfig("evals_parts:CoinAdapter", model_kwargs={"chance": 0.7, "loss": loss}),
        request_kwargs=request,
    )


def test_pass_hat_k_and_the_flip_rate_by_hand() -> None:
    """Four answers each: all right, two right, none right."""
    samples = repeated(Many(documents=3).load(None, data_dir=None, revision=None), 4)
    right = {"d0-q0": 4, "d1-q0": 2, "d2-q0": 0}
    said: dict[str, Prediction] = {}
    for sample in samples:
        origin = str(sample.extra["repeat_of"])
        said[sample.id] = Prediction(sample_id=sample.id, text="yes" if right[origin] > 0 else "no")
        right[origin] -= 1
    found = score_repeats(Many(documents=3), samples, said)
    value = {name: metric.value for name, metric in found.metrics.items()}
    assert value["accuracy"] == pytest.approx((4 + 2 + 0) / 12) and value["flip_rate"] == pytest.approx(1 / 3)
    assert value["pass^1"] == pytest.approx(0.5)
    assert value["pass^2"] == pytest.approx((1 + 1 / 6 + 0) / 3)
    assert value["pass^3"] == pytest.approx(1 / 3) == value["pass^4"]
    assert set(found.per_sample) == set(said) and found.metrics["accuracy"].n == 12


def test_repeats_are_samples_of_their_own_and_belong_together(tmp_path: Path) -> None:
    once = run(tmp_path / "once", {}, documents=30)
    thrice = run(tmp_path / "thrice", {"repeat": 3}, documents=30)
    dense = thrice.individual_results[0]
    table = read_samples(dense, "accuracy")
    assert len(table.scores) == 90 and len(table.means().sums) == 30
    first = read_samples(once.individual_results[0], "accuracy").scores
    assert {name: table.scores[name] for name in first} == first, (
        "the first time is what once would have been"
    )
    assert 0.1 < dense.metrics["metrics"]["flip_rate"]["value"] < 1
    assert flip_rate(table) == pytest.approx(2 * 0.7 * 0.3, abs=0.2)
    assert score_again(Path(dense.result_dir)) == dense.metrics
    assert once.individual_results[0].stub.key != dense.stub.key


def test_the_baseline_is_held_against_itself(tmp_path: Path) -> None:
    found = compare(run(tmp_path, {"repeat": 2}, documents=60, loss=0.5).individual_results)
    (own,) = found.own
    assert (own.attention, own.baseline, own.n, own.verdict) == ("dense", "dense", 60, "same")
    assert own.low < 0 < own.high and 0.2 < own.flips < 0.7
    sparse = found.effects[0]
    assert sparse.verdict == "worse" and sparse.own_flips == own.flips and sparse.groups == 60
    alone = compare(run(tmp_path, {}, documents=60).individual_results)
    assert alone.own == () and alone.effects[0].own_flips is None


def test_it_stops_when_it_is_certain_and_says_after_how_many(tmp_path: Path) -> None:
    rule = {"early_stop": {"baseline": "dense", "looks": 5}}
    results = run(tmp_path, rule, documents=200, loss=0.6)
    counts = {one.stub.sparse_config_name: one.metrics["num_samples"] for one in results.individual_results}
    assert counts == {"dense": 200, "sparse": 40, "other": 40}
    sparse = results.individual_results[1]
    stopped = sparse.metrics["stopped"]
    assert (stopped["after"], stopped["of"], stopped["look"]) == (40, 200, 1) and stopped["p_value"] < 0.005
    found = compare(results.individual_results)
    assert [(one.verdict, one.stopped_after, one.of, one.n) for one in found.effects] == [
        ("worse", 40, 200, 40)
    ] * 2
    assert all(
        one.p_value == pytest.approx(min(1, 5 * stopped["p_value"]), rel=0.5) for one in found.effects[:1]
    )
    again = run(tmp_path, rule, documents=200, loss=0.6)
    assert again.execution_summary["skipped"] == 3
    assert score_again(Path(sparse.result_dir)) == sparse.metrics
    shown = Workplace(tmp_path).run("evals", "compare", str(results.directory))
    assert (
        "m/sparse/evals_parts:Many: decided after 40 of 200 samples" in shown.stdout and shown.returncode == 1
    )


def test_what_is_the_same_is_asked_to_the_end(tmp_path: Path) -> None:
    results = run(tmp_path, {"early_stop": {"baseline": "dense", "looks": 4}}, documents=80)
    assert {one.metrics["num_samples"] for one in results.individual_results} == {80}
    assert all(one.stopped_after is None for one in compare(results.individual_results).effects)


def test_a_baseline_that_fails_stops_nothing(tmp_path: Path) -> None:
    """The others are asked to the end, since there is nothing to hold them against."""
    rule = {"early_stop": {"baseline": "dense", "looks": 5}}
    results = BenchmarkExecutor(["cpu"], 1, tmp_path).run_benchmark_matrix(
        ["m"],
        [("dense", None), ("sparse", StreamingConfig())],
        [BenchmarkConfig("evals_parts:Many", params={"documents": 20})],
        AdapterConfig("evals_parts:DenseFails"),
        request_kwargs=rule,
    )
    assert (results.execution_summary["failed"], results.execution_summary["completed"]) == (1, 1)
    assert results.individual_results[0].metrics["num_samples"] == 20


def test_interrupting_cancels_what_waits_for_its_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    monkeypatch.setenv(HOLD, str(hold))

    def interrupt() -> None:
        wait_until(lambda: any(path.stat().st_size for path in tmp_path.rglob("predictions.jsonl")))
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    results = run(tmp_path / "out", {"early_stop": {"baseline": "dense", "looks": 5}}, documents=50)
    thread.join()
    assert results.interrupted and results.execution_summary["cancelled"] == 3
    hold.unlink()
    whole = run(tmp_path / "out", {"early_stop": {"baseline": "dense", "looks": 5}}, documents=50)
    assert whole.execution_summary["completed"] == 3


def test_several_looks_are_wrong_no_more_often_than_one() -> None:
    """Where there is no difference, 200 times with five looks each: the level holds, and a plain one would not."""
    samples = Many(documents=35).load(None, data_dir=None, revision=None)
    parts = [[one.id for one in part] for part in in_parts(samples, 5, 0)]
    corrected = plain = 0
    for turn in range(200):
        chance = random.Random(turn)
        seen: list[float] = []
        least = 1.0
        for part in parts:
            seen += [chance.betavariate(2, 2) - chance.betavariate(2, 2) for _ in part]
            least = min(least, exchange_test(seen, seed=turn))
        corrected += least <= RATE / 5
        plain += least <= RATE
    assert corrected / 200 <= 0.05 < plain / 200


def test_parts_hold_every_sample_once_and_documents_whole() -> None:
    samples = repeated(Many(documents=23, questions=2).load(None, data_dir=None, revision=None), 2)
    parts = list(in_parts(samples, 5, 3))
    assert sorted(one.id for part in parts for one in part) == sorted(one.id for one in samples)
    documents = [{sample_group(one) for one in part} for part in parts]
    assert sum(map(len, documents)) == 23 and {len(part) for part in documents} <= {4, 5}
    assert [[one.id for one in part] for part in in_parts(samples, 5, 3)] == [
        [one.id for one in part] for part in parts
    ]
    assert list(in_parts(samples, 5, 4)) != parts


@pytest.mark.parametrize(
    ("request_kwargs", "message"),
    [
        ({"repeat": 0}, "request_kwargs.repeat is an integer from 1"),
        ({"early_stop": 5}, "early_stop is {baseline: dense, looks: 5}"),
        ({"early_stop": {"baseline": "eager", "looks": 5}}, "no attention 'eager'"),
        ({"early_stop": {"baseline": "dense", "looks": 1}}, "looks is an integer from 2"),
    ],
)
def test_what_cannot_be_is_said_in_the_plan(
    tmp_path: Path, request_kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(PacelineError, match=message):
        run(tmp_path, request_kwargs)


SUITE = """\
evals:
  adapter: {name: 'evals_parts:CoinAdapter', model_kwargs: {chance: 0.8, loss: 0.6}}
  models: [m]
  attentions: [dense, {name: narrow, maskers: [{kind: streaming}]}]
  benchmarks: [{name: 'evals_parts:Many', params: {documents: 100}}]
  repeat: 2
  early_stop: {looks: 4}
  scheduler: shortest_first
"""


def test_a_suite_says_it_in_three_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    place = Workplace(tmp_path)
    place.write("suite.yaml", SUITE)
    ran = place.run("evals", "run", "suite.yaml", "--no-history", "--json")
    summary = json.loads(ran.stdout)
    dense, narrow = summary["results"]
    assert dense["num_samples"] == 200 and narrow["num_samples"] == 50, ran.stderr
    assert "pass^2" in dense["metrics"]
    compared = place.run("evals", "compare")
    assert "A/A m evals_parts:Many: dense differs from itself by " in compared.stdout
    assert "decided after 50 of 200 samples" in compared.stdout and compared.returncode == 1
