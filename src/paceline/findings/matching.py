"""Which of the changes that are found now are known already, though more points may have moved them a little."""

import bisect
import itertools
from collections.abc import Sequence

from paceline.findings.segments import Change, Judged
from paceline.history.findings import StoredFinding

FARTHEST = 5
"""Points by which a change may have moved and still be the same."""


def match(
    known: Sequence[StoredFinding], judged: Judged, changes: Sequence[Change]
) -> dict[int, StoredFinding]:
    """The known finding that each change is, by the change's index; the nearest ones find each other first."""
    positions = {point.record_id: position for position, point in enumerate(judged.points)}
    pairs = sorted(
        (
            (
                abs(change.index - position),
                not finding.said,
                not finding.stands,
                finding.id,
                change.index,
                finding,
            )
            for finding in known
            if finding.epoch == judged.epoch
            and (position := _position(finding, positions, judged)) is not None
            for change in changes
            if change.verdict == finding.verdict and abs(change.index - position) <= FARTHEST
        ),
        key=lambda pair: pair[:-1],
    )
    matched: dict[int, StoredFinding] = {}
    taken: set[str] = set()
    for *_, ident, index, finding in pairs:
        if ident not in taken and index not in matched:
            matched[index] = finding
            taken.add(ident)
    return matched


def _position(finding: StoredFinding, positions: dict[str, int], judged: Judged) -> int | None:
    """Where the finding lies among the points now; by its time if its record is gone."""
    if finding.at_record in positions:
        return positions[finding.at_record]
    times = [point.time for point in judged.points]
    is_ordered = all(a <= b for a, b in itertools.pairwise(times))
    if not is_ordered or not times or finding.at_time < times[0]:
        return None
    return bisect.bisect_left(times, finding.at_time)
