"""What the arms' runs gave, and what it says so far."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from paceline import metrics as known
from paceline.experiments.ab.blocks import level_of
from paceline.judge.comparison import Comparison, compare, judge_interval
from paceline.metrics import is_steady
from paceline.model import Direction, Record, Status, is_finite

_DEFAULT = frozenset({"exec_time_s", "peak_memory_bytes"})
_LEFT_OUT = frozenset(known.KNOWN) - _DEFAULT
"""What we measure of every run and say nothing about unless asked: times and sizes that the others contain."""

_HAS_VALUES = frozenset({Status.PASSED, Status.REQUIREMENT_FAILED})
_FAILURES = 2
_MANY_FAILURES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One arm's turn at the suite: of each case its status, and the samples of its metrics."""

    arm: str
    block: int
    seconds: float
    cases: Mapping[str, Mapping[str, Any]]


def trial_data(records: Iterable[Record]) -> dict[str, Any]:
    """The cases of a trial as the journal keeps them."""
    return {
        record.case.name: {
            "status": str(record.status),
            "reason": record.reason,
            **({"disturbed": record.disturbance} if record.disturbance else {}),
            "metrics": {
                name: {"samples": numbers, "unit": one.unit, "direction": one.direction}
                for name, one in record.metrics.items()
                if (numbers := _numbers(one.samples or (one.value,)))
            },
        }
        for record in records
    }


def _numbers(samples: Sequence[Any]) -> list[float]:
    """The samples if all are finite numbers; one that is none makes the run say nothing."""
    return [float(one) for one in samples] if all(map(is_finite, samples)) else []


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Judged:
    """A metric of a case that is compared; `higher` if more of it is better."""

    case: str
    metric: str
    higher: bool = False
    unit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """All trials so far; a block below zero is a warm-up and counts for nothing but failures."""

    baseline: str
    trials: tuple[Trial, ...]
    wanted: Mapping[str, Direction | None] = field(default_factory=dict)
    margin: float = 0.03
    own_metrics: bool = False

    def before(self, block: int) -> "Tally":
        """What was known when a block began."""
        return replace(self, trials=tuple(trial for trial in self.trials if trial.block < block))

    @property
    def blocks(self) -> int:
        """How many counted blocks have begun."""
        return max((trial.block + 1 for trial in self.trials), default=0)

    def judged(self) -> tuple[Judged, ...]:
        """What is compared: metrics of the baseline's runs that were asked for or that have a direction."""
        found: dict[tuple[str, str], Judged] = {}
        for trial in self.trials:
            for case, data in trial.cases.items() if trial.arm == self.baseline else ():
                for name, values in data["metrics"].items() if data["status"] in _HAS_VALUES else ():
                    direction = self._direction(name, values)
                    if direction:
                        higher, unit = direction == "higher", values.get("unit")
                        found[case, name] = Judged(case=case, metric=name, higher=higher, unit=unit)
        return tuple(found.values())

    def _direction(self, name: str, values: Mapping[str, Any]) -> Direction | None:
        if self.wanted and name not in self.wanted:
            return None
        if not self.wanted and name in (known.KNOWN if self.own_metrics else _LEFT_OUT):
            return None
        direction: Direction | None = self.wanted.get(name) or values.get("direction")
        return direction

    def values(self, arm: str, one: Judged) -> dict[int, float]:
        """What each counted block gave: the median of its samples, which share one block's luck."""
        return {
            trial.block: median(data["metrics"][one.metric]["samples"])
            for trial in self.trials
            if trial.arm == arm and trial.block >= 0
            if (data := trial.cases.get(one.case)) is not None
            if data["status"] in _HAS_VALUES and one.metric in data["metrics"]
        }

    def pairs(self, arm: str, one: Judged) -> list[tuple[int, float, float]]:
        """The blocks that have both, with the baseline's value and the arm's."""
        old, new = self.values(self.baseline, one), self.values(arm, one)
        return [(block, old[block], new[block]) for block in sorted(old) if block in new]

    def failures(self, arm: str, case: str) -> tuple[int, int, str]:
        """How often a case failed in an arm, how often it did not, and why it did the last time."""
        failed = passed = 0
        reason = ""
        for trial in self.trials:
            data = trial.cases.get(case) if trial.arm == arm else None
            if data is None:
                continue
            if data["status"] in _HAS_VALUES:
                passed += 1
            else:
                failed += 1
                reason = f"{data['status']}: {data['reason']}".removesuffix(": ")
        return failed, passed, reason

    def is_hopeless(self, arm: str, case: str) -> bool:
        """Whether a case fails in an arm, or in the baseline, so that running it further tells nothing."""
        for name in (arm, self.baseline):
            failed, passed, _ = self.failures(name, case)
            if (failed >= _FAILURES and not passed) or (failed >= _MANY_FAILURES and failed > passed):
                return True
        return False

    def level(self, judged: Sequence[Judged], looks: int) -> float:
        """The confidence that a single interval needs; a metric that is one number everywhere cannot mislead."""
        arms = {trial.arm for trial in self.trials}
        seen = [{value for arm in arms for value in self.values(arm, one).values()} for one in judged]
        return level_of(looks, sum(len(values) > 1 for values in seen))

    def disturbance(self, arm: str, one: Judged) -> str:
        """What disturbed one side alone in at least half of the blocks; empty if nothing did.

        What disturbs both sides of a block is the block's luck, which both share.
        """
        if is_steady(one.metric, one.unit):
            return ""
        blocks = [block for block, _, _ in self.pairs(arm, one)]
        old, new = self._disturbed(self.baseline, one.case), self._disturbed(arm, one.case)
        alone = [old.get(block) or new.get(block, "") for block in blocks if (block in old) != (block in new)]
        if not alone or 2 * len(alone) < len(blocks):
            return ""
        return f"one side was disturbed in {len(alone)} of {len(blocks)} blocks: {alone[0]}"

    def _disturbed(self, arm: str, case: str) -> dict[int, str]:
        """The blocks in which the runs of a case in an arm were disturbed, and by what."""
        told = ((trial.block, trial.cases.get(case, {})) for trial in self.trials if trial.arm == arm)
        return {block: data["disturbed"] for block, data in told if data.get("disturbed")}

    def comparison(self, arm: str, one: Judged, looks: Sequence[int], level: float) -> Comparison | None:
        """What all looks so far say together: their intervals hold at once, so the truth lies in what they share."""
        found: Comparison | None = None
        pairs = self.pairs(arm, one)
        for blocks in looks:
            seen = [pair for pair in pairs if pair[0] < blocks]
            if len(seen) < 2:
                continue
            latest = compare(
                [old for _, old, _ in seen],
                [new for _, _, new in seen],
                paired=True,
                higher_is_better=one.higher,
                margin=self.margin,
                level=level,
            )
            found = _joined(found, latest, higher=one.higher, margin=self.margin)
        if found is not None and self.disturbance(arm, one):
            return replace(found, verdict="inconclusive")
        return found

    def undecided(self, arm: str, looks: Sequence[int], planned: int) -> set[str]:
        """The cases of an arm that have to run on; all, before the first look."""
        judged = self.judged()
        level = self.level(judged, planned)
        told = {one.case for one in judged}
        seen = {case for trial in self.trials for case in trial.cases}
        open_cases = {
            one.case
            for one in judged
            if (found := self.comparison(arm, one, looks, level)) is None or found.verdict == "inconclusive"
        }
        # A case that has passed and has nothing to be judged by is done; one that has not passed yet may have.
        unknown = {case for case in seen - told if not self.failures(self.baseline, case)[1]}
        return {case for case in open_cases | unknown if not self.is_hopeless(arm, case)}


def _joined(old: Comparison | None, new: Comparison, *, higher: bool, margin: float) -> Comparison:
    if old is None:
        return new
    low, high = max(old.low, new.low), min(old.high, new.high)
    if low > high:
        return new
    ratio = min(max(new.ratio, low), high)
    return judge_interval(ratio, low, high, new.minimum_detectable, higher_is_better=higher, margin=margin)
