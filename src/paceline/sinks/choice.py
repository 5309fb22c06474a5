"""Which records a sink wants: all, failures, regressions, cases of some name or tag."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from paceline.model import Case, Status
from paceline.sinks.outbox import Call

FAILURES, REGRESSIONS = "failures", "regressions"
_TAG = "tag:"


class Choice:
    """Picks from a journal, call by call; where `only` is given and nothing fits it, a sink hears nothing at all."""

    def __init__(self, only: Sequence[str], find_case: Callable[[str], Case | None]) -> None:
        self._only = tuple(only)
        self._find_case = find_case
        self._worse: frozenset[str] = frozenset()
        self._open: list[Call] = []
        self._held: list[Call] = []

    def feed(self, call: Call) -> list[Call]:
        """What a sink is to get now that this call is in the journal."""
        if call.kind == "open":
            self._open.append(call)
            return [] if self._only else self._opened([])
        if call.kind == "record":
            self._held.append(call)
            # Findings come after the last record.
            return [] if REGRESSIONS in self._only else self._opened(self._fitting())
        return self._closed(call) if call.kind == "close" else []

    def _closed(self, call: Call) -> list[Call]:
        findings = call.data.get("findings", ())
        self._worse = frozenset(str(one.get("case")) for one in findings if one.get("verdict") == "worse")
        records = self._fitting()
        is_told = records or not self._open or self._wants_end(call.data)
        return self._opened([*records, call]) if is_told else []

    def _opened(self, calls: list[Call]) -> list[Call]:
        """The calls, after the session's opening if that was held back."""
        if not calls and self._only:
            return []
        opening, self._open = self._open, []
        return [*opening, *calls]

    def _fitting(self) -> list[Call]:
        chosen = [call for call in self._held if self._wants(call.data)]
        is_final = REGRESSIONS not in self._only
        self._held = [] if is_final else [call for call in self._held if call not in chosen]
        return chosen

    def _wants(self, data: Mapping[str, Any]) -> bool:
        return not self._only or any(self._fits(one, data) for one in self._only)

    def _wants_end(self, data: Mapping[str, Any]) -> bool:
        """Whether the session's end alone, without any record that fits, is to be told."""
        if not self._only:
            return True
        if FAILURES in self._only and (data.get("interrupted") or data.get("unfinished")):
            return True
        return REGRESSIONS in self._only and bool(self._worse)

    def _fits(self, one: str, data: Mapping[str, Any]) -> bool:
        name = str(data["case"])
        case = self._find_case(name)
        if one == FAILURES:
            return not Status(data["status"]).ok
        if one == REGRESSIONS:
            return name in self._worse or (case is not None and case.key in self._worse)
        if one.startswith(_TAG):
            return case is not None and one.removeprefix(_TAG) in case.tags
        return name == one or fnmatchcase(name, one) or (case is not None and case.entry == one)
