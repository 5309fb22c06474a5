"""What the detector would have said night by night, held against what people said about it."""

import itertools
import statistics
from bisect import bisect
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.finding import Finding, SeriesKey
from paceline.findings.detection import FARTHEST
from paceline.findings.order import Order
from paceline.findings.segments import SMALLEST_EFFECT, Judged, size_of
from paceline.history import Store
from paceline.history.series import Series
from paceline.history.store.names import matcher
from paceline.judge import Analysis, Detector
from paceline.judge.discoveries import FLOOR
from paceline.judge.screen import Screen, make_screen
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Track:
    """A series, and the alarms that it would have raised as it grew."""

    judged: Judged
    alarms: tuple[Alarm, ...]


def replay(
    store: Store,
    order: Order,
    *,
    cases: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
) -> Replay:
    """Run the detector over the series that somebody said something about, from their first night to the last."""
    labelled = [one for one in store.findings(withdrawn=True) if one.said and one.said.state != "new"]
    wanted = {one.series for one in labelled}
    case, metric = matcher(cases or None).fullmatch, matcher(metrics or None).fullmatch
    tracks: list[_Track] = []
    nights: set[str] = set()
    for series in store.iter_columns(cases=sorted({one.case for one in wanted}), judged_only=True):
        if series.key in wanted and case(series.case_key) and metric(series.metric):
            judged = _ordered(series, order)
            tracks.append(_Track(judged=judged, alarms=tuple(_alarms(judged))))
            nights.update(judged.points.times)
    followed = {track.judged.key for track in tracks}
    return _scored(tracks, len(nights), [one for one in labelled if one.series in followed])


def _ordered(series: Series, order: Order) -> Judged:
    assert series.direction is not None
    return Judged(
        key=series.key,
        epoch=series.epoch,
        direction=series.direction,
        points=order.points(series),
        analysis=Analysis(changes=()),
    )


def _alarms(judged: Judged) -> Iterator[Alarm]:
    """What would have been raised, one point after the other as they were measured."""
    points, values, times = judged.points, judged.points.values, judged.points.times
    detector, raised = Detector(), list[Alarm]()
    seen: list[int] = []  # the places of the points that were there by then, in their order
    screen: Screen | None = None
    for newest in sorted(range(len(points)), key=times.__getitem__):
        at = bisect(seen, newest)
        seen.insert(at, newest)
        detector.insert(at, values[newest])
        screen = screen.after(values[newest]) if screen and at == len(seen) - 1 else None
        if screen:
            continue
        found = detector.change_points
        screen = make_screen([values[i] for i in seen], detector.analysis, sure=FLOOR)
        edges = [0, *(one.index for one in found), len(seen)]
        for number, one in enumerate(found):
            if one.p_value > FLOOR or abs(one.effect) < SMALLEST_EFFECT:
                continue
            near = {
                points[i].record_id for i in seen[max(one.index - FARTHEST, 0) : one.index + FARTHEST + 1]
            }
            # Levels take all points to tell, and most changes were raised on an earlier night.
            if any((alarm.effect > 0) == (one.effect > 0) and alarm.at_record in near for alarm in raised):
                continue
            before, after = (
                statistics.median(values[i] for i in seen[begin:end])
                for begin, end in itertools.pairwise(edges[number : number + 3])
            )
            verdict, effect = size_of(one, before, after, judged.direction)
            if not _is_raised(raised, verdict, near):
                first = points[seen[one.index]]
                raised.append(
                    Alarm(
                        series=judged.key,
                        verdict=verdict,
                        effect=effect,
                        at_record=first.record_id,
                        at_time=first.time,
                        raised_at=times[newest],
                        delay=len(seen) - one.index,
                    )
                )
    yield from raised


def _is_raised(raised: Iterable[Alarm], verdict: Verdict, near: Container[str]) -> bool:
    return any(alarm.verdict == verdict and alarm.at_record in near for alarm in raised)


def _scored(tracks: Sequence[_Track], nights: int, labelled: Sequence[Finding]) -> Replay:
    alarms = [alarm for track in tracks for alarm in track.alarms]
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
            for alarm in track.alarms
            if at is not None and alarm.verdict == one.verdict
        ]
        if near and min(near, key=lambda pair: pair[:2])[0] <= FARTHEST:
            yield one.id, min(near, key=lambda pair: pair[:2])[2]
