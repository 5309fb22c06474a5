"""The search for a culprit as a function of the runs so far: what to run next, or what there is to say.

It keeps no state but the runs themselves, so a search that was cut short goes on where it was.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from paceline.experiments.bisect.result import (
    BisectionResult,
    Candidate,
    Difference,
    Ending,
    Tried,
    difference_text,
)
from paceline.judge import Bisection, Comparison, compare
from paceline.model import Direction
from paceline.report.format import duration, quantity, unit_beside

GOOD = -1
"""The index of the good end, which lies before the first candidate."""

_FIRST_END_RUNS = 5
_MOST_END_FAULTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one candidate; `value` is None when it could not be measured, and `reason` says why."""

    index: int
    value: float | None
    reason: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a search ends: at a confidence, or when its runs or its time are spent.

    `end_runs` is how often each end may be measured before their difference counts as not to be seen.
    """

    confidence: float = 0.95
    max_runs: int = 150
    budget_s: float = float("inf")
    end_runs: int = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is searched: which step from `good` on made the metric of the case worse (or better, if `improved`)."""

    case: str
    metric: str
    good: Candidate
    candidates: tuple[Candidate, ...]
    unit: str | None = None
    direction: Direction | None = None
    improved: bool = False


class Search:
    """A search under way; `next()` is the index to run, None when it is over."""

    def __init__(self, question: Question, limits: Limits, runs: Iterable[Run] = ()) -> None:
        self._question = question
        self._limits = limits
        self.runs: list[Run] = []
        self._bisection: Bisection | None = None
        self._ending: Ending | None = None
        for run in runs:
            self.add(run)

    @property
    def last(self) -> int:
        return len(self._question.candidates) - 1

    @property
    def spent_s(self) -> float:
        return sum(run.took_s for run in self.runs)

    @property
    def guess(self) -> tuple[int, float] | None:
        """The likeliest culprit so far; None before the ends were seen to differ."""
        found = self._bisection
        return None if found is None or found.culprit is None else (found.culprit, found.confidence)

    def label(self, index: int) -> str:
        return self._question.candidates[index].label

    def shown(self, value: float) -> str:
        """A value of the metric with its unit."""
        return quantity(value, unit_beside(self._question.metric, self._question.unit))

    def describe(self, unit: str | None, direction: Direction | None) -> None:
        """What the first record says of the metric, where nothing is known of it yet."""
        known = self._question
        self._question = replace(known, unit=known.unit or unit, direction=known.direction or direction)

    def next(self) -> int | None:
        """Which candidate to run; the two ends are taken in turns, so that a drift hits both alike."""
        if self._ending is None:
            self._ending = self._decide()
        if self._ending is not None:
            return None
        if self._bisection is not None:
            return self._bisection.next()
        good, bad = len(self._of(GOOD)), len(self._of(self.last))
        if good != bad:
            return GOOD if good < bad else self.last
        return GOOD if good % 2 == 0 else self.last

    def add(self, run: Run) -> None:
        """Take in a run."""
        self.runs.append(run)
        if self._bisection is not None:
            self._bisection.observe(run.index, run.value)
        elif self._ends_differ():
            self._bisection = self._begin()

    def result(self) -> BisectionResult:
        """What can be said now."""
        ending = self._ending or self._decide() or "unsure"
        bisection = self._bisection if ending in ("found", "unsure") else None
        question = self._question
        found = BisectionResult(
            case=question.case,
            metric=question.metric,
            unit=question.unit,
            direction=question.direction,
            ending=ending,
            message="",
            good=question.good,
            candidates=question.candidates,
            tested=self._tested(),
            runs=len(self.runs),
            took_s=self.spent_s,
            difference=self._difference(bisection),
        )
        if bisection is not None and bisection.culprit is not None:
            found = _with_culprit(found, bisection)
        return replace(found, message=self._message(found))

    def _of(self, index: int) -> list[float]:
        return [run.value for run in self.runs if run.index == index and run.value is not None]

    def _begin(self) -> Bisection:
        return Bisection(
            len(self._question.candidates),
            good=self._of(GOOD),
            bad=self._of(self.last),
            confidence=self._limits.confidence,
        )

    def _ends_differ(self) -> bool:
        good, bad = self._of(GOOD), self._of(self.last)
        if len(good) != len(bad) or len(good) < min(_FIRST_END_RUNS, self._limits.end_runs):
            return False
        return self._begin().reproduces is True and not self._is_reversed(good, bad)

    def _is_reversed(self, good: Sequence[float], bad: Sequence[float]) -> bool:
        """Whether the end that should be worse is the better one."""
        direction = self._question.direction
        if direction is None:
            return False
        grew = sum(bad) / len(bad) > sum(good) / len(good)
        return grew == ((direction == "higher") != self._question.improved)

    def _decide(self) -> Ending | None:
        if self._faults(GOOD) >= _MOST_END_FAULTS or self._faults(self.last) >= _MOST_END_FAULTS:
            return "unmeasurable"
        if self._bisection is not None and self._bisection.done:
            return self._judged(self._bisection)
        if self._bisection is None:
            ending = self._decide_ends()
            if ending is not None:
                return ending
        is_spent = len(self.runs) >= self._limits.max_runs or self.spent_s >= self._limits.budget_s
        return "unsure" if is_spent else None

    def _judged(self, bisection: Bisection) -> Ending:
        if bisection.culprit is None:
            return "not_reproduced"
        sure = sum(bisection.posterior[index] for index in bisection.suspects)
        return "found" if sure >= self._limits.confidence else "unsure"

    def _decide_ends(self) -> Ending | None:
        good, bad = self._of(GOOD), self._of(self.last)
        if len(good) != len(bad) or len(good) < min(_FIRST_END_RUNS, self._limits.end_runs):
            return None
        begun = self._begin()
        if begun.reproduces is True and self._is_reversed(good, bad):
            return "reversed"
        is_over = begun.reproduces is False or len(good) >= self._limits.end_runs
        return "not_reproduced" if is_over else None

    def _faults(self, index: int) -> int:
        """How often an end gave no value without ever giving one."""
        return 0 if self._of(index) else sum(run.index == index for run in self.runs)

    def _tested(self) -> tuple[Tried, ...]:
        question = self._question
        return tuple(
            Tried(
                index=index,
                candidate=question.good if index == GOOD else question.candidates[index],
                values=tuple(self._of(index)),
                reason=next((run.reason for run in self.runs if run.index == index and run.reason), ""),
            )
            for index in sorted({run.index for run in self.runs})
        )

    def _difference(self, bisection: Bisection | None) -> Difference | None:
        """Bad against good: of all that was measured on either side once the culprit is known, else of the ends."""
        culprit = bisection.culprit if bisection is not None and bisection.done else None
        good = [run.value for run in self.runs if run.value is not None and run.index < (culprit or 0)]
        edge = self.last if culprit is None else culprit
        bad = [run.value for run in self.runs if run.value is not None and run.index >= max(edge, 0)]
        if culprit is None:
            good = self._of(GOOD)
        if len(good) < 2 or len(bad) < 2:
            return None
        return _difference_of(compare(good, bad))

    def _message(self, result: BisectionResult) -> str:
        told = {
            "found": _found_text,
            "not_reproduced": _not_reproduced_text,
            "reversed": _reversed_text,
            "unmeasurable": self._unmeasurable_text,
            "unsure": self._unsure_text,
        }
        return told[result.ending](result)

    def _unmeasurable_text(self, result: BisectionResult) -> str:
        is_good = self._faults(GOOD) >= _MOST_END_FAULTS
        end, name = (result.good, "good") if is_good else (result.bad, "bad")
        reason = next((run.reason for run in reversed(self.runs) if run.value is None), "")
        return f"The {name} end {end.label} cannot be measured: {reason}."

    def _unsure_text(self, result: BisectionResult) -> str:
        spent = f"after {result.runs} runs in {duration(result.took_s)}"
        if result.named is None:
            return f"Unsure {spent}: whether {result.good.label} and {result.bad.label} differ cannot be said yet."
        likely = f"most likely {_titled(result.named)} ({result.confidence * 100:.1f} %)"
        return f"Unsure {spent}: {likely}; more runs or time would tell."


def _with_culprit(result: BisectionResult, bisection: Bisection) -> BisectionResult:
    suspects, posterior = bisection.suspects, bisection.posterior
    return replace(
        result,
        culprit=bisection.culprit,
        confidence=bisection.confidence,
        suspects=suspects,
        suspects_confidence=sum(posterior[index] for index in suspects),
        posterior=posterior,
    )


def _difference_of(comparison: Comparison) -> Difference:
    return Difference(
        ratio=comparison.ratio,
        low=comparison.low,
        high=comparison.high,
        minimum_detectable=comparison.minimum_detectable,
    )


def _titled(candidate: Candidate) -> str:
    return f"{candidate.label} ({candidate.title})" if candidate.title else candidate.label


def _found_text(result: BisectionResult) -> str:
    named = result.named
    assert named is not None
    change = f" changed {result.metric} of {result.case}"
    by = f" by {difference_text(result.difference)}" if result.difference else ""
    sure = f"{result.suspects_confidence * 100:.1f} % sure after {result.runs} runs"
    return f"{named.kind.capitalize()} {_titled(named)}{change}{by}: {sure}."


def _not_reproduced_text(result: BisectionResult) -> str:
    text = f"Does not reproduce: {result.good.label} and {result.bad.label} do not differ in {result.metric}"
    if result.difference is None:
        return f"{text}."
    seen = result.difference.minimum_detectable * 100
    return f"{text}: {difference_text(result.difference)}; a change of {seen:.1f} % would have been seen."


def _reversed_text(result: BisectionResult) -> str:
    by = difference_text(result.difference) if result.difference else "the other way round"
    way = "better" if result.direction else "different"
    return (
        f"Nothing got worse: the bad end {result.bad.label} is {way} than the good end {result.good.label} "
        f"({by}). Swap --good and --bad, or add --improvement."
    )
