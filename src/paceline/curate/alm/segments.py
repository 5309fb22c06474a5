"""The segments of an entry as parallel lists, checked once, so that the window scan touches no dicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from paceline.curate.errors import BadRecord

NO_SPEAKER = "no-speaker"
_NUMBERS = frozenset((int, float))
_OBJECTS = frozenset((dict,))
_LABELS = frozenset((str, type(None)))
_NO_METRICS: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Segments:
    """`total_s` is the sum of the lengths from left to right, as the statistics report it.

    `uniform`: all times are floats, or all are integers, so equal sums also look equal when written.
    """

    starts: list[float]
    ends: list[float]
    lengths: list[float]
    speakers: list[Any]
    bandwidths: list[float]
    total_s: float
    uniform: bool

    def columns(self) -> tuple[list[float], list[float], list[float], list[Any]]:
        """Starts, ends, lengths and speakers."""
        return self.starts, self.ends, self.lengths, self.speakers


def read_segments(segments: Sequence[dict[str, Any]]) -> Segments:
    """The lists, or `BadRecord` for whatever would make a window wrong."""
    if type(segments) is not list or not _OBJECTS.issuperset(map(type, segments)):
        raise BadRecord("segments is not a list of objects")
    try:
        starts = [segment["start"] for segment in segments]
        ends = [segment["end"] for segment in segments]
    except KeyError:
        raise BadRecord(_first_incomplete(segments)) from None
    bandwidths = _read_bandwidths(segments)
    speakers = [segment.get("speaker") for segment in segments]
    _check_numbers("start", starts)
    _check_numbers("end", ends)
    if not _LABELS.issuperset(map(type, speakers)):
        _check_labels(speakers)
    lengths, total_s = _measure(starts, ends)
    return Segments(starts, ends, lengths, speakers, bandwidths, total_s, len(set(map(type, lengths))) < 2)


def _read_bandwidths(segments: Sequence[dict[str, Any]]) -> list[float]:
    try:
        bandwidths = [segment["metrics"]["bandwidth"] for segment in segments]
    except (KeyError, TypeError):
        bandwidths = [_read_bandwidth(index, segment) for index, segment in enumerate(segments)]
    _check_numbers("metrics.bandwidth", bandwidths)
    if not isfinite(sum(bandwidths)):
        _check_finite("metrics.bandwidth", bandwidths)
    return bandwidths


def _read_bandwidth(index: int, segment: dict[str, Any]) -> Any:
    metrics = segment.get("metrics", _NO_METRICS)
    if not isinstance(metrics, dict):
        raise BadRecord(f"segments[{index}].metrics is not an object")
    return metrics.get("bandwidth", 0)


def _measure(starts: list[float], ends: list[float]) -> tuple[list[float], float]:
    try:
        lengths = [end - start for start, end in zip(starts, ends, strict=True)]
        total_s = sum(lengths)
        # Any NaN or infinity among the times survives the subtraction and the sum.
        if isfinite(total_s):
            return lengths, total_s
    except OverflowError:
        pass
    for name, values in (("start", starts), ("end", ends)):
        _check_finite(name, values)
    raise BadRecord("the segments' times are too large to add up")


def _check_numbers(name: str, values: list[Any]) -> None:
    if not _NUMBERS.issuperset(map(type, values)):
        index = next(place for place, value in enumerate(values) if type(value) not in _NUMBERS)
        raise BadRecord(f"segments[{index}].{name} is not a number")


def _check_finite(name: str, values: list[float]) -> None:
    for index, value in enumerate(values):
        try:
            finite = isfinite(value)
        except OverflowError:
            finite = False
        if not finite:
            raise BadRecord(f"segments[{index}].{name} is not a finite number")


def _check_labels(speakers: list[Any]) -> None:
    for index, speaker in enumerate(speakers):
        if isinstance(speaker, list | dict):
            raise BadRecord(f"segments[{index}].speaker is not a label")


def _first_incomplete(segments: Sequence[dict[str, Any]]) -> str:
    for index, segment in enumerate(segments):
        for field in ("start", "end"):
            if field not in segment:
                return f"segments[{index}].{field} is missing"
    return "segments are incomplete"
