"""A session in the words that every service shows: its outcome, what failed and why, what changed and by how much."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paceline.model import Finding, Measurement, Record, Report, Status
from paceline.numbers import interval
from paceline.report.format import measured, visible
from paceline.report.table import Row, Table, complaints, key_metrics, make_table, summary
from paceline.sinks import SinkContext

# Where an address or a mention begins that programs make a link of.
_ACTIVE = re.compile(r"(?<=@)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_MARKS: Mapping[Status, str] = {Status.PASSED: "✅", Status.SKIPPED: "➖", Status.INTERRUPTED: "⏹️"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A metric that got worse or better, with the points that show it where the judge gave them."""

    case: str
    metric: str
    worse: bool
    effect: str
    message: str
    values: tuple[float, ...] = ()
    index: int | None = None

    @property
    def title(self) -> str:
        return f"{self.case}, {self.metric}: {self.effect or ('worse' if self.worse else 'better')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What is worth telling of a finished session; its size is bounded whatever the session's is."""

    session: str
    ok: bool
    summary: str
    unfinished: str
    table: Table
    changes: tuple[Change, ...]
    link: str = ""

    @property
    def title(self) -> str:
        return f"{'✅' if self.ok else '❌'} {visible(self.session)}: {self.summary}"

    @property
    def failed(self) -> tuple[Row, ...]:
        return tuple(row for row in self.table.rows if not row.status.ok)

    @property
    def worse(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.worse)

    @property
    def better(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if not change.worse)


def inert(text: str) -> str:
    """Foreign text of which no reader's program makes a link or a mention: an invisible space cuts them."""
    return _ACTIVE.sub("\u200b", text)


def make_digest(report: Report, link: str = "") -> Digest:
    """The report in short; reads each record once."""
    changes = [_change(finding) for finding in report.findings if finding.verdict in ("worse", "better")]
    return Digest(
        session=report.plan.session,
        ok=report.ok,
        summary=summary(report),
        unfinished=visible(report.unfinished),
        table=make_table(report),
        changes=tuple(sorted(changes, key=lambda change: not change.worse)),
        link=link,
    )


def report_link(context: SinkContext, given: str | None) -> str:
    """Where people read more: as the sink's option says, else as the suite does."""
    return given or context.report_url or str(context.environment.get("viewer_url") or "")


def _change(finding: Finding) -> Change:
    effect = effect_text(finding)
    return Change(
        case=visible(finding.case),
        metric=visible(finding.metric),
        worse=finding.verdict == "worse",
        effect=effect,
        message=visible(_without_effect(finding.message, effect)),
        values=finding.values,
        index=finding.index,
    )


def effect_text(finding: Finding) -> str:
    """The relative change with its interval: `+12.3 % (+10.1 % to +14.6 %)`."""
    return "" if finding.effect is None else interval(finding.effect, finding.low, finding.high)


def _without_effect(message: str, effect: str) -> str:
    """What a judge says besides the size of the change, which is shown already."""
    if effect and message.startswith(effect):
        return message.removeprefix(effect).lstrip(" :") or message
    # Earlier releases wrote `+12.3%`.
    begins_with_it = bool(effect) and message.replace(" %", "%").startswith(
        effect.partition(" (")[0].replace(" %", "%")
    )
    return message.partition(") ")[2] or message if begins_with_it else message


def mark(status: Status) -> str:
    """The sign of an outcome."""
    return _MARKS.get(status, "❌")


def words(status: Status) -> str:
    return status.value.replace("_", " ")


def problems(record: Record) -> tuple[str, ...]:
    """Why a case is not good, a line each: unmet requirements with bound and actual, else the reason."""
    return complaints(record)


def chosen_metrics(record: Record, names: Iterable[str]) -> list[str]:
    """The metrics of these names, a text each, in this order; the most telling ones if no name is given."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return [measured(name, value) for name, value in key_metrics(record)]
    return [_one_metric(record, name) for name in wanted]


def _one_metric(record: Record, name: str) -> str:
    value = record.metrics.get(name)
    if value is None and name == "exec_time_s":
        value = Measurement(value=record.exec_time_s, unit="s", direction="lower")
    return measured(name, value) if value is not None else f"{visible(name)} not measured"


def shortened(lines: Sequence[str], most: int) -> list[str]:
    """The first lines, and how many there are besides."""
    hidden = len(lines) - most
    return [*lines[:most], *([f"… and {hidden:,} more"] if hidden > 0 else [])]
