"""Inputs that could not be used: collected, numbered by line, written."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from paceline.curate.files import LineNumbers
from paceline.curate.jsonl import dump_lines
from paceline.curate.task import Origin, Reject


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
