"""What each stage cost, batch by batch, and its summary over a run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import fsum, sqrt

BYTES_PER_MB = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePerf:
    """One batch in one stage.

    The field names are those that readers of `tasks.pkl` look for; times are seconds. `input_data_size_mb` is
    the real size of the input, not its number of items.
    """

    stage_name: str
    process_time: float
    actor_idle_time: float = 0.0
    input_data_size_mb: float = 0.0
    num_items_processed: int = 0
    custom_metrics: Mapping[str, float] = field(default_factory=dict)

    def values(self) -> Iterator[tuple[str, float]]:
        """All numbers by name, the stage's own ones as `custom.<name>`."""
        yield "process_time", self.process_time
        yield "actor_idle_time", self.actor_idle_time
        yield "input_data_size_mb", self.input_data_size_mb
        yield "num_items_processed", float(self.num_items_processed)
        for name, value in self.custom_metrics.items():
            yield f"custom.{name}", value


def distinct(perfs: Iterable[StagePerf]) -> list[StagePerf]:
    """Each batch once: the tasks of a batch share one object, so identity tells them apart."""
    return list({id(perf): perf for perf in perfs}.values())


def aggregate(perfs: Iterable[StagePerf], *, pipeline: str = "") -> dict[str, float]:
    """`task_[<pipeline>_]<stage>_<metric>_{sum,mean,std}` over all batches (`std` of the population)."""
    columns: dict[str, list[float]] = {}
    prefix = f"task_{pipeline}_" if pipeline else "task_"
    for perf in distinct(perfs):
        for name, value in perf.values():
            columns.setdefault(f"{prefix}{perf.stage_name}_{name}", []).append(value)
    return {f"{name}_{kind}": value for name, column in columns.items() for kind, value in _summary(column)}


def _summary(column: list[float]) -> Iterator[tuple[str, float]]:
    total = fsum(column)
    mean = total / len(column)
    yield "sum", total
    yield "mean", mean
    yield "std", sqrt(fsum((value - mean) ** 2 for value in column) / len(column))
