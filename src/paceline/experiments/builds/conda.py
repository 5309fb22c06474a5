"""Environments that a conda file describes: by conda where there is one, else by what pip can install of them."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.config.nodes import parse_file, plain
from paceline.errors import ConfigError, Problem
from paceline.experiments.builds.cache import keep
from paceline.experiments.builds.environments import Shell, Venv, build_venv, lend_ourselves

_PROGRAMS = ("mamba", "conda", "micromamba")
_NOT_PYTHON = frozenset(
    {
        "python",
        "pip",
        "conda",
        "mamba",
        "git",
        "nodejs",
        "make",
        "cmake",
        "compilers",
        "gcc",
        "gxx",
        "openjdk",
    }
)
_OTHER_NAMES = {"pytorch": "torch", "msgpack-python": "msgpack", "python-graphviz": "graphviz"}
_LIST = """
from importlib.metadata import distributions
print("\\n".join(sorted({f"{one.name}=={one.version}" for one in distributions()})))
"""
_DEPENDENCY = re.compile(r"(?:[\w.-]+::)?([\w.-]+)\s*(?:\[[^\]]*\])?\s*(.*)")


def build_conda(
    path: Path,
    *,
    cache_dir: Path,
    log: Path,
    say: Callable[[str], None],
    notes: list[str],
    also: Sequence[str] = (),
) -> Venv:
    """The environment of a file; what could not be taken from it is noted. `also` are packages that it has to have."""
    content = read_conda(path)
    program = next((found for name in _PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        packages, python, left_out = pip_part(content)
        packages = _with(packages, also)
        notes.append(_word(path, left_out))
        say(f"{path.name}: conda is not installed; pip installs {', '.join(packages) or 'nothing'}")
        return build_venv(packages, cache_dir=cache_dir, log=log, python=python, base=path.parent)
    key = hashlib.sha256(json.dumps([program, content, list(also)]).encode()).hexdigest()[:20]
    prefix = cache_dir / "conda" / key
    say(f"{path.name}: an environment by {Path(program).name}")
    facts = keep(prefix, lambda lock: _create(program, prefix, path, also, Shell(log, None, lock)))
    return Venv(
        python=prefix / "bin" / "python",
        key=key,
        packages=tuple(map(str, content.get("dependencies", ()))),
        installed=tuple(facts.get("installed", ())),
    )


def _create(program: str, prefix: Path, path: Path, also: Sequence[str], shell: Shell) -> Mapping[str, Any]:
    what = f"the conda environment of {path}"
    shell.run(program, "env", "create", "--prefix", prefix, "--file", path, what=what)
    if also:
        shell.run(prefix / "bin" / "python", "-m", "pip", "install", *also, what=what)
    python = prefix / "bin" / "python"
    lend_ourselves(python, shell, what)
    return {"installed": shell.run(python, "-c", _LIST, what=what).splitlines()}


def read_conda(path: Path) -> Mapping[str, Any]:
    """What a conda file says."""
    node = parse_file(path)[0]
    data = plain(node)
    if not isinstance(data, dict) or not isinstance(data.get("dependencies", []), list):
        what = "expected a conda environment: a mapping with a list 'dependencies'"
        raise ConfigError([Problem(file=str(path), line=node.mark.line, path="", message=what)])
    return data


def pip_part(content: Mapping[str, Any]) -> tuple[list[str], str | None, list[str]]:
    """What pip can install of a conda environment, the Python it wants, and what is left out."""
    packages: list[str] = []
    left_out: list[str] = []
    python = None
    for item in content.get("dependencies", ()):
        if isinstance(item, Mapping):
            packages += [str(package) for package in item.get("pip", ())]
            continue
        found = _DEPENDENCY.fullmatch(str(item).strip())
        name, rest = (found[1], found[2]) if found else (str(item), "")
        if name == "python":
            version = re.search(r"\d+\.\d+(\.\d+)?", rest)
            python = version[0] if version else None
        elif name in _NOT_PYTHON:
            left_out.append(name)
        else:
            packages.append(_OTHER_NAMES.get(name, name) + _pip_version(rest))
    return packages, python, [name for name in left_out if name != "pip"]


def _with(packages: Sequence[str], also: Sequence[str]) -> list[str]:
    names = {re.split(r"[\s=<>!~\[@]", package, maxsplit=1)[0].lower() for package in packages}
    return [*packages, *(name for name in also if name not in names)]


def _pip_version(text: str) -> str:
    """`=1.2` of conda is any 1.2; a build string is left out."""
    text = text.strip().split(" ")[0] if not re.match(r"[<>=!~]=?\s", text.strip()) else text.replace(" ", "")
    fuzzy = re.fullmatch(r"=?([\d][\w.]*)(?:=.*)?", text.removeprefix("=") if text.startswith("==") else text)
    if text.startswith("=="):
        return text
    if fuzzy and text.startswith("="):
        return f"=={fuzzy[1].rstrip('.*')}.*" if fuzzy[1].count(".") < 2 else f"=={fuzzy[1]}"
    return f"=={fuzzy[1]}" if fuzzy else text


def _word(path: Path, left_out: Sequence[str]) -> str:
    missing = f", without {', '.join(left_out)}" if left_out else ""
    return (
        f"{path.name}: conda is not installed here, so pip installed what it can of it{missing}; "
        "builds of conda's own channels may be faster or slower"
    )
