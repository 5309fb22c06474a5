"""The windows of a recording, in one pass over its segments.

As starts rise, the stop of the scan never moves back; where a start lies before the one before it, the window is made
anew. How long each speaker is heard must be the sum from left to right: adding on the right keeps that, and taking away
on the left disturbs only the speaker that leaves, whose sum is made anew.
"""

import sys
from collections.abc import Callable
from functools import reduce
from math import inf
from operator import add
from typing import Any, NamedTuple

from paceline.curate.alm.recording import SPEAKER_SLOTS, Recording, Window, rank
from paceline.curate.alm.segments import NO_SPEAKER, Segments


def _add_in_turn(lengths: list[float]) -> float:
    return reduce(add, lengths)


# From Python 3.12 on `sum` compensates rounding errors, which is not what adding one by one gives.
_add_up: Callable[[list[float]], float] = sum if sys.version_info < (3, 12) else _add_in_turn


class _Slots(NamedTuple):
    """Where the sums of the speakers are kept; `nobody` is the place of segments without a label, or -1.

    `zero` is whole where lengths are, since whole numbers add up to one. `special`: sums in order are not yet the
    durations, for there are too many of them, some may be below zero, or whole ones stand beside others.
    """

    size: int
    nobody: int
    zero: float
    mixed: bool
    special: bool

    def silence(self) -> tuple[list[list[float]], list[float]]:
        """Nobody is heard yet; who has no label always is."""
        heard: list[list[float]] = [[] for _ in range(self.size)]
        if self.nobody >= 0:
            heard[self.nobody].append(self.zero)
        return heard, [self.zero] * self.size


def scan(recording: Recording) -> tuple[list[Window], int]:
    """The windows, and how many segments were truncated on the way to them or to lost ones."""
    rules, segments, kept = recording.rules, recording.segments, recording.kept
    lower_s, upper_s, reach_s = rules.lower_s, rules.upper_s, rules.upper_s if rules.truncation else -inf
    enough, at, heard_s = _enough(rules.min_speakers)
    starts, ends = _with_barriers(recording)
    voices, lengths, slots = _voices(segments)
    (heard, sums), full_at = slots.silence(), rules.max_speakers + (slots.nobody >= 0)
    crowded, disordered = len(segments.labels) > rules.max_speakers, starts != sorted(starts)
    barred = rules.truncation and (crowded or NO_SPEAKER in segments.labels)
    windows: list[Window] = []
    lost: list[tuple[int, int, list[dict[str, Any]]]] = []
    # In the row a segment that was cut stands in place of the whole one. Without words it is the same for every window.
    row, cut_at, worded = kept.copy(), -1, recording.is_worded()
    events = stop = 0
    for index, start, voice in zip(range(len(voices)), starts, voices, strict=False):
        if disordered and stop > index and start < starts[index - 1]:
            (heard, sums), stop = slots.silence(), index
        while ends[stop] - start <= upper_s:
            added, length = voices[stop], lengths[stop]
            if crowded and _is_full(heard, added, full_at):
                break
            heard[added].append(length)
            sums[added] += length
            stop += 1
        end, ranked = starts[stop], None
        if end < start + reach_s and not (crowded and _is_full(heard, voices[stop], full_at)):
            events += 1
            if worded:
                cut, end, ranked = _cut(recording, index, stop)
                members = [*kept[index:stop], cut]
            else:
                if stop != cut_at:
                    row[cut_at], row[stop], cut_at = kept[cut_at], _silence(kept[stop], end), stop
                members = row[index : stop + 1]
        else:
            members = kept[index:stop]
            end = ends[stop - 1] if stop > index else start
            events += barred and _is_cut_off(recording, index, stop)
        if not (lower_s <= end - start <= upper_s and len(members) > 1):
            lost.append((index, stop, members))
        else:
            if ranked is None:
                ranked = [*sums]
                ranked.sort(reverse=True)
                if slots.special:
                    ranked = _settle(ranked, slots, recording, voices, index, stop, len(members))
            if ranked[at] > heard_s or _count_speakers(segments, index, len(members)) > enough:
                windows.append({"segments": members, "speaker_durations": ranked})
            else:
                recording.lose("spk", index)
        if stop > index:
            own = heard[voice]
            del own[0]
            sums[voice] = _add_up(own) if own else slots.zero
        else:
            stop = index + 1
    _lose(recording, lost)
    return windows, events


def _enough(fewest: int) -> tuple[int, int, float]:
    """So many speakers are not enough; if the one at that place is heard for longer than this, there are more of them.

    Else they are counted: some may be heard for no time.
    """
    return (fewest - 1, fewest - 1, 0.0) if fewest <= SPEAKER_SLOTS else (fewest - 1, 0, inf)


def _with_barriers(recording: Recording) -> tuple[list[float], list[float]]:
    """Starts and ends in which no window reaches over a barrier or the end.

    Barriers are segments of low bandwidth and of nobody. Infinite times there end each scan, without a test of its own.
    """
    speakers, bandwidths = recording.segments.speakers, recording.segments.bandwidths
    starts, ends = [*recording.segments.starts, inf], [*recording.segments.ends, inf]
    least = recording.rules.min_bandwidth
    if min(bandwidths, default=least) < least or NO_SPEAKER in recording.segments.labels:
        for place, speaker in enumerate(speakers):
            if bandwidths[place] < least or speaker == NO_SPEAKER:
                starts[place] = ends[place] = inf
    return starts, ends


def _voices(segments: Segments) -> tuple[list[int], list[float], _Slots]:
    """The slot of each segment's speaker, what it adds there (nothing where nobody speaks), and the slots."""
    named = list(filter(None, segments.labels))
    places = dict(zip(named, range(len(named)), strict=True))
    nobody = len(named) if len(named) < len(segments.labels) else -1
    kinds = {float} if segments.floats else {*map(type, segments.lengths)}
    count = max(SPEAKER_SLOTS, len(named) + (nobody >= 0))
    special = count > SPEAKER_SLOTS or int in kinds or min(segments.lengths, default=0.0) < 0
    slots = _Slots(count, nobody, 0 if int in kinds else 0.0, len(kinds) > 1, special)
    if nobody < 0:
        return [places[speaker] for speaker in segments.speakers], segments.lengths, slots
    voices = [places.get(speaker, nobody) for speaker in segments.speakers]
    lengths = [
        length if voice != nobody else slots.zero
        for voice, length in zip(voices, segments.lengths, strict=True)
    ]
    return voices, lengths, slots


def _is_full(heard: list[list[float]], added: int, full_at: int) -> bool:
    """Whether one more speaker would be too many."""
    return not heard[added] and sum(map(bool, heard)) >= full_at


def _is_cut_off(recording: Recording, index: int, stop: int) -> bool:
    """Whether a segment that may not join begins in the window and ends after it."""
    segments, rules = recording.segments, recording.rules
    if stop == len(segments.starts) or segments.bandwidths[stop] < rules.min_bandwidth:
        return False
    start = segments.starts[index]
    return segments.starts[stop] < start + rules.upper_s and segments.ends[stop] - start > rules.upper_s


def _cut(recording: Recording, index: int, stop: int) -> tuple[dict[str, Any], float, list[float] | None]:
    """The segment at the stop with the words in reach, its end, and the durations if something of it is left."""
    cut = recording.cut(stop, recording.segments.starts[index] + recording.rules.upper_s)
    end: float = cut["end"]
    if end is recording.segments.starts[stop]:
        return cut, end, None
    return cut, end, _rank_window(recording, index, stop, end)


def _silence(segment: dict[str, Any], end: float) -> dict[str, Any]:
    cut = segment.copy()
    cut["end"], cut["text"] = end, ""
    return cut


def _settle(
    ranked: list[float],
    slots: _Slots,
    recording: Recording,
    voices: list[int],
    index: int,
    stop: int,
    members: int,
) -> list[float]:
    """The durations of a window from its sums in order; added up anew where these do not decide."""
    heard = {*voices[index : index + members]}
    count = len(heard) - (slots.nobody in heard)
    # Of speakers who are not heard there is 0.0, also beside whole numbers; they come last, also after less than zero.
    if ranked[-1] >= 0 and not (slots.mixed and int in map(type, ranked[:count])):
        ranked[count:] = [0.0] * (SPEAKER_SLOTS - count)
        return ranked[:SPEAKER_SLOTS]
    cut_s = recording.segments.starts[stop] if index + members > stop else None
    return _rank_window(recording, index, stop, cut_s)


def _rank_window(recording: Recording, index: int, stop: int, cut_s: float | None) -> list[float]:
    """The durations, added up; of a segment at the stop that was cut, up to there."""
    spoken = recording.spoken(index, stop)
    if cut_s is not None and (speaker := recording.segments.speakers[stop]):
        spoken[speaker] = spoken.get(speaker, 0) + (cut_s - recording.segments.starts[stop])
    return rank(spoken)


def _count_speakers(segments: Segments, index: int, count: int) -> int:
    return len({speaker for speaker in segments.speakers[index : index + count] if speaker})


def _lose(recording: Recording, lost: list[tuple[int, int, list[dict[str, Any]]]]) -> None:
    """Account for starts that no window came of; each cause has counters of its own, so none is out of turn."""
    bandwidths, min_bandwidth = recording.segments.bandwidths, recording.rules.min_bandwidth
    for index, stop, members in lost:
        if bandwidths[index] < min_bandwidth:
            recording.lose("bw", index)
        else:
            recording.lose_window(index, stop, members)
