"""One entry on its way through the window scan: its segments, how they are cut, and what is lost of them."""

from dataclasses import dataclass
from typing import Any

from paceline.curate.alm.segments import NO_SPEAKER, Segments
from paceline.curate.errors import BadRecord

SPEAKER_SLOTS = 5
Window = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRules:
    """What a window must be like."""

    lower_s: float
    upper_s: float
    min_bandwidth: float
    min_speakers: int
    max_speakers: int
    truncation: bool
    drop_fields: frozenset[str]


class Recording:
    """`kept` are the segments as windows show them, without the dropped fields.

    Windows share their segments: a copy for each window would be ten times the memory.
    """

    __slots__ = ("kept", "raw", "rules", "segments", "stats")

    def __init__(
        self, rules: WindowRules, raw: list[dict[str, Any]], segments: Segments, stats: dict[str, Any]
    ) -> None:
        self.rules = rules
        self.raw = raw
        self.segments = segments
        self.stats = stats
        self.kept = _strip(raw, rules.drop_fields)

    def is_worded(self) -> bool:
        """Whether a cut depends on where it is made, or shows other fields than an empty text."""
        dropped = self.rules.drop_fields
        return self.kept is not self.raw or "text" in dropped or "words" not in dropped

    def cut(self, stop: int, cut_s: float) -> dict[str, Any]:
        """A copy that ends with the last word before the cut, or where it starts if no word does."""
        dropped = self.rules.drop_fields
        said = self.raw[stop].get("words")
        words = _words_before(said, cut_s, stop) if said else []
        shortened = self.kept[stop].copy()
        shortened["end"] = words[-1]["end"] if words else self.segments.starts[stop]
        if "text" not in dropped:
            shortened["text"] = (
                " ".join([word["word"] for word in words if word.get("word")]) if words else ""
            )
        if "words" not in dropped:
            shortened["words"] = words
        return shortened

    def spoken(self, index: int, stop: int) -> dict[Any, float]:
        """How long each speaker is heard from `index` to before `stop`, in order of appearance."""
        lengths = self.segments.lengths
        spoken: dict[Any, float] = {}
        for place, speaker in enumerate(self.segments.speakers[index:stop], index):
            if speaker:
                spoken[speaker] = spoken.get(speaker, 0) + lengths[place]
        return spoken

    def lose(self, cause: str, index: int) -> None:
        """The segment at `index` starts no window, for this cause."""
        self.stats[f"lost_{cause}"] += 1
        self.stats[f"dur_lost_{cause}"] += self.segments.lengths[index]

    def lose_window(self, index: int, stop: int, members: list[dict[str, Any]]) -> None:
        """The window has the wrong length; `stop` is where the scan for it ended."""
        stats, kept = self.stats, self.kept
        stats["lost_win"] += 1
        stats["dur_lost_win"] += self.segments.lengths[index]
        after = stop if stop < len(kept) else stop - 1
        # A label that is there but null or empty does not count as missing here.
        if self.raw[after].get("speaker", NO_SPEAKER) == NO_SPEAKER:
            self.lose("no_spkr", index)
        elif self.segments.bandwidths[after] < self.rules.min_bandwidth:
            self.lose("next_seg_bm", index)
        previous = kept[index - 1 if index else 0]
        stats["lost_win_full_data"].append(
            {"index": index, "window_segs": members, "next_seg": kept[after], "prev_seg": previous}
        )


def rank(spoken: dict[Any, float]) -> list[float]:
    """The longest durations first, always as many."""
    ranked = sorted(spoken.values(), reverse=True)
    ranked += [0.0] * (SPEAKER_SLOTS - len(ranked))
    return ranked[:SPEAKER_SLOTS]


def _strip(segments: list[dict[str, Any]], dropped: frozenset[str]) -> list[dict[str, Any]]:
    """The segments without the dropped fields; those that have none of them stay themselves."""
    if not [name for name in dropped for segment in segments if name in segment]:
        return segments
    return [
        segment
        if dropped.isdisjoint(segment)
        else {name: value for name, value in segment.items() if name not in dropped}
        for segment in segments
    ]


def _words_before(words: Any, cut_s: float, index: int) -> list[dict[str, Any]]:
    if not isinstance(words, list):
        raise BadRecord(f"segments[{index}].words is not a list")
    try:
        kept = [word for word in words if word["end"] <= cut_s]
        if _TIMES.issuperset([type(word["end"]) for word in words]):
            return kept
    except (TypeError, KeyError, AttributeError, IndexError):
        pass
    place = next(
        place
        for place, word in enumerate(words)
        if not isinstance(word, dict) or type(word.get("end")) not in _TIMES
    )
    raise BadRecord(f"segments[{index}].words[{place}] has no end time")


_TIMES = frozenset((int, float))
