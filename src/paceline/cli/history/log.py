"""`paceline history log`: how a metric of a case went."""

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from paceline.cli.completion import complete_case, complete_metric
from paceline.cli.database import db_option, find_cases, json_option, moment_of, open_database
from paceline.cli.output import page_lines, write_json
from paceline.errors import HistoryError
from paceline.metrics import KNOWN
from paceline.numbers import change, percent
from paceline.report.format import quantity, sparkline, unit_beside, visible
from paceline.report.table import Column, screen_of, table

if TYPE_CHECKING:
    from paceline.history import Point, Series, Store

EPILOG = """\b
Examples:
  paceline history log sort exec_time_s
  paceline history log 'join*' exec_time_s --last 5
  paceline history log sort                    each metric in a line
  paceline history log sort exec_time_s --since 2026-11-01 --json
"""

_DRAWN = 60
_EACH = (
    Column(title="case", least=20, weight=3),
    Column(title="metric", least=12),
    *(Column(title="last", right=True), Column(title="change", right=True)),
    Column(least=12, cut="end", leaves=1),
)
_POINTS = (
    *("time (UTC)", "revision"),
    Column(title="session", least=12, leaves=2),
    *(Column(title="value", right=True), Column(title="change", right=True)),
    Column(least=12, cut="end", leaves=1),
)


@click.command("log", epilog=EPILOG)
@click.argument("case", shell_complete=complete_case)
@click.argument("metric", required=False, shell_complete=complete_metric)
@db_option
@click.option("--since", metavar="TIME", help="Only points since this time: 2026-11-01, or 7d, 2w, 3m ago.")
@click.option(
    "--last", metavar="N", type=click.IntRange(min=1), default=20, show_default=True, help="Show N points."
)
@click.option(
    "--all", "everything", is_flag=True, help="Without METRIC: also those that are taken of every run."
)
@json_option
def log_command(
    case: str,
    metric: str | None,
    db: str | None,
    since: str | None,
    last: int,
    everything: bool,
    as_json: bool,
) -> None:
    """Print the points of a METRIC of a CASE (names or globs), oldest first; without METRIC a line for each.

    A point's change is that from the one before it. Points before a reset are shown, and not compared.
    """
    with open_database(db) as store:
        cases = find_cases(store, case)
        metrics = None if metric is None else [metric]
        found = list(
            store.iter_columns(
                cases=cases, metrics=metrics, since=moment_of(since), all_epochs=True, samples=True
            )
        )
        if not found:
            metrics_there = ", ".join(store.metrics(cases[0])) or "none"
            what = f"{metric or 'any metric'} in {cases[0]}{f' since {since}' if since else ''}"
            raise HistoryError(f"no numbers of {what}; its metrics are: {metrics_there}")
        from paceline.findings.order import read_order
        from paceline.history.naming import read_series_names

        order = read_order(store)
        with store.database.reading():
            names = read_series_names(store.database, {series.case_key for series in found})
        ordered = [
            _Ordered(one, order.sort(one.points), names[(*one.key[:3], one.environment_class)].name)
            for one in found
        ]
        if as_json:
            write_json([_series_json(*one) for one in ordered])
        else:
            page_lines(_summary(ordered, everything) if metric is None else _table(store, ordered, last))


class _Ordered(NamedTuple):
    """A series, and its points in the order in which they are shown."""

    series: "Series"
    points: "list[Point]"
    name: str
    """What tells it from others of its case, in words; empty if there is but one."""

    @property
    def values(self) -> list[float]:
        return [point.value for point in self.points]


def _kind(one: _Ordered) -> tuple[str, ...]:
    """What series of different epochs have in common."""
    return (one.series.case_key, one.series.metric, *one.series.key)


def _summary(found: Sequence[_Ordered], everything: bool) -> Iterator[str]:
    """A line for each metric; what is taken of every run is counted, where there is anything else."""
    own = [one for one in found if one.series.metric not in KNOWN]
    shown = found if everything or not own else own
    rows = []
    for _, group in groupby(sorted(shown, key=_kind), _kind):
        newest, points, name = (ordered := list(group)[-1])
        last = points[-1]
        value = quantity(last.value, unit_beside(newest.metric, newest.unit))
        change = _change(points, len(points) - 1)
        names = (visible(newest.case_key), visible(f"{newest.metric} ({name})" if name else newest.metric))
        rows.append((*names, value, change, sparkline(ordered.values[-_DRAWN:])))
    yield from table(_EACH, rows, screen_of(sys.stdout))
    if len(shown) < len(found):
        yield f"… {len({_kind(one) for one in found}) - len(rows):,} more that are taken of every run: --all"


def _table(store: "Store", found: Sequence[_Ordered], last: int) -> Iterator[str]:
    for number, (_, group) in enumerate(groupby(sorted(found, key=_kind), _kind)):
        epochs = list(group)
        if number:
            yield ""
        yield _title(epochs[0])
        yield sparkline([value for one in epochs for value in one.values][-_DRAWN:])
        yield from _unrest(epochs[-1])
        resets = {epoch.at: epoch.why for epoch in store.epochs(epochs[0].series.case_key)}
        rows = [row for one in epochs for row in _rows(one.series, one.points, resets)]
        yield from table(_POINTS, rows[-last:], screen_of(sys.stdout))
        if len(rows) > last:
            yield f"… {len(rows) - last:,} older: --last {len(rows)}"


def _title(one: _Ordered) -> str:
    better = {"lower": "lower is better", "higher": "higher is better"}.get(one.series.direction or "", "")
    facts = ", ".join(filter(None, (visible(one.name), better)))
    names = f"{visible(one.series.case_key)} {visible(one.series.metric)}"
    return f"{names} ({facts})" if facts else names


def _unrest(one: _Ordered) -> Iterator[str]:
    """A line about a level that moves by itself, in the newest epoch."""
    from paceline.findings.segments import days_of  # brings numpy
    from paceline.judge import analyse

    unrest = analyse(one.values, days_of(point.time for point in one.points)).unrest
    if unrest:
        yield f"restless: ±{percent(unrest)} within a week"


def _rows(series: "Series", points: "Sequence[Point]", resets: dict[str, str]) -> Iterator[tuple[str, ...]]:
    began = [f"reset: {visible(why)}" for at, why in sorted(resets.items()) if at <= points[0].time]
    for index, point in enumerate(points):
        notes = [began[-1]] if series.epoch and index == 0 and began else []
        notes += [point.status.replace("_", " ")] if point.status != "passed" else []
        notes += [f"disturbed: {visible(point.disturbed)}"] if point.disturbed else []
        source = points[index - 1].source_hash if index else point.source_hash
        notes += ["source changed"] if source != point.source_hash else []
        value = quantity(point.value, unit_beside(series.metric, series.unit))
        value += f" (of {len(point.samples)})" if len(point.samples) > 1 else ""
        yield (
            *(point.time[:16].replace("T", " "), point.revision[:10], visible(point.session)),
            *(value, _change(points, index), ", ".join(notes)),
        )


def _change(points: Sequence["Point"], index: int) -> str:
    """How much a value differs from the one before it."""
    before = points[index - 1].value if index else 0.0
    if not before:
        return ""
    return change((points[index].value - before) / abs(before))


def _point_json(point: "Point") -> dict[str, Any]:
    told = {**point._asdict(), "samples": list(point.samples)}
    if not point.disturbed:
        del told["disturbed"]
    return told


def _series_json(series: "Series", points: "Sequence[Point]", name: str) -> dict[str, Any]:
    return {
        "case": series.case_key,
        "name": name,
        "metric": series.metric,
        "unit": series.unit,
        "direction": series.direction,
        "version": series.version,
        "variant": series.variant,
        "environment_class": series.environment_class,
        "epoch": series.epoch,
        "points": [_point_json(point) for point in points],
    }
