"""The seed's interface: its examples, its directories, and what a second run does not do again."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import PacelineError
from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    ExecutionProgress,
    ExecutionResults,
    ExecutorOptions,
    HashAttentionConfig,
    LocalMaskerConfig,
    ModelConfig,
    SinkMaskerConfig,
    SparseAttentionConfig,
    StreamingConfig,
    compare,
)
from paceline.evals.results import Pace
from paceline.evals.scoring import score_again
from paceline.evals.stub_files import DONE, PREDICTIONS, RAW
from paceline.history.session_files import read_session

MODELS = ["microsoft/Phi-4-mini-instruct", "meta-llama/Llama-3.1-8B-Instruct"]
MOCK = AdapterConfig(adapter_name="mock", model_kwargs={"torch_dtype": "bfloat16"})
SINK_LOCAL = SparseAttentionConfig(maskers=[SinkMaskerConfig(sink_size=4), LocalMaskerConfig(window_size=64)])


def tasks(*subsets: str) -> BenchmarkConfig:
    return BenchmarkConfig("evals_parts:Tasks", list(subsets))


def run(base: Path, window: int = 8, **options: Any) -> ExecutionResults:
    """The first example of the seed, with the mock adapter."""
    executor = BenchmarkExecutor(["cpu", "cpu"], max_concurrent_runs=2, base_result_dir=base, **options)
    return executor.run_benchmark_matrix(
        model_names=MODELS,
        sparse_attention_configs=[
            ("dense", None),
            ("streaming", StreamingConfig(sink_size=4, window_size=window)),
        ],
        benchmark_configs=[tasks("task0", "task1"), BenchmarkConfig("mock_benchmark")],
        adapter_config=MOCK,
        generation_kwargs={"max_new_tokens": 256},
    )


def counts(results: ExecutionResults) -> tuple[int, int, int, int]:
    summary = results.execution_summary
    parts = tuple(summary[name] for name in ("completed", "skipped", "failed", "cancelled"))
    assert sum(parts) == summary["total"]
    return parts  # type: ignore[return-value]


@pytest.fixture(scope="module")
def basic(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ExecutionResults, list[ExecutionProgress]]:
    base = tmp_path_factory.mktemp("results")
    seen: list[ExecutionProgress] = []
    return base, run(base, on_progress=seen.append), seen


Basic = tuple[Path, ExecutionResults, list[ExecutionProgress]]


def test_the_basic_example_makes_twelve_stubs_in_the_drawn_directories(basic: Basic) -> None:
    base, results, _ = basic
    assert counts(results) == (12, 0, 0, 0)
    stub = base / "meta_llama_Llama_3.1_8B_Instruct" / "streaming" / "mock_benchmark"
    assert stub.is_dir() and (base / "microsoft_Phi_4_mini_instruct/dense/evals_parts_Tasks_task0").is_dir()
    with (stub / "raw_results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["predicted_answer"].startswith("The harbour of Tarn")
    metrics = json.loads((stub / "metrics.json").read_bytes())
    assert metrics["overall_score"] == sum(float(row["score.accuracy"]) for row in rows) / 5
    assert 0 < metrics["density"] < 1


def test_the_summary_is_on_disk_with_links_to_all_results(basic: Basic) -> None:
    _, results, _ = basic
    summary = json.loads((results.directory / "execution_summary.json").read_bytes())
    assert summary["total"] == 12 and len(summary["results"]) == 12 and not summary["failures"]
    for result in summary["results"]:
        assert not Path(result["directory"]).is_absolute()
        assert (results.directory / result["directory"] / "metrics.json").is_file()
    linked = results.directory / "meta_llama_Llama_3.1_8B_Instruct" / "dense" / "mock_benchmark"
    assert linked.is_symlink() and (linked / "raw_results.csv").is_file()


def test_progress_counts_up_and_says_what_devices_do(basic: Basic) -> None:
    _, _, seen = basic
    assert seen[-1].completed_stubs == seen[-1].total_stubs == 12
    assert seen[-1].completion_percentage == 100 and not seen[-1].current_executions
    assert any("cpu:0" in progress.current_executions for progress in seen)
    done = [progress.ended_stubs for progress in seen]
    assert done == sorted(done)


def test_an_execution_is_a_session_whose_records_go_into_the_history(basic: Basic) -> None:
    _, results, _ = basic
    session, environment, records, _ = read_session(results.directory)
    found = {record.case.key: record for record in records}
    assert len(found) == 12 and session.name == results.directory.name and environment["id"]
    record = found["mock_benchmark[attention=dense,model=meta-llama/Llama-3.1-8B-Instruct]"]
    assert record.status.ok and record.metrics["accuracy"].value == 1.0
    assert record.metrics["accuracy"].direction == "higher" and record.metrics["exec_time_s"].unit == "s"


def test_results_make_a_table(basic: Basic) -> None:
    _, results, _ = basic
    table = results.to_dataframe()
    assert len(table) == 12 and set(table["attention"]) == {"dense", "streaming"}
    assert table["score"].between(0, 1).all()


def test_attentions_are_compared_on_the_same_samples(basic: Basic) -> None:
    _, results, _ = basic
    comparison = results.compare(baseline="dense")
    assert len(comparison.effects) == 6 and not comparison.missing
    assert all(
        effect.n == 5 and effect.low <= effect.difference <= effect.high for effect in comparison.effects
    )
    # Three texts are too few to say, however the five questions about them were answered.
    assert {(effect.verdict, effect.groups) for effect in comparison.effects} == {("inconclusive", 3)}
    assert all(effect.reason.startswith("too few: 3 documents") for effect in comparison.effects)
    # The mock benchmark's rows are toys, the others pass for real ones: there is no mean over both.
    assert comparison.pareto == () and len(comparison.refused) == 2
    assert comparison.refused[0].startswith(f"no mean for {MODELS[0]}: its results are of real and toy rows")
    real = compare([result for result in results.individual_results if result.stub.source == "real"])
    assert {point.attention for point in real.pareto if point.on_front} == {"dense", "streaming"}
    with pytest.raises(PacelineError, match="there are: dense, streaming"):
        results.compare(baseline="eager")


def test_a_second_run_skips_all_and_reads_results_back(basic: Basic) -> None:
    base, first, _ = basic
    second = run(base)
    assert counts(second) == (0, 12, 0, 0)
    assert [result.metrics for result in second.individual_results] == [
        result.metrics for result in first.individual_results
    ]
    assert {result.state for result in second.individual_results} == {"skipped"}
    assert second.directory != first.directory


def test_one_changed_parameter_runs_its_stubs_only_and_beside_the_old_ones(tmp_path: Path) -> None:
    run(tmp_path)
    changed = run(tmp_path, window=9)
    assert counts(changed) == (6, 6, 0, 0)
    fresh = {Path(r.result_dir).name for r in changed.individual_results if r.state == "completed"}
    assert all(name[-9] == "-" and int(name[-8:], 16) >= 0 for name in fresh)
    assert counts(run(tmp_path)) == counts(run(tmp_path, window=9)) == (0, 12, 0, 0)


def test_the_advanced_example_makes_32_stubs(tmp_path: Path) -> None:
    executor = BenchmarkExecutor(gpu_ids=[0, 1, 2, 3], max_concurrent_runs=8, base_result_dir=tmp_path)
    results = executor.run_benchmark_matrix(
        model_names=MODELS,
        sparse_attention_configs=[
            ("dense", None),
            ("streaming", StreamingConfig()),
            ("hash_attention", HashAttentionConfig(heavy_size=0.1)),
            ("sink_local", SINK_LOCAL),
        ],
        benchmark_configs=[tasks("task0", "task1", "task2"), BenchmarkConfig("mock_benchmark")],
        adapter_config=MOCK,
        generation_kwargs={"max_new_tokens": 512},
    )
    assert counts(results) == (32, 0, 0, 0)


@pytest.mark.parametrize(
    ("name", "damage"), [(PREDICTIONS, b""), (PREDICTIONS, b'{"torn'), (RAW, b""), (DONE, b"no json\n")]
)
def test_damaged_results_are_made_good(basic: Basic, name: str, damage: bytes) -> None:
    base, _, _ = basic
    stub = base / "meta_llama_Llama_3.1_8B_Instruct" / "dense" / "mock_benchmark"
    before = {file: (stub / file).read_bytes() for file in (RAW, "metrics.json")}
    (stub / name).write_bytes(damage)
    assert counts(run(base)) == (1, 11, 0, 0)
    assert {file: (stub / file).read_bytes() for file in before} == before


def test_a_changed_answer_on_disk_is_asked_again(basic: Basic) -> None:
    base, _, _ = basic
    stub = base / "meta_llama_Llama_3.1_8B_Instruct" / "dense" / "mock_benchmark"
    lines = (stub / PREDICTIONS).read_text()
    (stub / PREDICTIONS).write_text(lines.replace("Ilse Brandt", "Somebody else"))
    assert counts(run(base)) == (1, 11, 0, 0)
    assert json.loads((stub / DONE).read_bytes())["facts"]["asked"] == 1


def test_scoring_can_be_repeated_and_changes_nothing(basic: Basic) -> None:
    base, _, _ = basic
    stub = base / "microsoft_Phi_4_mini_instruct" / "streaming" / "mock_benchmark"
    before = (stub / "metrics.json").read_bytes(), (stub / RAW).read_bytes()
    (stub / RAW).unlink()
    assert score_again(stub)["overall_score"] == json.loads(before[0])["overall_score"]
    assert ((stub / "metrics.json").read_bytes(), (stub / RAW).read_bytes()) == before
    assert counts(run(base)) == (0, 12, 0, 0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"benchmark_configs": [BenchmarkConfig("evals_parts:Tasks", ["task7"])]}, "did you mean 'task"),
        ({"benchmark_configs": [BenchmarkConfig("longbunch")]}, "unknown eval_benchmark 'longbunch'"),
        ({"benchmark_configs": [BenchmarkConfig("mock_benchmark", params={"x": 1})]}, "params do not fit"),
        ({"adapter_config": AdapterConfig("nobody")}, "unknown eval_adapter 'nobody'"),
        ({"adapter_config": AdapterConfig("mock", model_kwargs={"x": 1})}, "no model_kwargs 'x'"),
        ({"model_names": []}, "at least one model"),
        ({"model_names": ["a", "a"]}, "'a' is given twice"),
        ({"sparse_attention_configs": [("x", None), ("x", None)]}, "attention 'x' is given twice"),
        ({"sparse_attention_configs": [("x", [])]}, "needs a masker"),
        ({"generation_kwargs": {"callback": print}}, "generation_kwargs.callback"),
        ({"request_kwargs": {"max_tokens": 1}}, "max_requests"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    base = tmp_path / "results"
    arguments: dict[str, Any] = {
        "model_names": ["m"],
        "sparse_attention_configs": [("dense", None)],
        "benchmark_configs": [BenchmarkConfig("mock_benchmark")],
        "adapter_config": AdapterConfig("mock"),
        **changed,
    }
    with pytest.raises(PacelineError, match=message):
        BenchmarkExecutor(["cpu"], 1, base).run_benchmark_matrix(**arguments)
    assert not base.exists()


def test_subsets_are_all_of_several_and_none_of_one(tmp_path: Path) -> None:
    executor = BenchmarkExecutor(["cpu"], 1, tmp_path)
    results = executor.run_benchmark_matrix(
        [ModelConfig("m", revision="abc")],
        [("dense", None)],
        [BenchmarkConfig("evals_parts:Tasks"), BenchmarkConfig("mock_benchmark")],
        AdapterConfig("mock"),
        request_kwargs={"max_requests": 2},
    )
    subsets = [result.stub.subset for result in results.individual_results]
    assert subsets == ["task0", "task1", "task2", None]
    assert {result.metrics["num_samples"] for result in results.individual_results} == {2}


def test_no_model_shares_a_directory_with_the_executions_own_files(tmp_path: Path) -> None:
    models = [
        "workers",
        "_workers",
        "plan.json",
        "results.csv",
        "mock_benchmark[attention=dense,model=workers]",
    ]
    executor = BenchmarkExecutor(["cpu"], 1, tmp_path, options=ExecutorOptions(exporters=["csv"]))
    results = executor.run_benchmark_matrix(
        models, [("dense", None)], [BenchmarkConfig("mock_benchmark")], AdapterConfig("mock")
    )
    assert counts(results) == (5, 0, 0, 0)
    assert {path.suffix for path in (results.directory / "workers").iterdir()} == {".log"}
    assert (results.directory / "results.csv").is_file() and (results.directory / "plan.json").is_file()
    linked = {path.resolve() for path in results.directory.glob("*/dense/mock_benchmark")}
    assert linked == {Path(result.result_dir) for result in results.individual_results}
    assert len(list(read_session(results.directory)[2])) == 5


def test_attentions_are_held_against_each_other_on_what_all_of_them_have(basic: Basic) -> None:
    _, results, _ = basic
    phi, llama = MODELS
    real = [result for result in results.individual_results if result.stub.source == "real"]
    hard = [r for r in real if r.stub.name == f"{phi}/streaming/evals_parts:Tasks_task1"]
    left = [r for r in real if r not in hard]
    found = {(p.model, p.attention): p.quality for p in compare(left).pareto}
    whole = {(p.model, p.attention): p.quality for p in compare(real).pareto}
    assert found[llama, "dense"] == whole[llama, "dense"] and found.keys() == whole.keys()
    one_only = [r for r in left if r.stub.model_name == phi and r.stub.subset == "task0"]
    assert len(hard) == 1 and found[phi, "streaming"] == compare(one_only).pareto[1].quality


def test_benchmarks_of_one_name_with_other_parameters_are_compared_apart(tmp_path: Path) -> None:
    results = BenchmarkExecutor(["cpu"], 1, tmp_path).run_benchmark_matrix(
        ["m"],
        [("dense", None), ("streaming", StreamingConfig(sink_size=4, window_size=8))],
        [BenchmarkConfig("mock_benchmark"), BenchmarkConfig("mock_benchmark", params={"repeat": 2})],
        AdapterConfig("mock"),
    )
    comparison = results.compare()
    assert sorted(effect.n for effect in comparison.effects) == [5, 10] and not comparison.missing


def test_the_pace_counts_what_stubs_took_before_and_what_is_answered() -> None:
    pace = Pace({0: 10.0, 1: 30.0, 2: None, 3: None})  # the unknown ones count 20 each
    assert pace.eta_s(5.0, []) is None
    pace.end(3, ran=False)
    assert pace.eta_s(5.0, [(0, 0.5)]) == 55.0
    pace.end(0, ran=True)
    assert pace.eta_s(10.0, []) == 50.0
    pace.end(1, ran=True)
    pace.end(2, ran=True)
    assert pace.eta_s(70.0, []) == 0.0
