"""The whole examination."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from paceline.doctor import gpus, installed, limits, noise, places, tuning
from paceline.doctor.machine import Level, Machine, Remark
from paceline.doctor.noise import Noise
from paceline.doctor.places import Place

SCHEMA = 1
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is examined: the machine, the places a command here would use, and the history."""

    machine: Machine = field(default_factory=Machine)
    places: tuple[Place, ...] = ()
    database: str | None = None
    faults: tuple[Remark, ...] = ()
    """What is wrong with the suite here, so that places and database could not be found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All remarks by section, and the measurement if one was made."""

    sections: Mapping[str, tuple[Remark, ...]]
    noise: Noise | None = None

    @property
    def counts(self) -> Counter[Level]:
        return Counter(one.level for remarks in self.sections.values() for one in remarks)

    @property
    def usable(self) -> bool:
        return not self.counts["fail"]

    def to_json(self) -> dict[str, Any]:
        """For scripts; keys may come, none goes or changes its meaning while `schema` stays the same."""
        return {
            "schema": SCHEMA,
            "usable": self.usable,
            "counts": {level: self.counts[level] for level in LEVELS},
            "noise": asdict(self.noise) if self.noise else None,
            "remarks": [
                {"section": section, **asdict(one)}
                for section, remarks in self.sections.items()
                for one in remarks
            ],
        }


def examine(subject: Subject, *, measures: bool = True) -> Diagnosis:
    """Look at everything; `measures` says whether to take the two seconds for the noise."""
    machine = subject.machine
    # First, before our own programs warm the machine up.
    measured = noise.measure(lambda: machine.read("proc/stat")) if measures else None
    looks: dict[str, Callable[[], Iterable[Remark]]] = {
        "installed": installed.look,
        "tools": lambda: installed.look_at_tools(machine),
        "places": lambda: (*subject.faults, *places.look(machine, subject.places)),
        "history": lambda: places.look_at_history(subject.database) if subject.database else (),
        "ray": lambda: limits.look_at_ray(machine),
        "gpus": lambda: gpus.look(machine),
        "limits": lambda: limits.look(machine),
        "machine": lambda: tuning.look(machine),
        "noise": lambda: tuning.judge_noise(measured) if measured else (),
    }
    found = {section: tuple(look()) for section, look in looks.items()}
    return Diagnosis(sections={name: remarks for name, remarks in found.items() if remarks}, noise=measured)
