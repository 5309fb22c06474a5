"""`paceline releases`: what changed since each release, and which commits own it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.cli.database import (
    case_option,
    chosen_repository,
    db_option,
    find_cases,
    json_option,
    metric_option,
    open_database,
    repo_option,
)
from paceline.cli.output import write_json, write_lines
from paceline.errors import HistoryError
from paceline.numbers import change, count, percent
from paceline.report.format import aligned, quantity, visible

if TYPE_CHECKING:
    from paceline.findings.releases import Balance, Ledger, Owner, Row, Since

EPILOG = """\b
Examples:
  paceline releases                        since each of the last five tags
  paceline releases --tag 'v2.*' --top 20
  paceline releases --last 1 --markdown > since-last-release.md
  paceline releases --case 'join*' --json
"""
_SAME, _UNKNOWN = "=", ""


@click.command("releases", epilog=EPILOG)
@click.option("--tag", "tags", metavar="GLOB", multiple=True, help="Only tags of these names. Repeatable.")
@click.option(
    "--last", metavar="N", type=click.IntRange(min=1), default=5, help="The last N of them. [default: 5]"
)
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(min=1),
    default=10,
    help="Series with the largest changes. [default: 10]",
)
@case_option
@metric_option
@repo_option
@db_option
@json_option
@click.option("--markdown", is_flag=True, help="Print the table as Markdown, for release notes.")
def command(
    tags: tuple[str, ...],
    last: int,
    top: int,
    cases: tuple[str, ...],
    metrics: tuple[str, ...],
    repo: Path | None,
    db: str | None,
    as_json: bool,
    markdown: bool,
) -> None:
    """Show how each series has changed since the last releases, and which changes own that.

    Releases are tags of the repository, each at the first measured commit that has it. A change is the level of today
    beside the one at the release; '=' says that none was found. The changes themselves are those of
    'paceline regressions'.
    """
    if as_json and markdown:
        raise click.UsageError("choose --json or --markdown")
    from paceline.findings.detection import detect
    from paceline.findings.order import read_order
    from paceline.findings.releases import ledger_json, read_ledger
    from paceline.findings.telling import tell

    with open_database(db) as store:
        repository = chosen_repository(repo)
        chosen = [case for wanted in cases for case in find_cases(store, wanted)]
        detect(store, repository)
        order = read_order(store, repository)
        told = tell(store, store.findings())
        ledger = read_ledger(
            store, order, told, tags=tags, last=last, cases=chosen or None, metrics=list(metrics) or None
        )
    if not ledger.releases:
        which = f"no tag that fits {' or '.join(tags)}" if tags else "no tag"
        where = "" if repository else "; --repo names the repository"
        raise HistoryError(f"{which} is at a measured commit or before one{where}")
    if as_json:
        write_json(ledger_json(ledger))
    else:
        write_lines(_markdown(ledger, top) if markdown else _lines(ledger, top))


def _lines(ledger: "Ledger", top: int) -> Iterator[str]:
    yield from aligned([[*map(visible, cells)] for cells in _cells(ledger, top)])
    yield from _rest(ledger, top)
    for balance in reversed(ledger.balances):
        if balance.series:
            yield ""
            yield visible(_sentence(balance))
            yield from (visible(f"    {_owner(one)}") for one in balance.owners)


def _markdown(ledger: "Ledger", top: int) -> Iterator[str]:
    from paceline.report.markdown import escape

    head, *rows = _cells(ledger, top)
    yield f"| {' | '.join(map(escape, head))} |"
    yield f"|---|---|{'---:|' * (len(head) - 2)}"
    for row in rows:
        yield f"| {' | '.join(map(escape, row))} |"
    yield ""
    yield from _rest(ledger, top)
    for balance in reversed(ledger.balances):
        if balance.series:
            yield f"- {escape(_sentence(balance))}"
            yield from (f"    - {escape(_owner(one))}" for one in balance.owners)


def _cells(ledger: "Ledger", top: int) -> Iterator[list[str]]:
    yield ["case", "metric", "now", *(f"since {one.name}" for one in ledger.releases)]
    for row in ledger.rows[:top]:
        yield [
            _name(row),
            row.series.metric,
            quantity(row.now, row.series.unit or None),
            *map(_change, row.since),
        ]


def _name(row: "Row") -> str:
    return f"{row.series.case} ({row.name})" if row.name else row.series.case


def _change(one: "Since | None") -> str:
    if one is None:
        return _UNKNOWN
    if one.verdict in ("worse", "better"):
        return f"{change(one.change)} {one.verdict}"
    return _SAME if one.verdict == "same" else "?"


def _rest(ledger: "Ledger", top: int) -> Iterator[str]:
    if len(ledger.rows) > top:
        yield f"… {len(ledger.rows) - top:,} more series: --top {len(ledger.rows)} lists all"
    if any(one and one.verdict == "inconclusive" for row in ledger.rows[:top] for one in row.since):
        yield "? says that too little was measured to tell"


def _sentence(balance: "Balance") -> str:
    """`+6 % since v2.0: 3 changes own 80 % of what got worse`, of all series together."""
    mean = f"{change(balance.change)} since {balance.release.name}, the mean of {balance.series:,} series"
    if not balance.owners:
        return mean
    owners = f"{count(len(balance.owners), 'change')} {'owns' if len(balance.owners) == 1 else 'own'}"
    return f"{mean}: {owners} {percent(balance.owned, 2)} of what got {'worse' if balance.change > 0 else 'better'}"


def _owner(owner: "Owner") -> str:
    from paceline.findings.telling import culprit_text, suspects_text

    one = owner.findings[0]
    cause = culprit_text(one.culprit) if one.culprit else suspects_text(one.suspects, most=1)
    between = f"{one.last_good.revision[:10]}..{one.first_bad.revision[:10]}"
    series = count(len({step.series for step in owner.findings}), "series")
    return (
        f"{percent(owner.share, 2)}: {cause or between} ({change(owner.effect)}, in {series}; {one.incident})"
    )
