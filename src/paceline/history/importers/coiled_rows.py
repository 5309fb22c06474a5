"""A row of Coiled's tables as a record: what was measured, what it says of the test, and columns of a team's own."""

from collections.abc import Mapping
from typing import Any

from paceline.history.importers.batch import make_case, make_record, once
from paceline.history.importers.values import time_from_text
from paceline.metrics import describe
from paceline.model import Direction, Measurement, Record, Scalar, Status, is_number

Row = Mapping[str, Any]

_SECONDS: tuple[str, Direction] = ("s", "lower")
_BYTES: tuple[str, Direction] = ("bytes", "lower")
_MEASURED: Mapping[str, tuple[str, tuple[str, Direction]]] = {
    **{name: (name, _SECONDS) for name in ("duration", "compute_time", "transfer_time")},
    **{name: (name, _BYTES) for name in ("average_memory", "peak_memory")},
    # What was measured in another way than the fixtures of Paceline do is not of their series.
    **{name: (f"coiled_{name}", _SECONDS) for name in ("disk_spill_time", "serializing_time")},
    **{name: (f"coiled_{name}", _SECONDS) for name in ("worker_max_tick", "scheduler_max_tick")},
    "scheduler_memory_max": ("coiled_scheduler_memory_max", _BYTES),
    "scheduler_cpu_avg": ("coiled_scheduler_cpu_avg", ("cores", "lower")),
}
_DETAILS = (
    *("path", "setup_outcome", "call_outcome", "teardown_outcome", "coiled_runtime_version"),
    *("coiled_software_name", "dask_version", "distributed_version", "dask_expr_version", "duckdb_version"),
    *("pyspark_version", "polars_version", "python_version", "platform", "ci_run_url"),
    *("cluster_name", "cluster_id", "cluster_details_url", "performance_report_url", "cluster_dump_url"),
    *("memray_profiles_url", "py_spy_profiles_url"),
    *("compression", "partition_size", "n_workers", "worker_vm_type", "cluster_disk_size"),
)
_QUERY = ("local", "query", "scale")
_SAID = frozenset(
    {"id", "session_id", "name", "originalname", "start", "end", *_MEASURED, *_DETAILS, *_QUERY}
)
PACKAGES = {
    "dask": "dask_version",
    "distributed": "distributed_version",
    "dask-expr": "dask_expr_version",
    "duckdb": "duckdb_version",
    "pyspark": "pyspark_version",
    "polars": "polars_version",
}
_MAIN_LINE = frozenset({"", "upstream", "latest"})


def make_row_record(row: Row) -> Record:
    """The record of a row; the parameters' names were never kept, only the text in brackets."""
    name = text_of(row, "name")
    original = text_of(row, "originalname") or name.partition("[")[0]
    path = text_of(row, "path")
    label = name[len(original) :].removeprefix("[").removesuffix("]") if name.startswith(original) else name
    arm = text_of(row, "coiled_runtime_version")
    status, reason = _status(row)
    query = _query(row)
    params: dict[str, Scalar] = {"id": label} if label else {}
    # The same query on data of another size, or on one machine instead of a cluster, is another series.
    params |= {name: value for name, value in query.items() if name != "query"}
    own = {column: value for column, value in row.items() if column not in _SAID and value is not None}
    return make_record(
        make_case(
            f"{path}::{original}" if path else original,
            params,
            variant=None if arm in _MAIN_LINE else arm,
        ),
        {**_metrics(row), **_own_metrics(own)},
        status=status,
        reason=reason,
        started_at=time_of(row, "start"),
        exec_time_s=float(row["duration"]) if is_number(row.get("duration")) else 0.0,
        params=query,
        details={
            **{column: text_of(row, column) for column in _DETAILS},
            **{column: str(value) for column, value in own.items() if not _is_measured(column, value)},
            "test_name": name,
            "original_name": original,
            "started": time_of(row, "start"),
            "ended": time_of(row, "end"),
        },
    )


def _query(row: Row) -> dict[str, Scalar]:
    found = {name: row[name] for name in _QUERY if row.get(name) is not None}
    return {name: bool(value) if name == "local" else value for name, value in found.items()}


def _status(row: Row) -> tuple[Status, str]:
    outcomes = {phase: text_of(row, f"{phase}_outcome") for phase in ("setup", "call", "teardown")}
    for phase, outcome in outcomes.items():
        if outcome in ("failed", "error"):
            return Status.FAILED, f"the test's {phase} failed"
        if outcome == "skipped":
            return Status.SKIPPED, f"skipped in {phase}"
    if outcomes["call"] == "passed" or (not any(outcomes.values()) and row.get("duration") is not None):
        return Status.PASSED, ""
    return Status.INTERRUPTED, "the test's outcome was not recorded"


def _metrics(row: Row) -> dict[str, Measurement]:
    return {
        name: once(row[column], *meaning)
        for column, (name, meaning) in _MEASURED.items()
        if is_number(row.get(column))
    }


def _own_metrics(own: Row) -> dict[str, Measurement]:
    """Columns that a team added to the schema: numbers are metrics, as they are on `test_run_benchmark`."""
    described = {column: describe(column) for column, value in own.items() if _is_measured(column, value)}
    return {column: once(own[column], one.unit, one.direction) for column, one in described.items()}


def _is_measured(column: str, value: object) -> bool:
    return is_number(value) and not column.endswith("_id")


def text_of(row: Row, column: str) -> str:
    value = row.get(column)
    return "" if value is None else str(value)


def time_of(row: Row, column: str) -> str:
    return time_from_text(text_of(row, column))
