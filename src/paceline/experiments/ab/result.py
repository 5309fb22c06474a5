"""What an A/B test found, as it is written, shown and read by other programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.model import Verdict

SCHEMA = 1
ORDER: Mapping[str, int] = {"worse": 0, "better": 1, "inconclusive": 2, "same": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmInfo:
    """An arm as it was in fact; `facts` are what sets it apart, `installed` the packages of its own environment."""

    name: str
    null: bool = False
    baseline: bool = False
    runs: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    installed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmComparison:
    """One metric of one case in one arm, against the baseline; `blocks` is how many pairs of runs it rests on."""

    case: str
    metric: str
    arm: str
    null: bool
    verdict: Verdict
    ratio: float | None
    low: float | None
    high: float | None
    minimum_detectable: float | None
    blocks: int
    baseline_value: float | None = None
    value: float | None = None
    unit: str | None = None
    higher_is_better: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What could not be compared, and why."""

    arm: str
    case: str
    reason: str
    metric: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ABResult:
    """What an A/B test found; `ended` says why it stopped, and is empty while it has not."""

    name: str
    seed: int
    runs: int
    blocks: int
    elapsed_s: float
    level: float
    margin: float
    ended: str
    arms: tuple[ArmInfo, ...]
    comparisons: tuple[ArmComparison, ...]
    missing: tuple[Missing, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def null_alarms(self) -> tuple[ArmComparison, ...]:
        """Differences between the baseline and itself: signs that the measurement cannot be trusted."""
        return tuple(one for one in self.comparisons if one.null and one.verdict in ("better", "worse"))

    @property
    def exit_code(self) -> int:
        worse = any(one.verdict == "worse" for one in self.comparisons if not one.null)
        return 1 if worse or self.missing else 0


def by_effect(comparisons: Sequence[ArmComparison]) -> list[ArmComparison]:
    """Worse before better before the rest, the largest effects first."""
    return sorted(
        comparisons,
        key=lambda one: (
            one.null,
            ORDER[one.verdict],
            -abs((one.ratio or 1.0) - 1),
            one.case,
            one.metric,
            one.arm,
        ),
    )


def result_json(result: ABResult) -> dict[str, Any]:
    """The result as `ab.json` and `--json` have it."""
    return {
        "schema": SCHEMA,
        "name": result.name,
        "seed": result.seed,
        "runs": result.runs,
        "blocks": result.blocks,
        "elapsed_s": round(result.elapsed_s, 3),
        "ended": result.ended,
        "confidence": result.level,
        "margin": result.margin,
        "arms": {arm.name: _arm_json(arm) for arm in result.arms},
        "comparisons": [_comparison_json(one) for one in by_effect(result.comparisons)],
        "missing": [
            {"case": one.case, "metric": one.metric, "arm": one.arm, "why": one.reason}
            for one in result.missing
        ],
        "notes": list(result.notes),
    }


def _arm_json(arm: ArmInfo) -> dict[str, Any]:
    return {
        "runs": arm.runs,
        "baseline": arm.baseline,
        "null": arm.null,
        **arm.facts,
        **({"installed": list(arm.installed)} if arm.installed else {}),
    }


def _comparison_json(one: ArmComparison) -> dict[str, Any]:
    return {
        "case": one.case,
        "metric": one.metric,
        "arm": one.arm,
        "null": one.null,
        "verdict": one.verdict,
        "ratio": one.ratio,
        "low": one.low,
        "high": one.high,
        "minimum_detectable": one.minimum_detectable,
        "blocks": one.blocks,
        "unit": one.unit,
        "direction": "higher" if one.higher_is_better else "lower",
        "baseline": one.baseline_value,
        "candidate": one.value,
    }
