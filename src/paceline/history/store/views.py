"""The views: measurements and samples in plain words, the points that are judged, and Coiled's `test_run` table.

In them NULL stands for what is not known; inside, where it would be part of a key, it is an empty text.
"""

# ruff: noqa: S608 - only names of our own are put into statements, never values

from collections.abc import Callable, Iterable, Mapping

# Column of the view → metrics it may come from, the first that the record has.
_MEASURED = {
    "duration": ("duration", "exec_time_s"),
    "average_memory": ("average_memory", "mean_memory_bytes"),
    "peak_memory": ("peak_memory", "peak_memory_bytes"),
    "compute_time": ("compute_time",),
    "disk_spill_time": ("disk_spill_time", "coiled_disk_spill_time"),
    "serializing_time": ("serializing_time", "coiled_serializing_time"),
    "transfer_time": ("transfer_time",),
    "scheduler_cpu_avg": ("scheduler_cpu_avg", "coiled_scheduler_cpu_avg"),
    "scheduler_memory_max": ("scheduler_memory_max", "coiled_scheduler_memory_max"),
    "worker_max_tick": ("worker_max_tick", "coiled_worker_max_tick"),
    "scheduler_max_tick": ("scheduler_max_tick", "coiled_scheduler_max_tick"),
}
_URLS = (
    *("cluster_name", "cluster_id", "cluster_details_url", "performance_report_url", "cluster_dump_url"),
    *("memray_profiles_url", "py_spy_profiles_url"),
)

_RECORDS_AT_ONCE = 1 << 20


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


def measured(dialect: str) -> dict[str, str]:
    """The columns of each metric of each record, with the names of all it belongs to."""
    return {
        "case_key": "c.current_key",
        **{name: f"nullif(c.{name}, '')" for name in ("variant", "version")},
        "metric": "d.name",
        **{name: f"nullif(d.{name}, '')" for name in ("unit", "direction")},
        **{name: f"m.{name}" for name in ("value", "text", "sample_count")},
        **{name: f"r.{name}" for name in ("status", "attempt")},
        "started_at": "nullif(r.started_at, '')",
        "revision": _REVISION,
        "session": "s.name",
        "session_id": hex_of("s.ident", dialect),
        "environment": "e.ident",
        "environment_class": "nullif(e.class_id, '')",
        "epoch": _epoch(dialect),
        "record": hex_of("r.ident", dialect),
    }


_REVISION = "nullif(coalesce(r.revision, s.revision), '')"


def _epoch(dialect: str) -> str:
    """How often a case was reset before a record; one of `name` is one of each `name[param=value]`."""
    entry = "split_part(c.current_key, '[', 1)"
    if dialect == "sqlite":
        entry = "substr(c.current_key, 1, instr(c.current_key || '[', '[') - 1)"
    return f"""(SELECT count(DISTINCT p.at) FROM epoch p
    WHERE p.current_key IN (c.current_key, {entry}) AND p.at <= r.started_at)"""


def _select(columns: Mapping[str, str], table: str = "metric") -> str:
    """A case comes first, then its series and what they have: so the indexes lead there from its name."""
    listed = ",\n  ".join(f"{text} AS {name}" for name, text in columns.items())
    return f"""
SELECT {listed}
FROM "case" c
JOIN series d ON d.case_id = c.id
JOIN {table} m ON m.series_id = d.id
JOIN record r ON r.id = m.record_id
JOIN session s ON s.id = r.session_id
JOIN environment e ON e.id = r.environment_id"""


def measurement_view(dialect: str) -> str:
    return f"\nCREATE VIEW measurement AS{_select(measured(dialect))}"


_REVISIONS = """
SELECT revision, commit_time, order_time, repository, place, tags,
  CASE WHEN is_other = 1 AND min(is_other) OVER () = 0 THEN 1 ELSE 0 END AS is_aside
FROM (
  SELECT t.revision, coalesce(nullif(p.commit_time, ''), nullif(t.commit_time, '')) AS commit_time,
    CASE WHEN p.repository <> '' THEN coalesce(p.order_time, p.commit_time, '')
      ELSE coalesce(p.order_time, nullif(t.commit_time, '')) END AS order_time,
    nullif(p.repository, '') AS repository, CASE WHEN p.repository <> '' THEN p.place END AS place, p.tags,
    CASE WHEN p.repository <> '' THEN 1 - p.is_main ELSE t.is_other END AS is_other
  FROM (
    SELECT revision, max(commit_time) AS commit_time,
      min(CASE WHEN branch IN ('main', 'master', 'trunk') OR merge_base IN ('', revision) THEN 0 ELSE 1 END) AS is_other
    FROM session WHERE revision <> '' GROUP BY revision
    UNION ALL
    SELECT DISTINCT revision, '', 0 FROM record
    WHERE revision <> '' AND revision NOT IN (SELECT revision FROM session)
  ) t LEFT JOIN commit_place p ON p.revision = t.revision
) told"""
"""A row for each revision that was measured, and what decides its place, as `paceline.findings.order` has it.

That is what a repository told, else the time that sessions say it was committed at. Other branches than the default one
are aside, unless nothing else was measured.
"""


def measured_revision_view(dialect: str) -> str:
    return f"\nCREATE VIEW measured_revision AS{_REVISIONS}"


def in_order(rows: str, columns: Iterable[str]) -> str:
    """These columns of rows, with `position`: the place in its series, as `paceline.findings.order` has it.

    Points in time are sorted by commit; one whose commit is not known stays between those that were measured before and
    after it. Windows of one SELECT have one PARTITION BY, through which SQLite passes what is asked of a series on.
    """
    series = "PARTITION BY case_key, variant, version, metric, unit, environment_class, epoch"
    time = "coalesce(started_at, ''), number, sample_count"
    commit = "order_time IS NULL, order_time, coalesce(repository, ''), coalesce(place, 0)"
    return f"""
WITH given AS ({rows}
), ranked AS (
  SELECT *, count(order_time) OVER ({series} ORDER BY {time}) AS passed,
    CASE WHEN order_time IS NOT NULL THEN row_number() OVER ({series} ORDER BY {commit}, {time}) END AS rank
  FROM given
), followed AS (
  SELECT *, lead(rank) OVER ({series} ORDER BY order_time IS NULL, passed) AS next_rank,
    max(CASE WHEN passed = 1 THEN rank END) OVER ({series}) AS first_rank
  FROM ranked
), placed AS (
  SELECT *, max(rank) OVER ({series}, passed) AS before,
    max(CASE WHEN rank IS NOT NULL THEN next_rank END) OVER ({series}, passed) AS after
  FROM followed
)
SELECT {", ".join(columns)}, row_number() OVER ({series} ORDER BY
    CASE WHEN rank IS NOT NULL THEN 2 * rank + 1
      WHEN passed = 0 THEN 2 * first_rank
      WHEN after = before - 1 THEN 2 * before
      ELSE 2 * before + 2 END, {time}) - 1 AS position
FROM placed"""


_PLACE = {
    "number": "r.id",
    **{name: f"o.{name}" for name in ("commit_time", "order_time", "repository", "place")},
}
_AT_REVISION = f"LEFT JOIN ({_REVISIONS}) o ON o.revision = {_REVISION}"


def export_select(dialect: str, *, samples: bool) -> str:
    """The rows of one case since a time, both to be told, in the order of its series and of their points.

    It names no view: a file that somebody else made may call anything so.
    """
    table, number = (f"({SAMPLES})", "position") if samples else ("metric", "sample_count")
    columns = measured(dialect) | {"sample_count": f"m.{number}"}
    where = "WHERE c.current_key = ? AND r.started_at >= ?"
    rows = in_order(f"{_select(columns | _PLACE, table)}\n{_AT_REVISION}\n{where}", columns)
    return (
        f"{rows}\nORDER BY metric, variant, version, environment_class, unit, epoch, position, sample_count"
    )


def point_view(dialect: str) -> str:
    """One row for each point of the series that have a direction, in the one order: what is judged."""
    last = """NOT EXISTS (
      SELECT 1 FROM "case" k CROSS JOIN record a WHERE a.case_id = k.id AND k.current_key = c.current_key
        AND k.variant = c.variant AND k.version = c.version AND a.session_id = r.session_id
        AND a.attempt > r.attempt)"""
    where = f"""WHERE c.kind = 'entry' AND d.direction <> '' AND m.value IS NOT NULL
    AND r.status IN ('passed', 'requirement_failed') AND (d.is_steady = 1 OR r.disturbed IS NULL)
    AND coalesce(o.is_aside, 0) = 0 AND {last}"""
    wanted = (
        *("case_key", "variant", "version", "metric", "unit", "direction", "environment_class", "epoch"),
        *("revision", "commit_time", "started_at", "session", "value", "sample_count", "record"),
    )
    rows = f"{_select(measured(dialect) | _PLACE)}\n{_AT_REVISION}\n{where}"
    return f"\nCREATE VIEW point AS{in_order(rows, wanted)}"


def test_run_view(dialect: str) -> str:
    """One row for each record, with the columns of the table of the same name in Coiled's benchmarks.

    As there, rows and their ids are in the order of time, whatever was imported last.
    """
    columns = ",\n  ".join(f"{text} AS {name}" for name, text in _test_run_columns(dialect).items())
    return f"""
CREATE VIEW test_run AS
SELECT
  {columns}
FROM record r
JOIN session s ON s.id = r.session_id
JOIN environment e ON e.id = r.environment_id
JOIN "case" c ON c.id = r.case_id
JOIN setting t ON t.id = r.setting_id
ORDER BY 1"""


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
        "id": _number_in_time(f"coalesce({told('started')}, r.started_at)", dialect),
        "session_id": hex_of("s.ident", dialect),
        "name": f"coalesce({told('test_name')}, c.name)",
        "originalname": f"coalesce({told('original_name')}, c.entry)",
        "path": told("path"),
        "setup_outcome": told("setup_outcome"),
        "call_outcome": f"coalesce({told('call_outcome')}, {call})",
        "teardown_outcome": told("teardown_outcome"),
        # Their word for what runs as it is, without an arm.
        "coiled_runtime_version": f"coalesce({told('coiled_runtime_version')}, {told('arm')}, "
        "nullif(c.variant, ''), 'upstream')",
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


def _number_in_time(time: str, dialect: str) -> str:
    """A number that grows with time and that no two records have: milliseconds, then part of the record's own."""
    time = f"nullif({time}, '')"
    if dialect == "postgresql":
        passed = f"(extract(epoch FROM ({time})::timestamptz) * 1000)::bigint"
    else:
        passed = f"CAST(round((julianday({time}) - 2440587.5) * 86400000) AS INTEGER)"
    return f"coalesce({passed}, 0) * {_RECORDS_AT_ONCE} + (r.id & {_RECORDS_AT_ONCE - 1})"


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
    "measured_revision": measured_revision_view,
    "point": point_view,
    "test_run": test_run_view,
}
