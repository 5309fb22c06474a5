"""Whether odd values come again, where there is nothing to go back to: run again, held against the history."""

import math
from pathlib import Path

from paceline.errors import BuildError
from paceline.experiments.bisect.bisection import case_of, measured_value
from paceline.experiments.bisect.result import Difference, difference_text
from paceline.experiments.builds.workshop import State, Workshop
from paceline.experiments.nightly.suspected import Suspected
from paceline.experiments.trials import TrialSetting, run_trial
from paceline.judge import compare
from paceline.record.layout import safe_name
from paceline.session.request import Request

_FIRST_RUNS = 3


def recheck(
    suspected: Suspected, request: Request, state: State, workshop: Workshop, place: Path, most_runs: int
) -> tuple[bool | None, str]:
    """Whether the case is still worse than it was, and the sentence that says so.

    It runs until the new values are told from the old ones or are seen to be like them.
    """
    values: list[float] = []
    setting = _setting(suspected, request, state, workshop, place)
    key = case_of(request, suspected.series.case).key
    for number in range(1, most_runs + 1):
        records = run_trial(setting, number)
        value, reason = measured_value(
            next(record for record in records if record.case.key == key), suspected.series.metric
        )
        if value is None:
            return None, f"could not be run again: {reason}"
        values.append(value)
        if number >= _FIRST_RUNS:
            verdict, told = _compared(suspected, values)
            if verdict == "worse":
                return True, f"Confirmed by {number} runs: {told}. Nothing that can be searched changed."
            if verdict in ("same", "better"):
                return False, f"Not confirmed: {number} runs say {verdict} ({told})."
    return None, f"Neither confirmed nor refuted by {most_runs} runs: {_compared(suspected, values)[1]}."


def _compared(suspected: Suspected, values: list[float]) -> tuple[str, str]:
    found = compare(list(suspected.before), values, higher_is_better=suspected.direction == "higher")
    if not math.isfinite(found.ratio):
        return "inconclusive", "they cannot be compared"
    told = Difference(
        ratio=found.ratio, low=found.low, high=found.high, minimum_detectable=found.minimum_detectable
    )
    return found.verdict, difference_text(told)


def _setting(
    suspected: Suspected, request: Request, state: State, workshop: Workshop, place: Path
) -> TrialSetting:
    """Trials of their own for each night's suspicion: another night is run anew."""
    try:
        made = workshop.make(state)
    except BuildError as error:
        raise BuildError(f"tonight's environment cannot be made again: {error}") from error
    name = safe_name(f"{suspected.series.case}-{suspected.series.metric}-{suspected.bad.session}")
    return TrialSetting(
        name=f"again-{made.worktree.revision[:10] if made.worktree else 'here'}",
        directory=place / "recheck" / name,
        configs=request.configs,
        datasets=request.datasets,
        only=(case_of(request, suspected.series.case).name,),
        jobs=1,
        venv=made.venv,
        worktree=made.worktree,
    )
