"""Windows of about the target length, one tried from each segment of a recording.

The rules are in docs/curation.md. Every sum runs from left to right over Python floats, so that figures
agree to the last digit with an implementation that adds segment by segment.
"""

from collections.abc import Iterable
from typing import Any

from paceline.curate.alm.recording import Recording, WindowRules
from paceline.curate.alm.scan import scan
from paceline.curate.alm.segments import is_finite, read_segments
from paceline.curate.errors import BadRecord, PipelineError
from paceline.curate.stage import Stage
from paceline.curate.task import Task


class ALMDataBuilderStage(Stage):
    """Adds `windows`, `stats` and `truncation_events` to a manifest entry."""

    name = "alm_data_builder"
    is_plain = True
    inputs = ("audio_filepath", "segments", "audio_sample_rate")
    outputs = ("windows", "stats", "truncation_events")

    def __init__(
        self,
        *,
        target_window_duration: float = 120.0,
        tolerance: float = 0.1,
        min_sample_rate: int = 16000,
        min_bandwidth: int = 8000,
        min_speakers: int = 2,
        max_speakers: int = 5,
        truncation: bool = True,
        drop_fields: str | Iterable[str] = "words",
        drop_fields_top_level: str | Iterable[str] = "words,segments",
    ) -> None:
        slack_s = target_window_duration * tolerance
        if not (
            target_window_duration > 0 and tolerance >= 0 and is_finite(target_window_duration + slack_s)
        ):
            raise PipelineError(
                "alm_data_builder: target_window_duration must be positive and finite, tolerance not negative"
            )
        self.min_sample_rate = min_sample_rate
        self.drop_fields_top_level = _names(drop_fields_top_level)
        self.rules = WindowRules(
            lower_s=target_window_duration - slack_s,
            upper_s=target_window_duration + slack_s,
            min_bandwidth=min_bandwidth,
            min_speakers=min_speakers,
            max_speakers=max_speakers,
            truncation=truncation,
            drop_fields=_names(drop_fields),
        )
        if self.rules.drop_fields & {"start", "end"}:
            raise PipelineError("alm_data_builder: drop_fields may not name start or end")

    def process(self, task: Task) -> Task:
        return task.carrying(self.build(task.data))

    def build(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The output entry; the input is left as it is."""
        raw = entry.get("segments", [])
        segments = read_segments(raw)
        rate = entry.get("audio_sample_rate", 0)
        if type(rate) not in (int, float) or not is_finite(rate):
            raise BadRecord("audio_sample_rate is not a number")
        stats = _new_stats(len(raw), segments.total_s, entry.get("swift_audio_filepath", ""), rate)
        if not rate >= self.min_sample_rate:
            stats["lost_sr"], stats["dur_lost_sr"] = len(raw), segments.total_s
            path = entry.get("audio_filepath")
            return {"audio_filepath": path, "windows": [], "stats": stats, "truncation_events": 0}
        windows, events = scan(Recording(self.rules, raw, segments, stats))
        dropped = self.drop_fields_top_level
        output = {name: value for name, value in entry.items() if name not in dropped}
        output["windows"], output["stats"], output["truncation_events"] = windows, stats, events
        return output


def _names(given: str | Iterable[str]) -> frozenset[str]:
    parts = given.split(",") if isinstance(given, str) else given
    return frozenset(name for part in parts if (name := part.strip()))


def _new_stats(total: int, total_s: float, swift_path: Any, rate: float) -> dict[str, Any]:
    return {
        "total_segments": total,
        "total_dur": total_s,
        "swift_path": swift_path,
        "audio_sample_rate": rate,
        "lost_bw": 0,
        "dur_lost_bw": 0.0,
        "lost_sr": 0,
        "dur_lost_sr": 0.0,
        "lost_spk": 0,
        "dur_lost_spk": 0.0,
        "lost_win": 0,
        "dur_lost_win": 0.0,
        "lost_no_spkr": 0,
        "dur_lost_no_spkr": 0.0,
        "lost_next_seg_bm": 0,
        "dur_lost_next_seg_bm": 0.0,
        "lost_win_full_data": [],
    }
