"""Rows that are not a benchmark's own are called so wherever a result is seen, and never averaged with others."""

import csv
import json
from pathlib import Path

import pytest

from in_process import Here, make_here
from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    ExecutionResults,
    ExecutorOptions,
    StreamingConfig,
)
from paceline.history.session_files import read_session

NAMES = {"toy-longbench_qasper", "generated-ruler_vt", "longbench_trec"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ExecutionResults:
    place = tmp_path_factory.mktemp("rows")
    data = place / "data"
    data.mkdir()
    row = {
        "context": "A mill. ",
        "question": "What?",
        "answers": ["mill"],
        "answer_prefix": "",
        "all_classes": ["mill"],
    }
    (data / "trec.jsonl").write_text(json.dumps(row))
    executor = BenchmarkExecutor(["cpu"], 1, place / "results", options=ExecutorOptions(exporters=["csv"]))
    return executor.run_benchmark_matrix(
        ["m"],
        [("dense", None), ("streaming", StreamingConfig(sink_size=4, window_size=8))],
        [
            BenchmarkConfig("longbench", ["qasper"]),
            BenchmarkConfig("longbench", ["trec"], data_dir=str(data)),
            BenchmarkConfig("ruler", ["vt"], params={"length": 1700, "samples": 1}),
        ],
        AdapterConfig("mock"),
    )


def test_names_of_cases_directories_and_rows_say_it(results: ExecutionResults) -> None:
    assert {result.stub.task for result in results.individual_results} == NAMES
    found = {record.case.entry for record in read_session(results.directory)[2]}
    assert found == NAMES
    directories = {Path(result.result_dir).name for result in results.individual_results}
    assert directories == {"toy_longbench_qasper", "generated_ruler_vt", "longbench_trec"}
    with (results.directory / "results.csv").open(newline="") as file:
        assert {row["rows"] for row in csv.DictReader(file)} == {"real", "toy", "generated"}


def test_so_do_tables_and_there_is_no_mean_over_both(
    results: ExecutionResults,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here: Here = make_here(tmp_path, monkeypatch, capsys)
    shown = here.run("evals", "show", results.directory).stdout
    compared = here.run("evals", "compare", results.directory).stdout
    assert all(name in shown and name in compared for name in NAMES)
    assert "2 of toy rows of ours, which say nothing about a model; 2 of rows made here" in shown
    assert "no mean for m: its results are of generated and real and toy rows; run them apart" in compared
    toys = [one for one in results.individual_results if one.stub.source == "toy"]
    from paceline.evals import compare

    assert {point.attention for point in compare(toys).pareto} == {"dense", "streaming"}
