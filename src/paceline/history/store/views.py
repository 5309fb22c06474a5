"""The views: every sample and every measurement in plain words, and runs as Coiled's `test_run` table has them."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

from collections.abc import Callable

# Column of the view → metrics it may come from, the first that the record has.
_MEASURED = {
    "duration": ("duration", "exec_time_s"),
    "average_memory": ("average_memory", "mean_memory_bytes"),
    "peak_memory": ("peak_memory", "peak_memory_bytes"),
    "compute_time": ("compute_time",),
    "disk_spill_time": ("disk_spill_time",),
    "serializing_time": ("serializing_time",),
    "transfer_time": ("transfer_time",),
    "scheduler_cpu_avg": ("scheduler_cpu_avg",),
    "scheduler_memory_max": ("scheduler_memory_max",),
    "worker_max_tick": ("worker_max_tick",),
    "scheduler_max_tick": ("scheduler_max_tick",),
}
_URLS = (
    *("cluster_name", "cluster_id", "cluster_details_url", "performance_report_url", "cluster_dump_url"),
    *("memray_profiles_url", "py_spy_profiles_url"),
)


def drop_view(name: str) -> str:
    return f"DROP VIEW IF EXISTS {name}"


SAMPLES = """
SELECT m.series_id, m.record_id, coalesce(r.position, 0) AS position,
  CASE WHEN r.position IS NULL THEN m.value ELSE r.value END AS value,
  CASE WHEN r.position IS NULL THEN m.text ELSE r.text END AS text
FROM metric m
LEFT JOIN repeated_sample r ON r.series_id = m.series_id AND r.record_id = m.record_id
WHERE m.sample_count > 0"""
"""Every sample; a metric with one sample is that sample, and only others have rows of their own."""


def sample_view(dialect: str) -> str:
    return f"\nCREATE VIEW sample AS{SAMPLES}"


def measurement_view(dialect: str) -> str:
    """One row for each metric of each record, with the names of all it belongs to."""
    return f"""
CREATE VIEW measurement AS
SELECT c.key AS case_key, c.variant, c.version, d.name AS metric, d.unit, d.direction, m.value, m.text,
  m.sample_count, r.status, r.attempt, r.started_at, coalesce(r.revision, s.revision) AS revision,
  s.name AS session, e.ident AS environment, e.class_id AS environment_class, {hex_of("r.ident", dialect)} AS record
FROM metric m
JOIN series d ON d.id = m.series_id
JOIN record r ON r.id = m.record_id
JOIN session s ON s.id = r.session_id
JOIN environment e ON e.id = r.environment_id
JOIN "case" c ON c.id = r.case_id"""


def test_run_view(dialect: str) -> str:
    """One row for each record, with the columns of the table of the same name in Coiled's benchmarks."""
    columns = ",\n  ".join(f"{text} AS {name}" for name, text in _test_run_columns(dialect).items())
    return f"""
CREATE VIEW test_run AS
SELECT
  {columns}
FROM record r
JOIN session s ON s.id = r.session_id
JOIN environment e ON e.id = r.environment_id
JOIN "case" c ON c.id = r.case_id
JOIN setting t ON t.id = r.setting_id"""


def _test_run_columns(dialect: str) -> dict[str, str]:
    def told(name: str) -> str:
        """A detail of the record: what stays the same from run to run is kept apart from the rest."""
        found = (_extract(column, ("details", name), dialect) for column in ("r.outcome", "t.data"))
        return f"coalesce({', '.join(found)})"

    def version(name: str) -> str:
        return f"(SELECT p.version FROM package p WHERE p.environment_id = e.id AND p.name = '{name}')"

    def naive(time: str) -> str:
        return f"nullif(replace(replace({time}, 'T', ' '), 'Z', ''), '')"

    call = "CASE WHEN r.status IN ('passed', 'failed', 'skipped') THEN r.status ELSE 'failed' END"
    return {
        "id": "r.id",
        "session_id": hex_of("s.ident", dialect),
        "name": f"coalesce({told('test_name')}, c.name)",
        "originalname": f"coalesce({told('original_name')}, c.entry)",
        "path": told("path"),
        "setup_outcome": told("setup_outcome"),
        "call_outcome": f"coalesce({told('call_outcome')}, {call})",
        "teardown_outcome": told("teardown_outcome"),
        "coiled_runtime_version": f"coalesce({told('coiled_runtime_version')}, {told('arm')})",
        "coiled_software_name": told("coiled_software_name"),
        "dask_version": f"coalesce({told('dask_version')}, {version('dask')})",
        "dask_expr_version": f"coalesce({told('dask_expr_version')}, {version('dask-expr')})",
        "distributed_version": f"coalesce({told('distributed_version')}, {version('distributed')})",
        "python_version": f"coalesce({told('python_version')}, nullif(e.python_version, ''))",
        "platform": f"coalesce({told('platform')}, nullif(e.platform, ''))",
        "ci_run_url": f"coalesce({told('ci_run_url')}, nullif(s.ci_run_url, ''))",
        "start": naive(f"coalesce({told('started')}, r.started_at)"),
        '"end"': naive(told("ended")),
        **{name: _measured(metrics) for name, metrics in _MEASURED.items()},
        **{name: told(name) for name in _URLS},
    }


def _measured(names: tuple[str, ...]) -> str:
    found = [
        "(SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id "
        f"WHERE d.case_id = r.case_id AND d.name = '{name}' LIMIT 1)"
        for name in names
    ]
    return f"coalesce({', '.join(found)})" if len(found) > 1 else found[0]


def _extract(column: str, path: tuple[str, ...], dialect: str) -> str:
    if dialect == "postgresql":
        return f"({column}::jsonb #>> '{{{','.join(path)}}}')"
    return f"json_extract({column}, '$.{'.'.join(path)}')"


def hex_of(column: str, dialect: str) -> str:
    """An id as text, the way Python writes it."""
    return f"encode({column}, 'hex')" if dialect == "postgresql" else f"lower(hex({column}))"


VIEWS: dict[str, Callable[[str], str]] = {
    "sample": sample_view,
    "measurement": measurement_view,
    "test_run": test_run_view,
}
