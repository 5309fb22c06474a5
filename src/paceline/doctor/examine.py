"""The whole examination."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from paceline.doctor import (
    clusters,
    gpus,
    installed,
    limits,
    noise,
    places,
    quietness,
    remembering,
    tools,
    tuning,
)
from paceline.doctor.machine import Machine
from paceline.doctor.places import Place
from paceline.doctor.remarks import Diagnosis, Remark


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is examined: the machine, the places a command here would use, and the history."""

    machine: Machine = field(default_factory=Machine)
    places: tuple[Place, ...] = ()
    database: str | None = None
    faults: tuple[Remark, ...] = ()
    """What is wrong with the suite here, so that places and database could not be found out."""


def examine(subject: Subject, *, measures: bool = True) -> Diagnosis:
    """Look at everything; `measures` says whether to take the two seconds for the noise."""
    machine = subject.machine
    # First, before our own programs warm the machine up.
    measured = noise.measure(lambda: machine.read("proc/stat")) if measures else None
    looks: dict[str, Callable[[], Iterable[Remark]]] = {
        "installed": installed.look,
        "tools": lambda: tools.look(machine),
        "places": lambda: (*subject.faults, *places.look(machine, subject.places)),
        "history": lambda: remembering.look(subject.database) if subject.database else (),
        "ray": lambda: clusters.look(machine),
        "gpus": lambda: gpus.look(machine),
        "limits": lambda: limits.look(machine),
        "machine": lambda: tuning.look(machine),
        "noise": lambda: quietness.judge(measured) if measured else (),
    }
    found = {section: tuple(look()) for section, look in looks.items()}
    return Diagnosis(sections={name: remarks for name, remarks in found.items() if remarks}, noise=measured)
