"""How long stubs took and how much memory models took, kept beside the results: the next execution plans by it."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.evals.configs import BenchmarkStub
from paceline.record.atomic import write_atomic
from paceline.record.codec import dump, load

FILE = ".costs.json"


class Costs:
    """Seconds of stubs and peaks of models, by their names; what changed its parameters still takes about as long."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        data = _read(self._path)
        self._seconds: dict[str, float] = dict(data.get("seconds", {}))
        self._peaks: dict[str, int] = dict(data.get("peak_bytes", {}))
        self._by_task: dict[str, list[float]] = defaultdict(list)
        for name, seconds in self._seconds.items():
            self._by_task[name.rpartition("\n")[2]].append(seconds)

    def expected_s(self, stub: BenchmarkStub) -> float | None:
        """What the stub took last time; else what its benchmark takes on average; else None."""
        known = self._seconds.get(_name(stub))
        similar = self._by_task.get(stub.task)
        return known if known is not None else sum(similar) / len(similar) if similar else None

    def peak_bytes(self, model_key: str) -> int | None:
        return self._peaks.get(model_key)

    def note(self, stub: BenchmarkStub, model_key: str, facts: Mapping[str, Any]) -> None:
        """Remember what a stub took; one that went on in mid-way says nothing of the whole."""
        if facts.get("asked") and facts["asked"] == facts.get("num_samples"):
            self._seconds[_name(stub)] = float(facts["execution_time_s"])
        if facts.get("peak_memory_bytes"):
            self._peaks[model_key] = int(facts["peak_memory_bytes"])

    def write(self) -> None:
        write_atomic(self._path, dump({"seconds": self._seconds, "peak_bytes": self._peaks}, pretty=True))


def _name(stub: BenchmarkStub) -> str:
    parts = (stub.model_name, stub.adapter_config.adapter_name, stub.sparse_config_name, stub.task)
    return "\n".join(parts)


def _read(path: Path) -> dict[str, Any]:
    """What is known; nothing if the file is not there or no longer makes sense, since plans work without."""
    try:
        data = load(path.read_bytes())
        seconds = {str(name): float(value) for name, value in data["seconds"].items()}
        peaks = {str(name): int(value) for name, value in data["peak_bytes"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
    return {"seconds": seconds, "peak_bytes": peaks}
