"""The scan over a recording that makes its windows, step by step as the rules are written.

It takes any recording. Those whose segments are in order, which is nearly all, go through `ordered_scan`.
"""

from typing import Any

from paceline.curate.alm.recording import Recording, Window, rank
from paceline.curate.alm.segments import NO_SPEAKER


def scan(recording: Recording) -> tuple[list[Window], int]:
    """The windows, and how many segments were truncated on the way to them or to lost ones."""
    return _Scan(recording).run()


class _Scan:
    __slots__ = ("events", "recording", "rules", "segments")

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.rules = recording.rules
        self.segments = recording.segments
        self.events = 0

    def run(self) -> tuple[list[Window], int]:
        """Try each segment as a start."""
        recording, rules = self.recording, self.rules
        windows: list[Window] = []
        for index, start in enumerate(self.segments.starts):
            if self.segments.bandwidths[index] < rules.min_bandwidth:
                recording.lose("bw", index)
                continue
            stop = self._stop(index)
            members = recording.kept[index:stop]
            spoken = recording.spoken(index, stop)
            end = self.segments.ends[stop - 1] if stop > index else start
            if rules.truncation and self._reaches_over(stop, start):
                end = self._truncate(stop, start + rules.upper_s, members, end, spoken)
            if not rules.lower_s <= end - start <= rules.upper_s or len(members) < 2:
                recording.lose_window(index, stop, members)
            elif len(spoken) < rules.min_speakers:
                recording.lose("spk", index)
            else:
                windows.append({"segments": members, "speaker_durations": rank(spoken)})
        return windows, self.events

    def _stop(self, index: int) -> int:
        """The first segment that is not whole in the window."""
        ends, speakers, bandwidths = self.segments.ends, self.segments.speakers, self.segments.bandwidths
        min_bandwidth, max_speakers = self.rules.min_bandwidth, self.rules.max_speakers
        start, upper_s = self.segments.starts[index], self.rules.upper_s
        heard: set[Any] = set()
        for stop in range(index, len(ends)):
            if bandwidths[stop] < min_bandwidth or ends[stop] - start > upper_s:
                return stop
            speaker = speakers[stop]
            if speaker and speaker not in heard:
                if speaker == NO_SPEAKER or len(heard) >= max_speakers:
                    return stop
                heard.add(speaker)
        return len(ends)

    def _reaches_over(self, stop: int, start: float) -> bool:
        """Whether the segment at the stop begins in the window and ends after it."""
        starts, ends, upper_s = self.segments.starts, self.segments.ends, self.rules.upper_s
        if stop == len(starts) or self.segments.bandwidths[stop] < self.rules.min_bandwidth:
            return False
        return starts[stop] < start + upper_s and ends[stop] - start > upper_s

    def _truncate(
        self, stop: int, cut_s: float, members: list[dict[str, Any]], end: float, spoken: dict[Any, float]
    ) -> float:
        """Let the segment at the stop join as far as it fits; the window's new end."""
        self.events += 1
        speaker = self.segments.speakers[stop]
        if speaker == NO_SPEAKER:
            return end
        if speaker and speaker not in spoken and len(spoken) >= self.rules.max_speakers:
            return end
        cut = self.recording.cut(stop, cut_s)
        members.append(cut)
        new_end: float = cut["end"]
        if speaker:
            spoken[speaker] = spoken.get(speaker, 0) + (new_end - self.segments.starts[stop])
        return new_end
