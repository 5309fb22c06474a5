"""What can go wrong in a pipeline.

PacelineError
├── BadRecord           one input cannot be used; raised by stages, becomes a reject
└── PipelineError       the run cannot go on
    ├── StageFailed     a stage raised something else: names stage and input, keeps the traceback
    ├── InputRejected   a reject, where the run is configured to fail on the first one
    └── WorkerLost      a worker process or node died with its work, more than once
"""

from paceline.errors import PacelineError


class BadRecord(PacelineError):
    """An input that a stage cannot use; the message is the reason that is written to the rejects."""


class PipelineError(PacelineError):
    """A pipeline that cannot be run, or cannot go on."""


class StageFailed(PipelineError):
    """A stage raised an error of its own."""

    def __init__(self, stage: str, label: str, cause: str, traceback: str = "") -> None:
        self.stage, self.label, self.cause, self.traceback = stage, label, cause, traceback
        super().__init__(f"stage {stage} failed on {label}: {cause}")

    def __reduce__(self) -> tuple[type["StageFailed"], tuple[str, str, str, str]]:
        return StageFailed, (self.stage, self.label, self.cause, self.traceback)


class InputRejected(PipelineError):
    """A bad input, where the run is configured to fail on one."""


class WorkerLost(PipelineError):
    """A worker died while it held a unit of work, and its replacement too."""
