"""Of windows that overlap too much, the one nearer to the target length stays."""

from itertools import compress
from operator import sub
from typing import Any

from paceline.curate.errors import PipelineError
from paceline.curate.stage import Stage
from paceline.curate.task import Task

Pair = tuple[float, float]
# End, start, length, and how far that is from the target.
Span = tuple[float, float, float, float]

# Windows are matched with surviving pairs after rounding to this many decimals; what lies further apart than
# twice the last one cannot round to the same number.
DECIMALS = 6
_NEAR_S = 2e-6


class ALMDataOverlapStage(Stage):
    """Adds `filtered_windows` and the durations before and after to an entry that has windows."""

    name = "alm_data_overlap"
    is_plain = True
    inputs = ("windows",)
    outputs = ("filtered_windows", "filtered_dur")

    def __init__(self, *, overlap_percentage: float = 0, target_duration: float = 120.0) -> None:
        if not 0 <= overlap_percentage <= 100:
            raise PipelineError(
                f"alm_data_overlap: overlap_percentage is {overlap_percentage}, not in 0..100"
            )
        if not target_duration > 0:
            raise PipelineError(f"alm_data_overlap: target_duration is {target_duration}, not positive")
        self.threshold = overlap_percentage / 100
        self.target_duration = target_duration

    def process(self, task: Task) -> Task:
        return task.carrying(self.filter(task.data))

    def filter(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The output entry; the input is left as it is."""
        windows = entry.get("windows")
        if not windows:
            return {**_NOTHING, **entry, **{name: entry.get(name, _new(name)) for name in _NOTHING}}
        ends, starts, spoken = _times(windows)
        pairs = list(zip(ends, starts, strict=True))
        lengths = list(map(sub, ends, starts))
        # Windows that start well apart, one after the other, are in order and have no doubles.
        if min(map(sub, starts[1:], starts), default=1.0) > _NEAR_S:
            kept = survivors = self._survivors(ends, starts, lengths)
        else:
            order = sorted(range(len(pairs)), key=lambda index: (starts[index], ends[index]))
            survivors = [
                order[place]
                for place in self._survivors(*(_sort(order, of) for of in (ends, starts, lengths)))
            ]
            kept = _match(pairs, survivors)
        kept_lengths = [lengths[index] for index in survivors]
        stats = entry.get("stats") or {}
        return {
            **entry,
            "total_dur_window": sum(lengths) if pairs else 0.0,
            "total_dur_list_window": lengths,
            "total_dur_list_window_timestamps": pairs,
            "filtered": [pairs[index] for index in survivors],
            "filtered_windows": [spoken[index] for index in kept],
            "filtered_dur": sum(kept_lengths),
            "filtered_dur_list": kept_lengths,
            "manifest_filepath": stats.get("manifest_path"),
            "swift_filepath": stats.get("swift_path"),
        }

    def _survivors(self, ends: list[float], starts: list[float], lengths: list[float]) -> list[int]:
        """Which windows stay; they are in order of (start, end)."""
        target_s, least_s = self.target_duration, min(lengths, default=0.0)
        spans = list(zip(ends, starts, lengths, [abs(length - target_s) for length in lengths], strict=True))
        if self.threshold > 0 and least_s > 0:
            alive = _filter_near(spans, self.threshold, least_s)
        else:
            alive = _filter_any(spans, self.threshold)
        return list(compress(range(len(spans)), alive))


def _filter_any(spans: list[Span], threshold: float) -> list[bool]:
    """Which spans stay: each is compared with all after it that begin before it ends."""
    alive = [True] * len(spans)
    for here, (end, _, length, distance) in enumerate(spans):
        if not alive[here]:
            continue
        for there in range(here + 1, len(spans)):
            if not alive[there]:
                continue
            other_end, other_start, other_length, other_distance = spans[there]
            if other_start >= end:
                break
            shorter = other_length if other_length < length else length
            common = end - other_start if end < other_end else other_length
            if (common / shorter if shorter > 0 else 0.0) < threshold:
                continue
            if other_distance < distance or (other_distance == distance and length < other_length):
                alive[here] = False
                break
            alive[there] = False
    return alive


def _filter_near(spans: list[Span], threshold: float, least_s: float) -> list[bool]:
    """The same where every span has a length: what has too little in common with even the shortest ends the walk."""
    alive = [True] * len(spans)
    for here, (end, _, length, distance) in enumerate(spans):
        if not alive[here]:
            continue
        for there in range(here + 1, len(spans)):
            if not alive[there]:
                continue
            other_end, other_start, other_length, other_distance = spans[there]
            common = end - other_start
            if common / least_s < threshold:
                break
            if end >= other_end:
                common = other_length
            if common / (other_length if other_length < length else length) < threshold:
                continue
            if other_distance < distance or (other_distance == distance and length < other_length):
                alive[here] = False
                break
            alive[there] = False
    return alive


_NOTHING: dict[str, Any] = {
    "filtered_windows": [],
    "filtered_dur": 0.0,
    "filtered_dur_list": [],
    "total_dur_window": 0.0,
    "total_dur_list_window": [],
    "total_dur_list_window_timestamps": [],
    "filtered": [],
    "manifest_filepath": None,
    "swift_filepath": None,
}


def _new(name: str) -> Any:
    default = _NOTHING[name]
    return [] if isinstance(default, list) else default


def _times(windows: list[dict[str, Any]]) -> tuple[list[float], list[float], list[dict[str, Any]]]:
    """Ends and starts of all windows that have segments, and those windows; nothing if a time is missing."""
    contents: list[Any] = [window.get("segments") for window in windows]
    if not all(contents):
        windows = list(compress(windows, contents))
        contents = list(filter(None, contents))
    try:
        ends = [segments[-1]["end"] for segments in contents]
        return ends, [segments[0]["start"] for segments in contents], windows
    except KeyError:
        return [], [], []


def _sort(order: list[int], values: list[float]) -> list[float]:
    return [values[index] for index in order]


def _match(pairs: list[Pair], survivors: list[int]) -> list[int]:
    """The survivors and whatever rounds to the same times, in the windows' own order."""
    kept = set(survivors)
    starts = [start for _, start in pairs]
    order = sorted(range(len(pairs)), key=starts.__getitem__)
    starts.sort()
    begin = 0
    for place in range(1, len(order) + 1):
        if place < len(order) and starts[place] - starts[place - 1] <= _NEAR_S:
            continue
        if place - begin > 1:
            _match_cluster(pairs, order[begin:place], kept)
        begin = place
    return sorted(kept)


def _match_cluster(pairs: list[Pair], cluster: list[int], kept: set[int]) -> None:
    stamps = {_stamp(pairs[index]) for index in cluster if index in kept}
    kept.update(index for index in cluster if _stamp(pairs[index]) in stamps)


def _stamp(pair: Pair) -> Pair:
    return round(pair[0], DECIMALS), round(pair[1], DECIMALS)
