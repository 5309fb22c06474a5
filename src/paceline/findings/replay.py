"""What the detector would have said night by night, held against what people said about it."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.finding import Finding, SeriesKey
from paceline.findings.detection import FALSE_DISCOVERIES, FARTHEST
from paceline.findings.segments import SMALLEST_EFFECT, Change, Judged, column_key, describe, ordered_points
from paceline.history import Store
from paceline.history.series import Column
from paceline.history.store.names import matcher
from paceline.judge import change_points, select_discoveries
from paceline.model import Verdict

REAL = frozenset({"acknowledged", "expected", "fixed"})
"""The words by which somebody says that a change is one, welcome or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A change that the detector would have told of, on the night that it would have done so first."""

    series: SeriesKey
    verdict: Verdict
    effect: float
    at_record: str
    at_time: str
    raised_at: str
    delay: int
    """Points after the first of the new level that it took."""
    label: str = ""
    """The finding that it is, if somebody said something about that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """How the detector did. Precision and recall are None where nothing was said that they could be told from."""

    series: int
    nights: int
    alarms: tuple[Alarm, ...]
    real_found: int
    real_missed: tuple[Finding, ...]
    false_raised: int
    false_avoided: int

    @property
    def precision(self) -> float | None:
        told = self.real_found + self.false_raised
        return self.real_found / told if told else None

    @property
    def recall(self) -> float | None:
        real = self.real_found + len(self.real_missed)
        return self.real_found / real if real else None

    @property
    def unlabelled(self) -> int:
        return sum(1 for alarm in self.alarms if not alarm.label)

    @property
    def median_delay(self) -> float | None:
        delays = [alarm.delay for alarm in self.alarms if alarm.label]
        return statistics.median(delays) if delays else None


@dataclass(slots=True, kw_only=True)
class _Track:
    """A series as it grew, and the alarms raised so far: index of the change now, and the alarm."""

    judged: Judged
    raised: list[tuple[int, Alarm]]


def replay(
    store: Store,
    places: dict[str, int],
    *,
    cases: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
) -> Replay:
    """Run the detector over the series that somebody said something about, from their first night to the last."""
    labelled = [one for one in store.findings(withdrawn=True) if one.said and one.said.state != "new"]
    wanted = {one.series for one in labelled}
    family = 0
    tracks: list[_Track] = []
    for column in store.iter_columns():
        family += 1
        if column_key(column) in wanted and _is_asked(column, cases, metrics):
            tracks.append(_Track(judged=_ordered(column, places), raised=[]))
    nights = sorted({point.time for track in tracks for point in track.judged.points})
    for night in nights:
        _live_through(tracks, night, family)
    followed = {track.judged.key for track in tracks}
    return _scored(tracks, len(nights), [one for one in labelled if one.series in followed])


def _is_asked(column: Column, cases: Sequence[str] | None, metrics: Sequence[str] | None) -> bool:
    case, metric = matcher(cases or None).fullmatch, matcher(metrics or None).fullmatch
    return bool(case(column.case_key) and metric(column.metric))


def _ordered(column: Column, places: dict[str, int]) -> Judged:
    assert column.direction is not None
    points = ordered_points(column, places)
    return Judged(
        key=column_key(column), epoch=column.epoch, direction=column.direction, points=points, found=()
    )


def _live_through(tracks: Sequence[_Track], night: str, family: int) -> None:
    """One night: all series as they were then, judged together."""
    found: list[tuple[_Track, Judged, Change]] = []
    for track in tracks:
        if not any(point.time == night for point in track.judged.points):
            continue
        points = [point for point in track.judged.points if point.time <= night]
        changes = change_points([point.value for point in points])
        then = replace(track.judged, points=points, found=changes)
        told = [one for one in changes if abs(one.effect) >= SMALLEST_EFFECT]
        found += [(track, then, change) for change in (describe(then) if told else []) if change]
    quiet = max(family - len(found), 0)
    believed = select_discoveries(
        [*(change.p_value for *_, change in found), *[1.0] * quiet], FALSE_DISCOVERIES
    )
    for (track, then, change), is_believed in zip(found, believed, strict=False):
        if is_believed and not _is_raised(track, then, change):
            track.raised.append((change.index, _alarm(then, change, night)))


def _is_raised(track: _Track, then: Judged, change: Change) -> bool:
    positions = {point.record_id: position for position, point in enumerate(then.points)}
    return any(
        alarm.verdict == change.verdict
        and abs(positions.get(alarm.at_record, index) - change.index) <= FARTHEST
        for index, alarm in track.raised
    )


def _alarm(then: Judged, change: Change, night: str) -> Alarm:
    at = then.points[change.index]
    return Alarm(
        series=then.key,
        verdict=change.verdict,
        effect=change.effect,
        at_record=at.record_id,
        at_time=at.time,
        raised_at=night,
        delay=len(then.points) - change.index,
    )


def _scored(tracks: Sequence[_Track], nights: int, labelled: Sequence[Finding]) -> Replay:
    alarms = [alarm for track in tracks for _, alarm in track.raised]
    by_finding = dict(_labels(tracks, labelled))
    found = {one.id for one in labelled if one.id in by_finding}
    real = [one for one in labelled if one.state in REAL]
    false = [one for one in labelled if one.state == "false"]
    names = {id(alarm): ident for ident, alarm in by_finding.items()}
    return Replay(
        series=len(tracks),
        nights=nights,
        alarms=tuple(replace(alarm, label=names.get(id(alarm), "")) for alarm in alarms),
        real_found=sum(1 for one in real if one.id in found),
        real_missed=tuple(one for one in real if one.id not in found),
        false_raised=sum(1 for one in false if one.id in found),
        false_avoided=sum(1 for one in false if one.id not in found),
    )


def _labels(tracks: Sequence[_Track], labelled: Sequence[Finding]) -> Iterator[tuple[str, Alarm]]:
    """The alarm that each labelled finding is: the nearest of the same series and verdict."""
    known: Mapping[SeriesKey, _Track] = {track.judged.key: track for track in tracks}
    for one in labelled:
        track = known[one.series]
        positions = {point.record_id: position for position, point in enumerate(track.judged.points)}
        at = positions.get(one.at_record)
        near = [
            (abs(positions[alarm.at_record] - at), alarm.raised_at, alarm)
            for _, alarm in track.raised
            if at is not None and alarm.verdict == one.verdict
        ]
        if near and min(near, key=lambda pair: pair[:2])[0] <= FARTHEST:
            yield one.id, min(near, key=lambda pair: pair[:2])[2]
