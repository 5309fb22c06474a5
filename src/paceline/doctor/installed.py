"""Python, Paceline, its extras and the programs it calls: what is installed, and the line that installs the rest."""

import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from paceline import __version__
from paceline.doctor.machine import Level, Machine, Remark, answer_of, remark

ANSWER_S = 5.0

PURPOSES: Mapping[str, str] = {
    "ray": "clusters of their own for entries with ray:, pools of machines, the executors ray_data and ray_actors",
    "xenna": "the executor xenna",
    "mlflow": "the sink mlflow",
    "wandb": "the sink wandb",
    "slack": "the sink slack",
    "gdrive": "the sink gdrive",
    "postgres": "a history in PostgreSQL",
    "sqlalchemy": "the fixtures benchmark_db_engine and benchmark_db_session in pytest",
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
class Package:
    """A package that the core, or an extra, is made of, and its installed version; None if it is missing."""

    name: str
    least: str = ""
    extra: str = ""
    version: str | None = None

    @property
    def is_old(self) -> bool:
        return self.version is not None and _release(self.version) < _release(self.least)

    def __str__(self) -> str:
        return f"{self.name} {self.version}" if self.version else self.name


def look() -> Iterator[Remark]:
    yield remark("Python", "ok", f"{platform.python_version()} ({sys.executable})", "what runs this")
    yield remark("paceline", "ok", __version__, "this program")
    try:
        lines = metadata.requires("paceline") or ()
    except metadata.PackageNotFoundError:
        lines = ()  # run from its source
    packages = [replace(one, version=installed_version(one.name)) for one in read_requirements(lines)]
    core = [one for one in packages if not one.extra]
    bad = [one for one in core if one.version is None or one.is_old]
    if bad:
        meaning = "packages that every command needs are missing or too old"
        yield remark("core", "fail", ", ".join(map(str, bad)), meaning, pip_line("paceline"))
    elif core:
        yield remark("core", "ok", ", ".join(map(str, core)), "what every command needs")
    for extra, purpose in PURPOSES.items():
        yield judge_extra(extra, purpose, [one for one in packages if one.extra == extra])


def read_requirements(lines: Sequence[str]) -> list[Package]:
    """The packages of a distribution's metadata; what it says of itself, as `all` does, is left out."""
    packages = []
    for line in lines:
        match = _REQUIREMENT.fullmatch(line.strip())
        if match is None or match[1].lower() == "paceline":
            continue
        extra, least = _EXTRA.search(match[3] or ""), _LEAST.search(match[2])
        packages.append(
            Package(name=match[1], least=least[1] if least else "", extra=extra[1] if extra else "")
        )
    return packages


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


def judge_extra(extra: str, purpose: str, packages: Sequence[Package]) -> Remark:
    """Whether an extra can be used."""
    missing = [one for one in packages if one.version is None]
    old = [one for one in packages if one.is_old]
    fix = pip_line(f"paceline[{extra}]")
    if missing:
        some = len(missing) < len(packages)
        value = f"without {', '.join(map(str, missing))}" if some else "not installed"
        return remark(extra, "note", value, purpose, fix)
    if old:
        value = ", ".join(f"{one} is older than {one.least}" for one in old)
        return remark(extra, "warn", value, purpose, fix)
    return remark(extra, "ok", ", ".join(map(str, packages)) or "needs no package", purpose)


def pip_line(what: str) -> str:
    """The command that installs it into the Python that runs us; environments made by uv have no pip."""
    installer = "pip install" if find_spec("pip") else f"uv pip install --python {sys.executable}"
    return f"{installer} '{what}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program under its names, the first that is there; `level` is what its absence means."""

    names: Sequence[str]
    purpose: str
    fix: str
    level: Level = "note"
    asks_version: bool = True


TOOLS = (
    Tool(
        names=("git",),
        purpose="revisions of results, bisect, regressions in the order of commits",
        fix="sudo apt-get install git",
        level="warn",
    ),
    Tool(names=("uv",), purpose="environments for ab and bisect in seconds", fix="pip install uv"),
    Tool(
        names=("docker", "podman"),
        purpose="running suites in containers",
        fix="sudo apt-get install podman",
    ),
    Tool(
        names=("conda", "mamba", "micromamba"),
        purpose="arms of ab that are conda environments",
        fix="pip install uv, which does for files with pip packages alone",
        asks_version=False,
    ),
    Tool(names=("py-spy",), purpose="profiles of tests (--benchmark-profile)", fix="pip install py-spy"),
    Tool(
        names=("chromium", "chromium-browser", "google-chrome"),
        purpose="pictures of the dashboard, for developers",
        fix="sudo apt-get install chromium",
        asks_version=False,
    ),
    Tool(
        names=("node",),
        purpose="building the dashboard's bundle, for developers",
        fix="sudo apt-get install nodejs",
    ),
)


def look_at_tools(machine: Machine) -> Iterator[Remark]:
    path = machine.environ.get("PATH", "")
    for tool in TOOLS:
        program = next((place for name in tool.names if (place := shutil.which(name, path=path))), None)
        if program is None:
            yield remark(" or ".join(tool.names[:2]), tool.level, "not found", tool.purpose, tool.fix)
        else:
            version = version_of(program) if tool.asks_version else ""
            value = f"{version} ({program})" if version else program
            yield remark(Path(program).name, "ok", value, tool.purpose)


def version_of(program: str) -> str:
    """What it calls its version; empty if it does not answer."""
    match = re.search(r"\d+(?:\.\d+)+", answer_of([program, "--version"], timeout_s=ANSWER_S))
    return match[0] if match else ""
