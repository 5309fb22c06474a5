"""Which stub next: one whose model is in memory already, and of those the longest."""

from bisect import insort
from collections.abc import Iterable, Mapping

from paceline.evals.interfaces import Fits, Seat, Waiting


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
            stubs = self._waiting[model]
            for index in range(len(stubs) - 1, -1, -1):
                if fits(stubs[index]):
                    return self._pop(model, index)
        return None

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
