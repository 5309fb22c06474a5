"""A named chain of stages, the result of running it, and the inputs that could not be used."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, overload

from paceline.curate.errors import InputRejected, PipelineError
from paceline.curate.files import LineNumbers
from paceline.curate.jsonl import dump_lines
from paceline.curate.stage import CompositeStage, Stage, flatten
from paceline.curate.task import Origin, Outcome, Reject, StagePerf, Task, aggregate
from paceline.curate.work import collector_paused
from paceline.numbers import number

if TYPE_CHECKING:
    from paceline.curate.progress import Progress

ON_ERROR = ("reject", "fail")


class Executor(Protocol):
    """Runs flat stages over tasks; gives each batch's outcome exactly once, in any order."""

    name: str

    def run(self, stages: Sequence[Stage], tasks: Iterable[Task]) -> Iterator[Outcome]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Sequence[Task]):
    """The tasks that came out, in input order, with what they cost and what was rejected.

    Tasks that workers made are kept as they sent them: each is unpacked when it is read, and each time anew.
    """

    pipeline: str
    tasks: Sequence[Task]
    perf: tuple[StagePerf, ...]
    rejects: tuple[Reject, ...]

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | Sequence[Task]:
        return self.tasks[index]

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def metrics(self) -> dict[str, float]:
        """The stages' costs as `task_<stage>_<metric>_<sum|mean|std>`."""
        return aggregate(self.perf)


class _Joined(Sequence[Task]):
    """The tasks of several batches, one after the other."""

    def __init__(self, batches: Sequence[Sequence[Task]]) -> None:
        self._batches = batches
        self._ends = list(accumulate(map(len, batches)))

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Task, ...]: ...
    def __getitem__(self, index: int | slice) -> Task | tuple[Task, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"task {index} of {len(self)}")
        batch = bisect_right(self._ends, place)
        return self._batches[batch][place - (self._ends[batch - 1] if batch else 0)]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Task]:
        return chain.from_iterable(self._batches)


class Pipeline:
    """Stages in order; composite ones are taken apart when the pipeline is made."""

    def __init__(self, name: str, stages: Iterable[Stage]) -> None:
        self.name = name
        self.stages = tuple(stages)
        self.flat = flatten(self.stages)
        if not self.flat:
            raise PipelineError(f"pipeline {name} has no stages")

    def describe(self) -> str:
        """What would run, one stage per line; parts of a composite stage are indented below it."""
        lines = [f"pipeline {self.name}"]
        for stage in self.stages:
            lines.append(f"  {_line(stage)}")
            if isinstance(stage, CompositeStage):
                lines.extend(f"    {_line(part)}" for part in flatten((stage,)))
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
            tasks=_Joined([outcome.tasks for outcome in found]),
            perf=tuple(perf for outcome in found for perf in outcome.perf),
            rejects=tuple(reject for outcome in found for reject in outcome.rejects),
        )


def _line(stage: Stage) -> str:
    """A stage for `describe`."""
    flow = f"{', '.join(stage.inputs) or 'any'} -> {', '.join(stage.outputs) or 'any'}"
    gpus = f", {number(stage.resources.gpus)} GPU" if stage.resources.gpus else ""
    return f"{stage.name} [{flow}; {number(stage.resources.cpus)} CPU{gpus}]"


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
