"""A session in the words that every service shows: its outcome, what failed and why, what changed and by how much."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from paceline.finding import MERGE_BASE
from paceline.metrics import describe
from paceline.model import Finding, Measurement, Record, Report, Status
from paceline.numbers import interval
from paceline.report.cases import Row, Table, complaints, key_metrics, make_table, summary
from paceline.report.format import measured, visible
from paceline.sinks import SinkContext

# Where an address or a mention begins that programs make a link of.
_ACTIVE = re.compile(r"(?<=@)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_DASHBOARD = "/index.html"
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
    sentence: str
    """What a reader has to know, which is where every message begins."""
    rest: str
    """How the cases ended, if the sentence does not say it."""
    unfinished: str
    table: Table
    changes: tuple[Change, ...]
    link: str = ""

    @property
    def summary(self) -> str:
        return "; ".join(filter(None, (self.sentence, self.rest)))

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
    failed = sum(number for status, number in report.counts.items() if not status.ok)
    found, ended = news(report.findings), summary(replace(report, findings=()))
    told = ", ".join([*([f"{failed:,} failed"] if failed else []), found]) if found else ""
    return Digest(
        session=report.plan.session,
        ok=report.ok,
        sentence=told or ended,
        rest=ended if told else "",
        unfinished=visible(report.unfinished),
        table=make_table(report),
        changes=tuple(sorted(changes, key=lambda change: not change.worse)),
        link=_deep_link(link, report.findings),
    )


def _deep_link(link: str, findings: Iterable[Finding]) -> str:
    """Where the worst of what changed is shown, if the link leads to a dashboard; else the link itself."""
    worst = next((one.incident for one in findings if one.fails and one.incident), "")
    return f"{link}#/incident/{quote(worst, safe='')}" if worst and link.endswith(_DASHBOARD) else link


def news(findings: Iterable[Finding]) -> str:
    """What got worse and better, in a few words: `2 slower, 1 likely yours, 1 faster`."""
    known = list(findings)
    worse = [one for one in known if one.fails]
    better = [one for one in known if one.verdict == "better"]
    yours = sum(map(_is_yours, worse))
    parts = [f"{len(worse):,} {'slower' if all(map(_is_speed, worse)) else 'worse'}"] if worse else []
    parts += [f"{yours:,} likely yours"] if yours else []
    parts += [f"{len(better):,} {'faster' if all(map(_is_speed, better)) else 'better'}"] if better else []
    return ", ".join(parts)


def _is_speed(finding: Finding) -> bool:
    """Whether a metric is a time or a rate, by its name."""
    return describe(finding.metric).unit == "s" or "_per_s" in finding.metric


def _is_yours(finding: Finding) -> bool:
    """Whether the revision that was measured is the likely cause: found to be, the only suspect, or a branch."""
    if finding.judge == MERGE_BASE:
        return True
    commits = [one for one in finding.suspects if one.get("kind") in ("commit", "commits")]
    causes = [finding.culprit] if finding.culprit else commits if len(finding.suspects) == 1 else []
    return any(one.get("revision") == finding.first_bad.revision for one in causes)


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
