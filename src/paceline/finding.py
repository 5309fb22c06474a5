"""What a judge found in one metric of one case: one type, from detection to the report, the page and the database."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, NamedTuple

Verdict = Literal["better", "worse", "same", "inconclusive"]
State = Literal["new", "acknowledged", "expected", "fixed", "false"]
"""What became of a finding. Only what is new fails anything."""
Kind = Literal["step", "drift", "stopped"]
"""A level that changed at once, one that goes on changing, or a series that has no new points."""
Stage = Literal["suspected", "confirmed", "bisected", "undecided", "not_reproduced"]
"""How far a finding was followed up: seen in the series, seen again in runs made for it, its cause found by more of
them, or not found by as many as may be made; or not seen again."""


MERGE_BASE = "merge base"
"""The judge of sessions of a branch, which are held against the level that it began at."""


class Since(NamedTuple):
    """One new result of a metric next to those before it; `change` and `verdict` are None where these are too few."""

    values: tuple[float, ...]
    """The last ones before it, in their order."""
    change: float | None = None
    verdict: Verdict | None = None


class SeriesKey(NamedTuple):
    """Which series: all that tells it from the others, in words that are the same in every database."""

    case: str
    variant: str
    version: str
    metric: str
    unit: str
    environment_class: str

    @property
    def parts(self) -> dict[str, Any]:
        """The fields of a finding that say which series it is about."""
        return {**self._asdict(), "variant": self.variant or None, "unit": self.unit or None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A point of a series: where its value was measured."""

    revision: Annotated[str, "The git revision."] = ""
    session: Annotated[str, "The session's name."] = ""
    time: Annotated[str, "When it began."] = ""
    session_id: Annotated[str, "The session's id in the history."] = ""
    environment: Annotated[str, "The id of its environment."] = ""
    committed: Annotated[str, "When its commit was made, if that is known."] = ""

    @property
    def when(self) -> str:
        """Its date for a reader: that of the commit, which may have been measured years later, else of measuring."""
        return self.committed or self.time


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanVerdict:
    """What somebody said about a finding."""

    state: Annotated[State, "What they said that it is."]
    why: Annotated[str, "Why."] = ""
    who: Annotated[str, "Who said it."] = ""
    at: Annotated[str, "When."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a judge says about one metric of one case; one of the history has an id.

    The change lies after `last_good` and not after `first_bad`; `at_record` is the most likely first record of the new
    level. `stands` says whether the detector still sees it. `values`, `question`, `series_name` and
    `ended` are there for readers and are not stored.
    """

    id: Annotated[str, "Its id in the history; empty if it has none."] = ""
    incident: Annotated[str, "The id of the incident that it belongs to."] = ""
    case: Annotated[str, "The case's key."]
    metric: Annotated[str, "The metric."]
    kind: Annotated[Kind, "A step, a drift, or a series that stopped."] = "step"
    verdict: Annotated[Verdict, "What changed."]
    stage: Annotated[Stage, "How far it was followed up."] = "suspected"
    culprit: Annotated[
        Mapping[str, Any] | None,
        "The cause that a bisection found: kind, revision or name, subject, author, probability, runs, bisection.",
    ] = None
    runs: Annotated[int, "How many runs were made for it, on all nights."] = 0
    effect: Annotated[float | None, "The relative change."] = None
    low: Annotated[float | None, "The lower end of the effect's interval."] = None
    high: Annotated[float | None, "The upper end of the effect's interval."] = None
    p_value: Annotated[float | None, "How likely chance alone gives such a change."] = None
    last_good: Annotated[Place, "The last point that is surely of the old level."] = Place()
    first_bad: Annotated[Place, "The first point that is surely of the new level."] = Place()
    suspects: Annotated[
        tuple[Mapping[str, Any], ...], "What may be the cause; once that is found, it alone."
    ] = ()
    own_state: Annotated[State, "What became of it, but for what people said."] = "new"
    said: Annotated[HumanVerdict | None, "The last that somebody said about it."] = None
    question: Annotated[str, "What to ask of an improvement that is too good to be one."] = ""
    message: Annotated[str, "The finding in a sentence."] = ""
    judge: Annotated[str, "Who says so."] = "change points"
    variant: Annotated[str | None, "The arm of a comparison, if it is one's."] = None
    version: Annotated[str, "The version of the case."] = ""
    unit: Annotated[str | None, "The metric's unit."] = None
    environment_class: Annotated[str, "The class of machines."] = ""
    series_name: Annotated[str, "What tells its series from the others of its case, in words."] = ""
    ended: Annotated[str, "When its series had its last result, if it gets none any more."] = ""
    epoch: Annotated[int, "How many resets of the case lie before it."] = 0
    at_record: Annotated[str, "The id of the most likely first record of the new level."] = ""
    at_time: Annotated[str, "When that began."] = ""
    found_at: Annotated[str, "The time of the newest point when it was found."] = ""
    found_in: Annotated[str, "The id of the session in which it was found."] = ""
    found_after: Annotated[int, "How many results the new level had when it was found."] = 0
    fixed_at: Annotated[str | None, "When a later change undid it."] = None
    stands: Annotated[bool, "Whether the detector still sees it."] = True
    values: Annotated[tuple[float, ...], "Values around the change, for those who draw them."] = ()
    index: Annotated[int | None, "Which of them is the first of the new level."] = None

    @property
    def series(self) -> SeriesKey:
        """What tells its series from the others."""
        names = (self.case, self.variant or "", self.version, self.metric, self.unit or "")
        return SeriesKey(*names, self.environment_class)

    @property
    def state(self) -> State:
        """A human's word counts; that a later change undid it is better news than that somebody knows of it."""
        if self.said is None or (self.said.state == "acknowledged" and self.own_state == "fixed"):
            return self.own_state
        return self.said.state

    @property
    def is_open(self) -> bool:
        """Whether it is news: nobody has said what it is, and runs made for it have not refuted it."""
        return self.state == "new" and self.stage != "not_reproduced"

    @property
    def fails(self) -> bool:
        return self.verdict == "worse" and self.is_open

    @property
    def word(self) -> str:
        """The verdict, or what is to be said in its place."""
        if self.question:
            return "question"
        if self.kind == "stopped":
            return self.kind
        return "not reproduced" if self.stage == "not_reproduced" else self.verdict

    @property
    def evidence(self) -> dict[str, Any]:
        """What the report of earlier versions had under this name; the fields hold the same."""
        culprit = self.culprit or {}
        names = (
            "incident",
            "p_value",
            "suspects",
            "variant",
            "version",
            "environment_class",
            "values",
            "index",
        )
        return {
            **{name: getattr(self, name) for name in names},
            **{name: asdict(getattr(self, name)) for name in ("last_good", "first_bad")},
            "confirmed": {"suspected": None, "not_reproduced": False}.get(self.stage, True),
            "culprit": culprit.get("revision") or culprit.get("name"),
            "confidence": culprit.get("probability"),
            **{name: culprit.get(name) for name in ("kind", "subject", "runs", "bisection")},
            **({"question": self.question} if self.question else {}),
        }
