"""Incidents for the queue of the first page, and each with all that is known of it for a page of its own."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.dashboard.bisections import read_tried
from paceline.dashboard.facets import Facets, suite_of
from paceline.dashboard.frame import Frame, pack_finding
from paceline.finding import Finding
from paceline.findings.owners import owner_of
from paceline.findings.ranking import Incident
from paceline.findings.telling import read_curves, suspect_text
from paceline.history.store.store import Store

MOST_LISTED = 1000
"""Incidents that the first page knows of one by one; more are counted."""
MOST_DRAWN = 100
WINDOW = 24
"""Values on each side of a change in the small chart of a list."""


class Incidents:
    """Packs the incidents of a frame."""

    def __init__(self, store: Store, frame: Frame, facets: Facets, results: Path | None = None) -> None:
        self._store = store
        self._frame = frame
        self._facets = facets
        self._results = results
        self._branches = {head.id: head.branch for head in frame.sessions.values()}

    def queue(self) -> list[dict[str, Any]]:
        """The most urgent ones, a line each; the first of them with a small chart."""
        listed = self._frame.verdicts.incidents[:MOST_LISTED]
        leads = [one.lead for one in listed[:MOST_DRAWN]]
        curves = read_curves(self._store, leads, self._frame.verdicts.order, window=WINDOW)
        drawn = {one.id: one for one in curves}
        return [self._line(incident, drawn.get(incident.lead.id, incident.lead)) for incident in listed]

    def _line(self, incident: Incident, lead: Finding) -> dict[str, Any]:
        verdicts = self._frame.verdicts
        cases = sorted({one.case for one in incident.findings})
        causes = incident.suspects if lead.stage != "not_reproduced" else ()
        told = {
            **{"id": incident.id, "kind": incident.kind, "when": lead.first_bad.when},
            **{"case": lead.case, "metric": lead.metric, "unit": lead.unit, "name": lead.series_name},
            **{"finding": lead.id, "change": lead.kind, "verdict": lead.verdict, "state": lead.state},
            **{"stage": lead.stage, "ended": lead.ended, "question": lead.question},
            **{"effect": lead.effect, "low": lead.low, "high": lead.high, "p_value": lead.p_value},
            "series": incident.series,
            "cases": len(cases),
            "past": incident.is_past,
            "cause": pack_cause(causes[0], len(causes) - 1) if causes else None,
            "owner": owner_of(incident, self._facets.owner(lead.case)),
            "machines": sorted(
                {verdicts.machines.get(one.environment_class, "") for one in incident.findings}
            ),
            "suites": sorted({suite_of(case) for case in cases}),
            "tags": sorted({tag for case in cases for tag in self._facets.tags.get(case, ())}),
            "branch": self._branches.get(lead.first_bad.session_id, ""),
            "values": [short(value) for value in lead.values],
            "at": lead.index,
        }
        return {name: fact for name, fact in told.items() if fact not in (None, "", [], [""], False)}

    def page(self, incident: Incident) -> dict[str, Any]:
        """All of an incident: every finding of it, what may be the cause, and how the environments differ."""
        tried = read_tried(self._results, incident.culprit) if incident.culprit else []
        return {
            **self._line(incident, incident.lead),
            **({"bisection": tried} if tried else {}),
            "suspects": [pack_cause(one, 0) for one in incident.suspects],
            "culprit": pack_cause(incident.culprit, 0) if incident.culprit else None,
            "findings": [pack_finding(one) for one in incident.findings],
        }


def pack_cause(cause: Mapping[str, Any], more: int) -> dict[str, Any]:
    """What may be the cause in words, and what a link to it needs; `more` others there are besides."""
    names = ("kind", "revision", "author", "time", "subject", "probability", "runs", "from", "to", "count")
    told = {name: cause[name] for name in names if cause.get(name) not in (None, "")}
    return {**told, "text": suspect_text(cause), **({"more": more} if more else {})}


def short(value: float) -> float | None:
    """A value for a small chart: more digits are not seen."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
