"""Results as a table, a row for each stub: for pandas, for spreadsheets and for papers."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.errors import MissingExtra
from paceline.evals.configs import task_name
from paceline.evals.interfaces import EvalError
from paceline.evals.quality import score_interval
from paceline.evals.results import BenchmarkResult
from paceline.evals.samples import read_samples
from paceline.evals.stored import find_execution, read_result, read_summary
from paceline.numbers import digits, duration, size
from paceline.record.files import plain_cells
from paceline.report.format import visible

TIMES = ("generate_s", "prefill_s", "decode_s", "first_token_s", "token_s", "load_s", "execution_time_s")
COUNTS = ("input_tokens", "output_tokens", "peak_memory_bytes")

Row = Mapping[str, Any]


def load_results(place: str | os.PathLike[str]) -> Any:
    """The results of an execution as a pandas table, a row for each stub; those that failed are in it too.

    `place` is an execution's directory, or a results directory, of which the newest execution counts: it has the stubs
    that were done before as well. Times are of generating alone; `load_s` and `execution_time_s` stand beside them.
    """
    return to_dataframe(read_rows(Path(place)))


def to_dataframe(rows: Iterable[Row]) -> Any:
    """The rows as a pandas table."""
    try:
        import pandas as pd  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingExtra("the results as a pandas table", "evals") from error
    return pd.DataFrame(list(rows))


def read_rows(place: Path) -> list[Row]:
    """The rows of an execution, or of the newest one of a results directory."""
    execution = find_execution(place)
    summary = read_summary(execution)
    done = [
        result_row(read_result(Path(os.path.normpath(execution / entry["directory"]))), entry["state"])
        for entry in summary["results"]
    ]
    return [*done, *map(_failure_row, summary.get("failures", ()))]


def result_row(result: BenchmarkResult, state: str) -> dict[str, Any]:
    """One result."""
    stub, metrics, facts = result.stub, result.metrics, result.facts
    scores = read_samples(result, metrics["primary"])
    low, high = score_interval(metrics, scores) or (None, None)
    spent, count = facts.get("generate_s"), metrics["num_samples"]
    return {
        "model": stub.model_name,
        "attention": stub.sparse_config_name,
        "parameters": json.dumps(_parameters(stub.content["attention"]), sort_keys=True),
        "benchmark": stub.benchmark_name,
        "subset": stub.subset,
        "task": stub.task,
        "rows": stub.source,
        "state": state,
        "primary": metrics["primary"],
        "score": result.score,
        "score_low": low,
        "score_high": high,
        "num_samples": count,
        "num_samples_of": (metrics.get("stopped") or {}).get("of", count),
        "documents": len(scores.means().sums),
        "density": result.density,
        "seconds_per_sample": spent / count if spent is not None and count else None,
        **{name: facts.get(name) for name in (*TIMES, *COUNTS)},
        "error": None,
        "key": stub.key,
        "result_dir": result.result_dir,
        **{f"metric.{name}": value["value"] for name, value in metrics["metrics"].items()},
    }


def _failure_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A stub that gave no result: it is there, and has no score."""
    names = {name: entry.get(name) for name in ("model", "attention", "benchmark", "subset", "rows", "key")}
    task = entry.get("task") or task_name(str(entry["benchmark"]), entry["subset"], "real")
    error = f"{entry['error_type']}: {entry['error_message']}"
    return {**names, "task": task, "state": "failed", "error": error}


def _parameters(attention: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attention.items() if name != "name" and value is not None}


def columns(rows: Iterable[Row]) -> list[str]:
    """All columns, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def as_csv(rows: Sequence[Row]) -> str:
    """The rows as a spreadsheet takes them."""
    names = columns(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(plain_cells(names))
    writer.writerows(
        plain_cells("" if row.get(name) is None else row[name] for name in names) for row in rows
    )
    return text.getvalue()


def as_parquet(rows: Sequence[Row]) -> bytes:
    """The rows as a Parquet file."""
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]  # noqa: F401 - pandas writes by it
    except ImportError as error:
        raise MissingExtra("results as Parquet", "evals") from error
    file = io.BytesIO()
    to_dataframe(rows).to_parquet(file, index=False)
    return file.getvalue()


_HEAD = (
    "model",
    "attention",
    "benchmark",
    "metric",
    "score",
    "95 %",
    "samples",
    "density",
    "a sample",
    "memory",
)
_NUMERIC_FROM = 4


def _cells(row: Row) -> list[str]:
    """A row as people read it."""
    attention = f"{row['attention']} {_told(json.loads(row.get('parameters') or '{}'))}".strip()
    names = [str(row["model"]), attention, str(row["task"])]
    if row["state"] == "failed":
        return [visible(text) for text in (*names, "failed", *[""] * (len(_HEAD) - 5), str(row["error"]))]
    known = row.get("score_low") is not None
    interval = f"{digits(row['score_low'])} to {digits(row['score_high'])}" if known else ""

    def shown(name: str, text: Callable[[float], str]) -> str:
        return "" if row.get(name) is None else text(row[name])

    numbers = [
        digits(row["score"]),
        interval,
        str(row["num_samples"]),
        shown("density", digits),
        shown("seconds_per_sample", duration),
        shown("peak_memory_bytes", size),
    ]
    return [visible(text) for text in (*names, str(row["primary"]), *numbers)]


def _told(parameters: Mapping[str, Any]) -> str:
    """Maskers with their parameters, and options, in one text; hashes say nothing to a reader."""
    maskers = [
        ", ".join(
            f"{name}={value}"
            for name, value in masker.items()
            if name not in ("kind", "version") and not name.endswith("_sha256") and value is not None
        ).join((f"{masker['kind']}(", ")"))
        for masker in parameters.get("maskers") or ()
    ]
    options = [f"{name}={value}" for name, value in parameters.items() if name != "maskers"]
    return "; ".join(filter(None, (" + ".join(maskers), ", ".join(options))))


def as_markdown(rows: Sequence[Row]) -> str:
    """The rows as a table of Markdown."""
    marks = ["---" if at < _NUMERIC_FROM else "---:" for at in range(len(_HEAD))]
    cells = [[text.replace("|", "\\|") for text in _cells(row)] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in (_HEAD, marks, *cells))


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def as_latex(rows: Sequence[Row]) -> str:
    """The rows as a table of LaTeX, with the rules of booktabs."""
    form = "l" * _NUMERIC_FROM + "r" * (len(_HEAD) - _NUMERIC_FROM)
    head, *lines = [
        " & ".join("".join(_LATEX.get(letter, letter) for letter in text) for text in cells) + r" \\"
        for cells in (_HEAD, *map(_cells, rows))
    ]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            f"\\begin{{tabular}}{{{form}}}",
            "\\toprule",
            head,
            "\\midrule",
            *lines,
            "\\bottomrule",
            "\\end{tabular}",
            "",
        ]
    )


FORMATS: Mapping[str, Callable[[Sequence[Row]], str | bytes]] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "md": as_markdown,
    "latex": as_latex,
}


def export(rows: Sequence[Row], form: str) -> bytes:
    """The rows in one of the formats."""
    if not rows:
        raise EvalError("the execution has no stub to export")
    made = FORMATS[form](rows)
    return made if isinstance(made, bytes) else made.encode("utf-8", "replace")
