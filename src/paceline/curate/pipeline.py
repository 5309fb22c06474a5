"""A named chain of stages, the result of running it, and the inputs that could not be used."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, overload

from paceline.curate.errors import InputRejected, PipelineError
from paceline.curate.files import LineNumbers
from paceline.curate.jsonl import dump_lines
from paceline.curate.stage import Stage, flatten
from paceline.curate.task import Origin, Outcome, Reject, StagePerf, Task, aggregate
from paceline.curate.work import collector_paused

if TYPE_CHECKING:
    from paceline.curate.progress import Progress

ON_ERROR = ("reject", "fail")


class Executor(Protocol):
    """Runs flat stages over tasks; gives each batch's outcome exactly once, in any order."""

    name: str

    def run(self, stages: Sequence[Stage], tasks: Iterable[Task]) -> Iterator[Outcome]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Sequence[Task]):
    """The tasks that came out, in input order, with what they cost and what was rejected."""

    pipeline: str
    tasks: tuple[Task, ...]
    perf: tuple[StagePerf, ...]
    rejects: tuple[Reject, ...]

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Task, ...]: ...
    def __getitem__(self, index: int | slice) -> Task | tuple[Task, ...]:
        return self.tasks[index]

    def __len__(self) -> int:
        return len(self.tasks)

    def metrics(self) -> dict[str, float]:
        """The stages' costs as `task_<stage>_<metric>_<sum|mean|std>`."""
        return aggregate(self.perf)


class Pipeline:
    """Stages in order; composite ones are taken apart when the pipeline is made."""

    def __init__(self, name: str, stages: Iterable[Stage]) -> None:
        self.name = name
        self.stages = tuple(stages)
        self.flat = flatten(self.stages)
        if not self.flat:
            raise PipelineError(f"pipeline {name} has no stages")

    def describe(self) -> str:
        """What would run, a line a stage; parts of a composite stage are indented below it."""
        lines = [f"pipeline {self.name}"]
        for stage in self.stages:
            lines.append(f"  {stage.describe()}")
            parts = flatten((stage,))
            lines.extend(f"    {part.describe()}" for part in parts if part is not stage)
        return "\n".join(lines)

    def stream(
        self,
        executor: Executor,
        initial_tasks: Iterable[Task] | None = None,
        *,
        on_error: str = "reject",
        progress: "Progress | None" = None,
    ) -> Iterator[Outcome]:
        """Outcomes as they are made, in any order; memory stays that of the batches in flight."""
        if on_error not in ON_ERROR:
            raise PipelineError(f"on_error is {on_error!r}, not one of {', '.join(ON_ERROR)}")
        tasks = (Task(data=None, dataset_name=self.name),) if initial_tasks is None else initial_tasks
        with closing(_generator(executor.run(self.flat, tasks))) as outcomes:
            told = outcomes if progress is None else self._telling(progress, tasks, outcomes)
            for outcome in told:
                if outcome.rejects and on_error == "fail":
                    raise InputRejected(_first_reason(outcome.rejects))
                yield outcome

    def _telling(
        self, progress: "Progress", tasks: Iterable[Task], outcomes: Iterable[Outcome]
    ) -> Iterator[Outcome]:
        progress.begin(self.name, self.flat, tasks)
        finished = False
        try:
            for outcome in outcomes:
                progress.add(outcome)
                yield outcome
            finished = True
        finally:
            progress.end(finished=finished)

    def run(
        self,
        executor: Executor,
        initial_tasks: Iterable[Task] | None = None,
        *,
        on_error: str = "reject",
        progress: "Progress | None" = None,
    ) -> Result:
        """All output tasks at once; without `initial_tasks` the first stage is a source of its own."""
        # All of it is kept, and none of it is in cycles: passes over it would find nothing.
        with collector_paused():
            outcomes = list(self.stream(executor, initial_tasks, on_error=on_error, progress=progress))
        found = sorted(outcomes, key=lambda outcome: (outcome.unit, outcome.part))
        return Result(
            pipeline=self.name,
            tasks=tuple(task for outcome in found for task in outcome.tasks),
            perf=tuple(perf for outcome in found for perf in outcome.perf),
            rejects=tuple(reject for outcome in found for reject in outcome.rejects),
        )


def _generator(outcomes: Iterator[Outcome]) -> "_Closeable":
    return outcomes if hasattr(outcomes, "close") else (outcome for outcome in outcomes)  # type: ignore[return-value]


class _Closeable(Protocol):
    def __iter__(self) -> Iterator[Outcome]: ...
    def close(self) -> None: ...


def _first_reason(rejects: Sequence[Reject]) -> str:
    reject = next(numbered(rejects[:1]))
    where = str(reject.origin) if reject.origin is not None else reject.label
    return f"{where}: {reject.reason} (stage {reject.stage})"


class RejectLog:
    """Counts every reject and remembers each different one once, so that repeated input stays small."""

    def __init__(self) -> None:
        self.total = 0
        self._counts: Counter[Reject] = Counter()

    def add(self, rejects: Sequence[Reject]) -> None:
        self.total += len(rejects)
        self._counts.update(rejects)

    def write(self, path: Path) -> None:
        """One JSON object a line: `source, line, stage, reason, count`, in the order of the input."""
        records = [
            {
                "source": reject.origin.path if reject.origin else reject.label,
                "line": reject.origin.line if reject.origin else None,
                "stage": reject.stage,
                "reason": reject.reason,
                "count": self._counts[original],
            }
            for original, reject in self._sorted()
        ]
        path.write_bytes(dump_lines(records))

    def _sorted(self) -> Iterator[tuple[Reject, Reject]]:
        originals = sorted(self._counts, key=_place)
        return zip(originals, numbered(originals), strict=True)


def numbered(rejects: Iterable[Reject]) -> Iterator[Reject]:
    """The same rejects with line numbers for byte offsets; sorted ones need one pass over each file."""
    counters: dict[str, LineNumbers] = {}
    for reject in rejects:
        origin = reject.origin
        if origin is None or origin.offset is None or origin.line is not None:
            yield reject
            continue
        lines = counters.setdefault(origin.path, LineNumbers(origin.path))
        yield replace(reject, origin=Origin(path=origin.path, line=lines.at(origin.offset)))


def _place(reject: Reject) -> tuple[str, int, int, str, str]:
    origin = reject.origin
    if origin is None:
        return "", 0, 0, reject.label, reject.reason
    return origin.path, origin.offset or 0, origin.line or 0, reject.stage, reject.reason
