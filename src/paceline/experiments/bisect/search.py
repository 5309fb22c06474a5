"""The search for a culprit as a function of the runs so far: what to run next, or what there is to say.

It keeps no state but the runs themselves, so a search that was cut short goes on where it was.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from paceline.experiments.ab.blocks import level_of, look_blocks
from paceline.experiments.bisect.report import (
    GOOD,
    BisectionResult,
    Ending,
    Question,
    Tried,
    difference_text,
)
from paceline.experiments.builds.build import Candidate
from paceline.judge import Bisection, Comparison, compare
from paceline.model import Direction
from paceline.numbers import chance, duration, percent

_MOST_END_FAULTS = 2
_SMALLER = (0.98, 0.9)
"""The levels of the intervals that must leave out what is known of: at the first looks, and at the last."""


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

    `end_runs` is how often each end may be measured before their difference counts as not to be seen; `asked` is
    among how many such questions, asked where nothing changed, one answer may be wrong as seldom as of a single one.
    With the `effect` that is already known of, a difference that is not seen is refuted only if it is surely smaller.
    """

    confidence: float = 0.95
    max_runs: int = 150
    budget_s: float = float("inf")
    end_runs: int = 15
    asked: int = 1
    effect: float = 0.0


class Search:
    """A search under way; `next()` is the index to run, None when it is over."""

    def __init__(self, question: Question, limits: Limits, runs: Iterable[Run] = ()) -> None:
        self.question = question
        self._limits = limits
        self.runs: list[Run] = []
        self._bisection: Bisection | None = None
        self._ending: Ending | None = None
        for run in runs:
            self.add(run)

    @property
    def last(self) -> int:
        return len(self.question.candidates) - 1

    @property
    def guess(self) -> tuple[int, float] | None:
        """The likeliest culprit so far; None before the ends were seen to differ."""
        found = self._bisection
        return None if found is None or found.culprit is None else (found.culprit, found.confidence)

    def describe(self, unit: str | None, direction: Direction | None) -> None:
        """What the first record says of the metric, where nothing is known of it yet."""
        known = self.question
        self.question = replace(known, unit=known.unit or unit, direction=known.direction or direction)

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
        elif isinstance(judged := self._judge_ends(), Bisection):
            self._bisection = judged
        else:
            self._ending = judged

    def result(self) -> BisectionResult:
        """What can be said now."""
        ending = self._ending or self._decide() or "unsure"
        bisection = self._bisection if ending in ("found", "unsure") else None
        question = self.question
        found = BisectionResult(
            case=question.case,
            metric=question.metric,
            unit=question.unit,
            direction=question.direction,
            improved=question.improved,
            good=question.good,
            candidates=question.candidates,
            ending=ending,
            tested=self._tested(),
            runs=len(self.runs),
            took_s=sum(run.took_s for run in self.runs),
            difference=self._difference(bisection),
        )
        if bisection is not None and bisection.culprit is not None:
            found = replace(
                found,
                culprit=bisection.culprit,
                confidence=bisection.confidence,
                suspects=bisection.suspects,
                suspects_confidence=sum(bisection.posterior[index] for index in bisection.suspects),
                posterior=bisection.posterior,
            )
        return replace(found, message=self._message(found))

    def _of(self, index: int) -> list[float]:
        return [run.value for run in self.runs if run.index == index and run.value is not None]

    def _judge_ends(self) -> Ending | Bisection | None:
        """The search to begin if the ends differ; why there is none; None while they need more runs.

        The looks are those of an A/B test: few, and together they err as seldom as a single one may.
        """
        good, bad = self._of(GOOD), self._of(self.last)
        looks = look_blocks(self._limits.end_runs)
        if len(good) != len(bad) or len(good) not in looks:
            return None
        count, confidence = len(self.question.candidates), self._limits.confidence
        known = [i for i, one in enumerate(self.question.candidates) if one.ident in self.question.known]
        seen = compare(good, bad, level=level_of(len(looks), self._limits.asked))
        is_last, differ = len(good) == looks[-1], not seen.low <= 1 <= seen.high
        if differ and self._is_reversed(good, bad):
            return "reversed"
        # Most ends do not differ, and a search costs more than to see that.
        begin = partial(Bisection, count, good=good, bad=bad, confidence=confidence, known=known)
        if differ:
            return begin()
        if self._limits.effect:
            is_smaller = self._is_smaller(good, bad, level=_SMALLER[is_last])
            return "not_reproduced" if is_smaller else "unsure" if is_last else None
        return "not_reproduced" if is_last or begin().reproduces is False else None

    def _is_smaller(self, good: Sequence[float], bad: Sequence[float], *, level: float) -> bool:
        """Whether the ends surely differ by less than the effect that is known of, or the other way round."""
        seen, effect = compare(good, bad, level=level), self._limits.effect
        return seen.high - 1 < effect if effect > 0 else seen.low - 1 > effect

    def _is_reversed(self, good: Sequence[float], bad: Sequence[float]) -> bool:
        """Whether the end that should be worse is the better one."""
        direction = self.question.direction
        if direction is None:
            return False
        grew = sum(bad) / len(bad) > sum(good) / len(good)
        return grew == ((direction == "higher") != self.question.improved)

    def _decide(self) -> Ending | None:
        if self._faults(GOOD) >= _MOST_END_FAULTS or self._faults(self.last) >= _MOST_END_FAULTS:
            return "unmeasurable"
        bisection = self._bisection
        if bisection is not None and bisection.done:
            if bisection.culprit is None:
                return "not_reproduced"
            sure = sum(bisection.posterior[index] for index in bisection.suspects)
            return "found" if sure >= self._limits.confidence else "unsure"
        took_s = sum(run.took_s for run in self.runs)
        is_spent = len(self.runs) >= self._limits.max_runs or took_s >= self._limits.budget_s
        return "unsure" if is_spent else None

    def _faults(self, index: int) -> int:
        """How often an end gave no value without ever giving one."""
        return 0 if self._of(index) else sum(run.index == index for run in self.runs)

    def _tested(self) -> tuple[Tried, ...]:
        return tuple(
            Tried(
                index=index,
                candidate=self.question.at(index),
                values=tuple(self._of(index)),
                reason=next((run.reason for run in self.runs if run.index == index and run.reason), ""),
            )
            for index in sorted({run.index for run in self.runs})
        )

    def _difference(self, bisection: Bisection | None) -> Comparison | None:
        """Bad against good: of all that was measured on either side once the culprit is known, else of the ends."""
        culprit = bisection.culprit if bisection is not None and bisection.done else None
        good, bad = self._of(GOOD), self._of(self.last)
        if culprit is not None:
            values = [(run.index, run.value) for run in self.runs if run.value is not None]
            good = [value for index, value in values if index < culprit]
            bad = [value for index, value in values if index >= culprit]
        return compare(good, bad) if len(good) >= 2 and len(bad) >= 2 else None

    def _message(self, result: BisectionResult) -> str:
        good, bad = result.good.label, result.bad.label
        by = difference_text(result.difference) if result.difference else ""
        named = _titled(result.named) if result.named else ""
        if result.ending == "found":
            assert result.named is not None
            sure = f"{chance(result.suspects_confidence)} sure after {result.runs} runs"
            what = f"{result.named.kind.capitalize()} {named} changed {result.metric} of {result.case}"
            return f"{what}{f' by {by}' if by else ''}: {sure}."
        if result.ending == "not_reproduced":
            text = f"Does not reproduce: {good} and {bad} do not differ in {result.metric}"
            if result.difference is None:
                return f"{text}."
            seen = percent(result.difference.minimum_detectable)
            return f"{text}: {by}; a change of {seen} would have been seen."
        if result.ending == "reversed":
            way = "better" if result.direction else "different"
            return (
                f"Nothing got worse: the bad end {bad} is {way} than the good end {good} "
                f"({by or 'the other way round'}). Swap --good and --bad, or add --improvement."
            )
        if result.ending == "unmeasurable":
            is_good = self._faults(GOOD) >= _MOST_END_FAULTS
            reason = next((run.reason for run in reversed(self.runs) if run.value is None), "")
            return f"The {f'good end {good}' if is_good else f'bad end {bad}'} cannot be measured: {reason}."
        spent = f"after {result.runs} runs in {duration(result.took_s)}"
        if not named:
            return f"Unsure {spent}: whether {good} and {bad} differ cannot be said yet."
        likely = f"most likely {named} ({chance(result.confidence)})"
        return f"Unsure {spent}: {likely}; more runs or time would tell."


def _titled(candidate: Candidate) -> str:
    return f"{candidate.label} ({candidate.title})" if candidate.title else candidate.label
