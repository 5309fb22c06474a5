"""What other tools know of the machine they ran on, in the shape of a session's `environment.json`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.history.importers.document import digest

_GIB = 1 << 30


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
    facts = _known(
        hostname=hostname,
        machine_name=machine_name,
        platform="-".join(filter(None, (os, kernel, machine))),
        machine=machine,
        kernel=kernel,
        os=os,
        cpu=_known(model=cpu, count=cpus),
        memory_bytes=memory_bytes,
        python=_known(version=python, implementation=implementation),
        gpus=[{"name": name} for name in gpus],
        packages=dict(packages or {}),
    )
    comparable = _known(
        machine_name=machine_name,
        cpu=cpu,
        cpus=cpus,
        memory_gib=round(memory_bytes / _GIB),
        kernel=_major_minor(kernel),
        gpus=list(gpus),
        python=_major_minor(python),
        implementation="" if implementation.lower() == "cpython" else implementation,
        machine=machine,
        os=os,
    )
    return {"id": digest(facts), "class_id": digest(comparable), **facts, "comparable": comparable}


def _known(**facts: Any) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if fact}


def _major_minor(version: str) -> str:
    return ".".join(re.findall(r"\d+", version)[:2])
