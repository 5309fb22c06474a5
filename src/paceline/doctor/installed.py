"""Python, Paceline and its extras: what is installed, and the line that installs the rest."""

import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

from paceline import __version__
from paceline.doctor.remarks import Remark, remark

PURPOSES: Mapping[str, str] = {
    "ray": "clusters of their own for entries with ray:, pools of machines, the executors ray_data and ray_actors",
    "xenna": "the executor xenna",
    "mlflow": "the sink mlflow",
    "wandb": "the sink wandb",
    "slack": "the sink slack",
    "gdrive": "the sink gdrive",
    "postgres": "a history in PostgreSQL",
    "s3": "results and histories in an object store",
    "gpu": "metrics of NVIDIA GPUs",
    "dask": "fixtures and collectors for Dask in pytest",
    "curate": "the curation pipelines, Parquet exports",
    "evals": "evaluating models of Hugging Face, scorers",
    "lm-eval": "the eval benchmark lm_eval",
}
"""What each extra is for; a test holds it against pyproject.toml. Sets of extras (all, dev) are not listed."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_LEAST = re.compile(r">=\s*([0-9][0-9.]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A package that the core, or an extra, is made of."""

    package: str
    least: str = ""
    extra: str = ""


def look() -> Iterator[Remark]:
    yield remark("Python", "ok", f"{platform.python_version()} ({sys.executable})", "what runs this")
    yield remark("paceline", "ok", __version__, "this program")
    needs = read_needs(_requirements())
    yield from _core([need for need in needs if not need.extra])
    for extra, purpose in PURPOSES.items():
        yield judge_extra(extra, purpose, _states([need for need in needs if need.extra == extra]))


def _requirements() -> Sequence[str]:
    try:
        return metadata.requires("paceline") or ()
    except metadata.PackageNotFoundError:
        return ()  # run from its source


def read_needs(lines: Sequence[str]) -> list[Need]:
    """The packages of a distribution's metadata; what it says of itself, as `all` does, is left out."""
    needs = []
    for line in lines:
        match = _REQUIREMENT.fullmatch(line.strip())
        if match is None or match[1].lower() == "paceline":
            continue
        extra, least = _EXTRA.search(match[3] or ""), _LEAST.search(match[2])
        needs.append(Need(package=match[1], least=least[1] if least else "", extra=extra[1] if extra else ""))
    return needs


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A package that is needed, and the version that is there; None if none is."""

    need: Need
    version: str | None

    @property
    def is_old(self) -> bool:
        return self.version is not None and _release(self.version) < _release(self.need.least)

    def __str__(self) -> str:
        return f"{self.need.package} {self.version}" if self.version else self.need.package


def _states(needs: Sequence[Need]) -> list[State]:
    return [State(need=need, version=installed_version(need.package)) for need in needs]


def installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, all that a lower bound is held against."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _core(needs: Sequence[Need]) -> Iterator[Remark]:
    states = _states(needs)
    if not states:
        return
    bad = [state for state in states if state.version is None or state.is_old]
    if bad:
        meaning = "packages that every command needs are missing or too old"
        yield remark("core", "fail", ", ".join(map(str, bad)), meaning, pip_line("paceline"))
    else:
        yield remark("core", "ok", ", ".join(map(str, states)), "what every command needs")


def judge_extra(extra: str, purpose: str, states: Sequence[State]) -> Remark:
    """Whether an extra can be used."""
    missing = [state for state in states if state.version is None]
    old = [state for state in states if state.is_old]
    fix = pip_line(f"paceline[{extra}]")
    if missing:
        there = len(states) - len(missing)
        value = f"without {', '.join(map(str, missing))}" if there else "not installed"
        return remark(extra, "note", value, purpose, fix)
    if old:
        wanted = ", ".join(f"{state} is older than {state.need.least}" for state in old)
        return remark(extra, "warn", wanted, purpose, fix)
    return remark(extra, "ok", ", ".join(map(str, states)) or "needs no package", purpose)


def pip_line(what: str) -> str:
    """The command that installs it into the Python that runs us; environments made by uv have no pip."""
    installer = "pip install" if find_spec("pip") else f"uv pip install --python {sys.executable}"
    return f"{installer} '{what}'"
