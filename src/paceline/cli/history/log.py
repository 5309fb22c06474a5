"""`paceline history log`: how a metric of a case went."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.completion import complete_case, complete_metric
from paceline.cli.database import db_option, find_cases, json_option, moment_of, open_database
from paceline.cli.output import write_json, write_lines
from paceline.errors import HistoryError
from paceline.numbers import change, percent
from paceline.report.format import aligned, quantity, spelled_for, unit_beside, visible

if TYPE_CHECKING:
    from paceline.history import Point, Series, Store

EPILOG = """\b
Examples:
  paceline history log sort wall_s
  paceline history log 'join*' wall_s --last 5
  paceline history log sort                    each metric in a line
  paceline history log sort wall_s --since 2026-11-01 --json
"""

_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "_.-:=+*#"
_WIDTH = 60


@click.command("log", epilog=EPILOG)
@click.argument("case", shell_complete=complete_case)
@click.argument("metric", required=False, shell_complete=complete_metric)
@db_option
@click.option("--since", metavar="TIME", help="Only points since this time: 2026-11-01, or 7d, 2w, 3m ago.")
@click.option(
    "--last", metavar="N", type=click.IntRange(min=1), default=20, show_default=True, help="Show N points."
)
@json_option
def log_command(
    case: str, metric: str | None, db: str | None, since: str | None, last: int, as_json: bool
) -> None:
    """Print the points of a METRIC of a CASE (names or globs), oldest first; without METRIC a line for each.

    A point's change is that from the one before it. Points before a reset are shown, and not compared.
    """
    with open_database(db) as store:
        cases = find_cases(store, case)
        metrics = None if metric is None else [metric]
        found = list(store.iter_series(cases=cases, metrics=metrics, since=moment_of(since), all_epochs=True))
        if not found:
            metrics_there = ", ".join(store.metrics(cases[0])) or "none"
            what = f"{metric or 'any metric'} in {cases[0]}{f' since {since}' if since else ''}"
            raise HistoryError(f"no numbers of {what}; its metrics are: {metrics_there}")
        from paceline.findings.order import read_order

        order = read_order(store)
        found = [replace(series, points=tuple(order.arrange(series.points))) for series in found]
        if as_json:
            write_json([_series_json(series) for series in found])
        else:
            write_lines(_summary(found) if metric is None else _table(store, found, last))


def _kind(series: "Series") -> tuple[str, ...]:
    """What series of different epochs have in common."""
    names = (series.case_key, series.metric, series.unit or "", series.version, series.variant or "")
    return (*names, series.environment_class)


def _summary(found: Sequence["Series"]) -> Iterator[str]:
    rows = []
    for _, group in groupby(sorted(found, key=_kind), _kind):
        newest = list(group)[-1]
        last = newest.points[-1]
        value = quantity(last.value, unit_beside(newest.metric, newest.unit))
        change = _change(newest.points, len(newest.points) - 1)
        names = (visible(newest.case_key), visible(newest.metric))
        rows.append((*names, value, change, sparkline(newest.values)))
    yield from aligned([("case", "metric", "last", "change", ""), *rows])


def _table(store: "Store", found: Sequence["Series"], last: int) -> Iterator[str]:
    for number, (_, group) in enumerate(groupby(sorted(found, key=_kind), _kind)):
        epochs = list(group)
        if number:
            yield ""
        yield _title(epochs[0])
        yield from _unrest(epochs[-1])
        resets = {epoch.at: epoch.why for epoch in store.epochs(epochs[0].case_key)}
        rows = [row for series in epochs for row in _rows(series, resets)]
        yield from aligned([("time (UTC)", "revision", "session", "value", "change", ""), *rows[-last:]])
        yield sparkline([value for series in epochs for value in series.values])


def _title(series: "Series") -> str:
    better = {"lower": "lower is better", "higher": "higher is better"}.get(series.direction or "", "")
    version = f"version {series.version}" if series.version != "1" else ""
    facts = (version, series.variant or "", better, f"machines {series.environment_class or 'unknown'}")
    return f"{visible(series.case_key)} {visible(series.metric)} ({', '.join(filter(None, facts))})"


def _unrest(series: "Series") -> Iterator[str]:
    """A line about a level that moves by itself, in the newest epoch."""
    from paceline.findings.segments import days_of  # brings numpy
    from paceline.judge import analyse

    unrest = analyse(series.values, days_of(point.time for point in series.points)).unrest
    if unrest:
        yield f"restless: ±{percent(unrest)} within a week"


def _rows(series: "Series", resets: dict[str, str]) -> Iterator[tuple[str, ...]]:
    began = [f"reset: {visible(why)}" for at, why in sorted(resets.items()) if at <= series.points[0].time]
    for index, point in enumerate(series.points):
        notes = [began[-1]] if series.epoch and index == 0 and began else []
        notes += [point.status.replace("_", " ")] if point.status != "passed" else []
        notes += [f"disturbed: {visible(point.disturbed)}"] if point.disturbed else []
        source = series.points[index - 1].source_hash if index else point.source_hash
        notes += ["source changed"] if source != point.source_hash else []
        value = quantity(point.value, unit_beside(series.metric, series.unit))
        value += f" (of {len(point.samples)})" if len(point.samples) > 1 else ""
        yield (
            *(point.time[:16].replace("T", " "), point.revision[:10], visible(point.session)),
            *(value, _change(series.points, index), ", ".join(notes)),
        )


def _change(points: Sequence["Point"], index: int) -> str:
    """How much a value differs from the one before it."""
    before = points[index - 1].value if index else 0.0
    if not before:
        return ""
    return change((points[index].value - before) / abs(before))


def sparkline(values: Sequence[float]) -> str:
    """The last values as bars, the lowest of them the smallest."""
    shown = values[-_WIDTH:]
    low, high = min(shown), max(shown)
    bars = _BARS if spelled_for(sys.stdout.encoding, _BARS) == _BARS else _PLAIN_BARS
    if high == low:
        return bars[3] * len(shown)
    # Halves first: the difference of two large numbers of unlike sign may be no number any more.
    span = high / 2 - low / 2
    return "".join(bars[min(7, int((value / 2 - low / 2) / span * 8))] for value in shown)


def _point_json(point: "Point") -> dict[str, Any]:
    told = {**point._asdict(), "samples": list(point.samples)}
    if not point.disturbed:
        del told["disturbed"]
    return told


def _series_json(series: "Series") -> dict[str, Any]:
    return {
        "case": series.case_key,
        "metric": series.metric,
        "unit": series.unit,
        "direction": series.direction,
        "version": series.version,
        "variant": series.variant,
        "environment_class": series.environment_class,
        "epoch": series.epoch,
        "points": [_point_json(point) for point in series.points],
    }
