"""The segments of an entry as parallel lists, checked once, so that the window scan touches no dicts."""

from collections.abc import Sequence
from math import isfinite
from operator import sub
from typing import Any, NamedTuple

from paceline.curate.errors import BadRecord

NO_SPEAKER = "no-speaker"
_NUMBERS = frozenset((int, float))
_FLOATS = frozenset((float,))
_LABELS = frozenset((str, type(None)))
_NO_METRICS: dict[str, Any] = {}


class Segments(NamedTuple):
    """`total_s` is the sum of the lengths from left to right, as the statistics report it; `floats`: all times are."""

    starts: list[float]
    ends: list[float]
    lengths: list[float]
    speakers: list[Any]
    labels: set[Any]
    bandwidths: list[float]
    total_s: float
    floats: bool


def read_segments(segments: Sequence[dict[str, Any]]) -> Segments:
    """The lists, or `BadRecord` for whatever would make a window wrong."""
    if type(segments) is not list:
        raise BadRecord("segments is not a list of objects")
    try:
        starts = [segment["start"] for segment in segments]
        ends = [segment["end"] for segment in segments]
    except (KeyError, TypeError):
        raise BadRecord(_first_incomplete(segments)) from None
    bandwidths = _read_bandwidths(segments)
    speakers = _read_speakers(segments)
    floats = _FLOATS.issuperset(map(type, starts + ends))
    if not floats:
        _check_numbers("start", starts)
        _check_numbers("end", ends)
    if not _LABELS.issuperset(map(type, speakers)):
        _check_labels(speakers)
    lengths, total_s = _measure(starts, ends)
    return Segments(starts, ends, lengths, speakers, set(speakers), bandwidths, total_s, floats)


def _read_speakers(segments: Sequence[dict[str, Any]]) -> list[Any]:
    try:
        return [segment["speaker"] for segment in segments]
    except KeyError:
        return [segment.get("speaker") for segment in segments]


def _read_bandwidths(segments: Sequence[dict[str, Any]]) -> list[float]:
    try:
        bandwidths = [segment["metrics"]["bandwidth"] for segment in segments]
    except (KeyError, TypeError):
        bandwidths = [_read_bandwidth(index, segment) for index, segment in enumerate(segments)]
    _check_numbers("metrics.bandwidth", bandwidths)
    try:
        finite = isfinite(sum(bandwidths))
    except OverflowError:
        finite = False
    if not finite:
        _check_finite("metrics.bandwidth", bandwidths)
    return bandwidths


def _read_bandwidth(index: int, segment: dict[str, Any]) -> Any:
    metrics = segment.get("metrics", _NO_METRICS)
    if not isinstance(metrics, dict):
        raise BadRecord(f"segments[{index}].metrics is not an object")
    return metrics.get("bandwidth", 0)


def _measure(starts: list[float], ends: list[float]) -> tuple[list[float], float]:
    try:
        lengths = list(map(sub, ends, starts))
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
        if not is_finite(value):
            raise BadRecord(f"segments[{index}].{name} is not a finite number")


def is_finite(value: float) -> bool:
    """Whether floats can hold it; integers may be too large for them."""
    try:
        return isfinite(value)
    except OverflowError:
        return False


def _check_labels(speakers: list[Any]) -> None:
    for index, speaker in enumerate(speakers):
        if isinstance(speaker, list | dict):
            raise BadRecord(f"segments[{index}].speaker is not a label")


def _first_incomplete(segments: Sequence[dict[str, Any]]) -> str:
    if not all(isinstance(segment, dict) for segment in segments):
        return "segments is not a list of objects"
    for index, segment in enumerate(segments):
        for field in ("start", "end"):
            if field not in segment:
                return f"segments[{index}].{field} is missing"
    return "segments are incomplete"
