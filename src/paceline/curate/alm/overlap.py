"""Of windows that overlap too much, the one nearer to the target length stays."""

from collections.abc import Sequence
from itertools import compress, pairwise
from typing import Any

from paceline.curate.errors import PipelineError
from paceline.curate.stage import Stage
from paceline.curate.task import Task

Pair = tuple[float, float]

# Windows are matched with surviving pairs after rounding to this many decimals; what lies further apart than
# twice the last one cannot round to the same number.
DECIMALS = 6
_NEAR_S = 2e-6


class ALMDataOverlapStage(Stage):
    """Adds `filtered_windows` and the durations before and after to an entry that has windows."""

    name = "alm_data_overlap"
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
        pairs, spoken = _pairs(windows)
        survivors = _survivors(pairs, self.threshold, self.target_duration)
        kept = _match(pairs, survivors)
        lengths = [end - start for end, start in pairs]
        kept_lengths = [pairs[index][0] - pairs[index][1] for index in survivors]
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


def _pairs(windows: list[dict[str, Any]]) -> tuple[list[Pair], list[dict[str, Any]]]:
    """(end, start) of every window that has segments, and those windows; nothing if a time is missing."""
    filled = [window for window in windows if window.get("segments")]
    try:
        return [(window["segments"][-1]["end"], window["segments"][0]["start"]) for window in filled], filled
    except KeyError:
        return [], []


def _survivors(pairs: list[Pair], threshold: float, target_s: float) -> list[int]:
    """Indices of the pairs that stay, by (start, end)."""
    spans = [(start, end) for end, start in pairs]
    order: Sequence[int] = range(len(pairs))
    if spans != (ranked := sorted(spans)):
        order = sorted(order, key=spans.__getitem__)
        spans = ranked
    alive = [True] * len(order)
    for here, (start, end) in enumerate(spans):
        if not alive[here]:
            continue
        length = end - start
        distance = abs(length - target_s)
        for there in range(here + 1, len(spans)):
            if not alive[there]:
                continue
            other_start, other_end = spans[there]
            if other_start >= end:
                break
            other_length = other_end - other_start
            shorter = other_length if other_length < length else length
            common = (end if end < other_end else other_end) - other_start
            if (common / shorter if shorter > 0 else 0.0) < threshold:
                continue
            other_distance = abs(other_length - target_s)
            if other_distance < distance or (other_distance == distance and length < other_length):
                alive[here] = False
                break
            alive[there] = False
    return list(compress(order, alive))


def _match(pairs: list[Pair], survivors: list[int]) -> list[int]:
    """The survivors and whatever rounds to the same times, in the windows' own order."""
    kept = set(survivors)
    starts = [start for _, start in pairs]
    if not [1 for before, after in pairwise(starts) if after - before <= _NEAR_S]:
        return sorted(kept)
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
