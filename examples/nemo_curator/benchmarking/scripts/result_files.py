"""The three files that NeMo Curator's framework expects of a script, and what its pickle of tasks holds.

The two classes have the fields of Curator's own, so that this example needs no package. Scripts of Curator itself write
the real ones, which the runner reads without the package, too.
"""

import json
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class StagePerfStats:
    """What one stage took for one batch."""

    stage_name: str
    process_time: float = 0.0
    actor_idle_time: float = 0.0
    input_data_size_mb: float = 0.0
    num_items_processed: int = 0
    custom_metrics: dict[str, float] = field(default_factory=dict)


@dataclass
class Task:
    """A batch, and the statistics of the stages that it went through."""

    task_id: str
    dataset_name: str
    _stage_perf: list[StagePerfStats] = field(default_factory=list)


def write_benchmark_results(results: dict[str, Any], directory: Path) -> None:
    """Write params and metrics over what is there already, and the tasks."""
    for name in ("params", "metrics"):
        file = directory / f"{name}.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**known, **results[name]}, default=str, indent=2))
    (directory / "tasks.pkl").write_bytes(pickle.dumps(results["tasks"]))
