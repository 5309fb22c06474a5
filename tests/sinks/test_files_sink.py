"""Tables for people who open them in a spreadsheet: no text of a benchmark is a formula, or two rows."""

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paceline.evals.results import ExecutionResults, write_csv
from paceline.record.files import plain_cells
from sink_bench import SinkBench, make_case, make_record, spec

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_is_no_formula_and_a_number_stays_one(tmp_path: Path, text: str) -> None:
    bench = SinkBench(tmp_path, spec("files", directory=str(tmp_path / "out")), cases=[make_case(text)])
    assert bench.run(make_record(text, note=text, low=-1.5)) == ()
    note, low = rows_of(tmp_path / "out" / "s.csv")
    assert note["case"].startswith("'") and note["value"].startswith("'")
    assert low["value"] == "-1.5"


def test_a_carriage_return_makes_no_second_row(tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, spec("files", directory=str(tmp_path / "out")))
    assert bench.run(make_record("a", note="one\rtwo\r\nthree")) == ()
    (note,) = rows_of(tmp_path / "out" / "s.csv")
    assert note["value"] == "one two three"
    assert plain_cells(["one\rtwo", "\r=1", -1, None]) == ["one\ntwo", "'\n=1", -1, None]


def test_the_results_of_evals_are_as_harmless(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"model": "=HYPERLINK(1)", "attention": "a\rb", "score": -0.5, "subset": None},
        {"model": "m", "attention": "dense", "score": 1.0, "metric.@x": 2},
    ]
    write_csv(cast(ExecutionResults, SimpleNamespace(rows=lambda: rows)), tmp_path)
    assert rows_of(tmp_path / "results.csv") == [
        {"model": "'=HYPERLINK(1)", "attention": "a\nb", "score": "-0.5", "subset": "", "metric.@x": ""},
        {"model": "m", "attention": "dense", "score": "1.0", "subset": "", "metric.@x": "2"},
    ]
