"""What runs inside the engines' workers: a whole unit through all stages in one call.

One call a unit of about a megabyte, instead of one a record and stage: so the cost of an engine's calls
disappears behind the work.
"""

import pickle
from collections.abc import Sequence

from paceline.curate.collector import Sweeper, collector_paused
from paceline.curate.errors import PipelineError
from paceline.curate.stage import Stage
from paceline.curate.task import Outcome, Unit
from paceline.curate.work import run_unit, set_up

Reply = tuple[Outcome, ...] | PipelineError


class UnitRunner:
    """Stages that are set up once, in the worker."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self._sweeper = Sweeper()
        self._error: PipelineError | None = None
        try:
            set_up(stages)
        except PipelineError as error:
            # Told by the first unit: what an engine says of a worker that cannot start names neither stage nor reason.
            self._error = error

    def ready(self) -> None:
        """Answers when the stages are set up."""

    def run(self, unit: Unit) -> Reply:
        """The outcomes, or the error that ends the run: as a value, lest the engine wrap or retry it."""
        if self._error is not None:
            return self._error
        try:
            with collector_paused():
                return tuple(run_unit(self._stages, unit))
        except PipelineError as error:
            return error
        finally:
            self._sweeper.unit_done()


_runners: dict[str, UnitRunner] = {}


def runner_for(token: str, stages: bytes) -> UnitRunner:
    """This process's runner for one run of a pipeline, made at first use."""
    if token not in _runners:
        _runners.clear()
        _runners[token] = UnitRunner(pickle.loads(stages))  # noqa: S301 - made by our own driver
    return _runners[token]
