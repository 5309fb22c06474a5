"""Which stub next: one whose model is in memory already, and of those the longest.

How long stubs took and how much memory models took is kept beside the results: the next execution plans by it.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from paceline.evals.configs import BenchmarkStub
from paceline.evals.interfaces import Fits, Seat, Waiting
from paceline.record.codec import dump, load
from paceline.record.files import write_atomic

FILE = ".costs.json"


def _length(stub: Waiting) -> tuple[float, int]:
    return stub.expected_s or 0.0, -stub.number


class LongestFirst:
    """Keeps a worker on its model while there is work for it; else gives it the model with most work a worker."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Waiting]] = {}
        self._left_s: dict[str, float] = {}

    def add(self, stubs: Iterable[Waiting]) -> None:
        for stub in stubs:
            insort(self._waiting.setdefault(stub.model_key, []), stub, key=_length)
            self._left_s[stub.model_key] = self._left_s.get(stub.model_key, 0.0) + _work(stub)

    def take(self, seat: Seat, fits: Fits, working: Mapping[str, int]) -> Waiting | None:
        for model in self._order(seat.resident, working):
            for index in self._places(model):
                if fits(self._waiting[model][index]):
                    return self._pop(model, index)
        return None

    def _places(self, model: str) -> Iterable[int]:
        """The stubs of a model in the order in which they are to go; they lie by their length."""
        return range(len(self._waiting[model]) - 1, -1, -1)

    def _order(self, resident: str | None, working: Mapping[str, int]) -> list[str]:
        def urgency(model: str) -> tuple[bool, float]:
            return model == resident, self._left_s[model] / (working.get(model, 0) + 1)

        return sorted(self._waiting, key=urgency, reverse=True)

    def _pop(self, model: str, index: int) -> Waiting:
        stub = self._waiting[model].pop(index)
        self._left_s[model] -= _work(stub)
        if not self._waiting[model]:
            del self._waiting[model], self._left_s[model]
        return stub

    def remove(self, model_key: str | None = None) -> list[Waiting]:
        models = list(self._waiting) if model_key is None else [model_key] * (model_key in self._waiting)
        removed = [stub for model in models for stub in self._waiting.pop(model)]
        for model in models:
            del self._left_s[model]
        return sorted(removed, key=lambda stub: stub.number)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))


class ShortestFirst(LongestFirst):
    """The first results as soon as can be: of the model in memory the shortest stub, else the shortest of all.

    The whole takes longer so, since what is long begins when others have nothing left to do.
    """

    def _order(self, resident: str | None, working: Mapping[str, int]) -> list[str]:
        def urgency(model: str) -> tuple[bool, float, int]:
            stubs = self._waiting[model]
            return model != resident, stubs[0].expected_s or 0.0, min(stub.number for stub in stubs)

        return sorted(self._waiting, key=urgency)

    def _places(self, model: str) -> Iterable[int]:
        """Equals in the order of the matrix."""
        stubs = self._waiting[model]
        return sorted(
            range(len(stubs)), key=lambda index: (stubs[index].expected_s or 0.0, stubs[index].number)
        )


def _work(stub: Waiting) -> float:
    """Seconds as far as they are known; something at least, so that stubs count by number where nothing is."""
    return stub.expected_s or 1.0


class InOrder:
    """First come, first served, whatever is in memory."""

    def __init__(self) -> None:
        self._waiting: list[Waiting] = []

    def add(self, stubs: Iterable[Waiting]) -> None:
        for stub in stubs:
            insort(self._waiting, stub, key=lambda one: one.number)

    def take(self, seat: Seat, fits: Fits, working: Mapping[str, int]) -> Waiting | None:
        index = next((index for index, stub in enumerate(self._waiting) if fits(stub)), None)
        return None if index is None else self._waiting.pop(index)

    def remove(self, model_key: str | None = None) -> list[Waiting]:
        removed = [stub for stub in self._waiting if model_key in (None, stub.model_key)]
        self._waiting = [stub for stub in self._waiting if model_key not in (None, stub.model_key)]
        return removed

    def __len__(self) -> int:
        return len(self._waiting)


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

    def peak_bytes(self, memory_key: str) -> int | None:
        return self._peaks.get(memory_key)

    def note(self, stub: BenchmarkStub, memory_key: str, facts: Mapping[str, Any]) -> None:
        """Remember what a stub took; one that went on in mid-way says nothing of the whole."""
        if facts.get("asked") and facts["asked"] == facts.get("num_samples"):
            self._seconds[_name(stub)] = float(facts["execution_time_s"])
        if facts.get("peak_memory_bytes"):
            self._peaks[memory_key] = int(facts["peak_memory_bytes"])

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
