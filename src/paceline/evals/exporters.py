"""Results in other forms, beside the summary of an execution."""

import csv
from pathlib import Path

from paceline.evals.results import ExecutionResults
from paceline.record.layout import RESULTS_TABLE


def write_csv(results: ExecutionResults, directory: Path) -> None:
    """`results.csv`: one row a result, all metrics in columns."""
    rows = results.rows()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with (directory / RESULTS_TABLE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
