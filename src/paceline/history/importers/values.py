"""Values as other tools write them: numbers, units, times, and what they know of the machine they ran on."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paceline.model import Scalar
from paceline.record.codec import digest
from paceline.record.environment import IN_PART, major_minor

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0}
_GIB = 1 << 30


def number_or_text(value: Scalar) -> Scalar:
    """A text as the number it writes, if it writes one the way it would be written back."""
    if not isinstance(value, str):
        return value
    for convert in (int, float):
        try:
            number = convert(value)
        except ValueError:
            continue
        return number if str(number) == value and math.isfinite(number) else value
    return value


def seconds_in(unit: str) -> float | None:
    """How many seconds one of a unit of time has; None if it is no unit of time."""
    return _SECONDS.get(unit)


def time_from_text(text: str) -> str:
    """The time in an ISO 8601 text, taken as UTC if it names no zone; empty if it is none."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return _written(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return ""


def time_from_epoch(seconds: float) -> str:
    """The time so many seconds after 1970; empty if there is no such time."""
    try:
        return _written(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def time_of_file(path: Path) -> str:
    """When a file was last changed: the best that is known where a tool writes no time."""
    try:
        return time_from_epoch(path.stat().st_mtime)
    except OSError:
        return ""


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def environment(
    *,
    machine_name: str = "",
    hostname: str = "",
    machine: str = "",
    cpu: str = "",
    cpus: int = 0,
    memory_bytes: int = 0,
    os: str = "",
    kernel: str = "",
    python: str = "",
    implementation: str = "",
    gpus: Sequence[str] = (),
    packages: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The environment of these facts; what is unknown is absent.

    A host's name tells nothing of its speed, and CI machines have a new one every day: two hosts are one class if
    all else is equal. `machine_name` is for tools whose users name the machine by hand; it does make a class.
    """
    facts = _known_facts(
        hostname=hostname,
        machine_name=machine_name,
        platform="-".join(filter(None, (os, kernel, machine))),
        machine=machine,
        kernel=kernel,
        os=os,
        cpu=_known_facts(model=cpu, count=cpus),
        memory_bytes=memory_bytes,
        python=_known_facts(version=python, implementation=implementation),
        gpus=[{"name": name} for name in gpus],
        packages=dict(packages or {}),
    )
    comparable = _known_facts(
        machine_name=machine_name,
        cpu=cpu,
        cpus=cpus,
        memory_gib=round(memory_bytes / _GIB),
        kernel=major_minor(kernel),
        gpus=list(gpus),
        python=major_minor(python),
        implementation="" if implementation.lower() == "cpython" else implementation,
        machine=machine,
        os=os,
    )
    ids = {"id": digest(facts), "class_id": digest(comparable)}
    return {**ids, **facts, "comparable": comparable, IN_PART: True}


def _known_facts(**facts: Any) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if fact}
