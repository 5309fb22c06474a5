"""What a bisection found, in the form that reports are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.model import Direction
from paceline.report.format import quantity, unit_beside

Ending = Literal["found", "not_reproduced", "reversed", "unmeasurable", "unsure"]

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One step of the way from good to bad: a commit, a version of a package, or an upgrade.

    `ident` names it for programs (a whole hash, a version), `label` for people.
    """

    ident: str
    label: str
    title: str = ""
    kind: str = "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A candidate that was tried: its values, or why it has none. The good end has the index -1."""

    index: int
    candidate: Candidate
    values: tuple[float, ...] = ()
    reason: str = ""

    @property
    def mean(self) -> float | None:
        return sum(self.values) / len(self.values) if self.values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much worse the bad side is: the ratio of bad to good with its 95 % interval."""

    ratio: float
    low: float
    high: float
    minimum_detectable: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionResult:
    """All that a bisection has to say.

    `suspects` are the candidates that cannot be told from the culprit because what lies between cannot be built;
    `confidence` is that of the culprit alone, `suspects_confidence` that of all of them together.
    """

    case: str
    metric: str
    ending: Ending
    message: str
    unit: str | None = None
    direction: Direction | None = None
    good: Candidate
    candidates: tuple[Candidate, ...]
    tested: tuple[Tried, ...] = ()
    culprit: int | None = None
    confidence: float = 0.0
    suspects: tuple[int, ...] = ()
    suspects_confidence: float = 0.0
    posterior: tuple[float, ...] = ()
    runs: int = 0
    took_s: float = 0.0
    difference: Difference | None = None
    change: str = ""
    diff_stat: str = ""
    notes: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bad(self) -> Candidate:
        return self.candidates[-1]

    @property
    def named(self) -> Candidate | None:
        """The culprit, if one was found."""
        return None if self.culprit is None else self.candidates[self.culprit]

    @property
    def exit_code(self) -> int:
        return 0 if self.ending == "found" else 1

    def shown(self, value: float | None) -> str:
        """A value of the metric with its unit."""
        return "" if value is None else quantity(value, unit_beside(self.metric, self.unit))


def bisection_data(result: BisectionResult) -> dict[str, Any]:
    """What `bisect.json` holds."""
    named = result.named
    return {
        "schema": SCHEMA,
        "culprit": named.ident if named else None,
        "confidence": round(result.confidence, 6),
        "runs": result.runs,
        "tested": [_tested_data(result, one) for one in result.tested],
        "ending": result.ending,
        "message": result.message,
        "case": result.case,
        "metric": result.metric,
        "unit": result.unit,
        "direction": result.direction,
        "kind": named.kind if named else None,
        "subject": named.title if named else None,
        "suspects": [result.candidates[index].ident for index in result.suspects],
        "suspects_confidence": round(result.suspects_confidence, 6),
        "good": result.good.ident,
        "bad": result.bad.ident,
        "candidates": len(result.candidates),
        "difference": _difference_data(result.difference),
        "diff_stat": result.diff_stat,
        "took_s": round(result.took_s, 3),
        "notes": list(result.notes),
        **result.origin,
    }


def _tested_data(result: BisectionResult, tested: Tried) -> dict[str, Any]:
    likely = result.posterior[tested.index] if 0 <= tested.index < len(result.posterior) else None
    return {
        "index": tested.index,
        "revision": tested.candidate.ident,
        "title": tested.candidate.title,
        "values": list(tested.values),
        "mean": tested.mean,
        "reason": tested.reason,
        "probability": None if likely is None else round(likely, 6),
    }


def _difference_data(difference: Difference | None) -> dict[str, float] | None:
    if difference is None:
        return None
    return {
        "ratio": difference.ratio,
        "low": difference.low,
        "high": difference.high,
        "minimum_detectable": difference.minimum_detectable,
    }


def percent(ratio: float) -> str:
    """A ratio as a signed change: 1.153 is `+15.3 %`."""
    return f"{(ratio - 1) * 100:+.1f} %"


def difference_text(difference: Difference) -> str:
    """How much worse, with its interval."""
    return f"{percent(difference.ratio)} ({percent(difference.low)} to {percent(difference.high)})"
