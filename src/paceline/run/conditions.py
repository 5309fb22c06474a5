"""What went on beside a run, and whether that disturbed it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from paceline.errors import PacelineError
from paceline.model import Disturbed
from paceline.numbers import digits, percent

JUDGEABLE_S = 0.5
"""The kernel counts a core's busy time in steps of 10 ms: of a shorter time nothing can be said."""
DISTURBING_CORES = 0.25
DISTURBING_STEAL = 0.1
DISTURBING_WAIT = 0.2
VARIABLE = "PACELINE_DISTURBED"
"""What becomes of disturbed runs on this machine, whatever suites say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What went on beside a run, or beside several: times add up."""

    elapsed_s: float = 0.0
    others_s: float = 0.0
    stolen_s: float = 0.0
    memory_wait_s: float = 0.0
    throttled: int = 0
    gpus: tuple[str, ...] = ()

    def __add__(self, other: "Conditions") -> "Conditions":
        return Conditions(
            elapsed_s=self.elapsed_s + other.elapsed_s,
            others_s=self.others_s + other.others_s,
            stolen_s=self.stolen_s + other.stolen_s,
            memory_wait_s=self.memory_wait_s + other.memory_wait_s,
        )

    def disturbance(self) -> str:
        """What disturbed it, in words; empty if nothing did, or if it was too short to tell."""
        signs = list(self.gpus)
        if self.throttled:
            signs.append("a core slowed down for its heat")
        if self.elapsed_s >= JUDGEABLE_S:
            others, stolen = self.others_s / self.elapsed_s, self.stolen_s / self.elapsed_s
            if others > DISTURBING_CORES:
                signs.append(f"other processes used {digits(others)} CPU cores on average")
            if stolen > DISTURBING_STEAL:
                signs.append(f"other machines on the host took {digits(stolen)} CPU cores")
            if self.memory_wait_s > DISTURBING_WAIT * self.elapsed_s:
                waited = self.memory_wait_s / self.elapsed_s
                signs.append(f"something waited for memory for {percent(waited)} of the time")
        return "; ".join(signs)


def wanted_of_machine() -> str:
    """What the machine's user wants of disturbed runs; empty if that is left to the suites."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted and wanted not in get_args(Disturbed):
        raise PacelineError(f"{VARIABLE} is {wanted!r}: it may be {', '.join(get_args(Disturbed))}")
    return wanted


def disturbances(runs: Sequence[Conditions]) -> tuple[str, ...]:
    """What disturbed each of a case's runs; those that are too short to tell by themselves are looked at together."""
    short = [one for one in runs if one.elapsed_s < JUDGEABLE_S]
    together = sum(short, Conditions()).disturbance() if short else ""
    texts = tuple(
        (one.disturbance() or together) if one.elapsed_s < JUDGEABLE_S else one.disturbance() for one in runs
    )
    return texts if any(texts) else ()
