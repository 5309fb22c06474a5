"""Folders of A/B environments as Coiled's benchmarks have them: files of each arm, and a `config.yaml`.

`AB_<name>.conda.yaml` is an arm's environment, `AB_<name>.dask.yaml` its Dask configuration, `AB_<name>.cluster.yaml`
its changes to the clusters. The tests that `config.yaml` names run by pytest, one case a target. An environment is made
by conda where there is one, else of what pip can install of it; `ci/environment-test.yml` beside the folder is added to
each. Of Paceline it gets what measures tests, and that needs no package.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline import __version__
from paceline.config.nodes import mapping_of, parse_file, plain, problem_at
from paceline.errors import ConfigError, PacelineError
from paceline.experiments.ab import pytest_target
from paceline.experiments.ab.spec import ABSpec, ArmOptions, ArmSpec
from paceline.experiments.builds.cache import make_once, run_logged
from paceline.experiments.builds.environments import Venv, answer, build_environ, build_venv, lend_ourselves
from paceline.record.files import write_atomic

_CONDA, _DASK, _CLUSTER = ".conda.yaml", ".dask.yaml", ".cluster.yaml"
_KEYS = ("repeat", "test_null_hypothesis", "targets", "markers", "h2o_datasets", "max_parallel")
BASELINE = "baseline"

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
        "openssl",
        "ca-certificates",
    }
)
# Versions that are none of Python's, such as 1.1.0g, are those of other programs.
_VERSION = re.compile(r"([<>=!~]=?\s*\d[\d.*]*(\.?(a|b|rc|dev|post)\d+)*(\+[\w.]+)?\s*,?\s*)*")
_OTHER_NAMES = {"pytorch": "torch", "msgpack-python": "msgpack", "python-graphviz": "graphviz"}
_PYTEST = "pytest"
_LIST = """
from importlib.metadata import distributions
print("\\n".join(sorted({f"{one.name}=={one.version}" for one in distributions()})))
"""
_DEPENDENCY = re.compile(r"(?:[\w.-]+::)?([\w.-]+)\s*(?:\[[^\]]*\])?\s*(.*)")


def is_folder(path: Path) -> bool:
    """Whether a path is such a folder, or its `config.yaml`."""
    folder = path.parent if path.name == "config.yaml" else path
    return folder.is_dir() and any(folder.glob(f"AB_*{_CONDA}"))


def read_folder(path: Path, *, files: Path) -> ABSpec:
    """The A/B test of a folder; the suite that runs its tests is written under `files`."""
    folder = (path.parent if path.name == "config.yaml" else path).absolute()
    config = _read_config(folder / "config.yaml")
    names = sorted(file.name.removesuffix(_CONDA) for file in folder.glob(f"AB_*{_CONDA}"))
    if f"AB_{BASELINE}" not in names:
        raise PacelineError(
            f"{folder}: there is no AB_{BASELINE}{_CONDA}, which the others are compared with"
        )
    names.sort(key=lambda name: name != f"AB_{BASELINE}")
    notes: list[str] = []
    datasets = config.get("h2o_datasets")
    shared = {"H2O_DATASETS": ",".join(map(str, datasets))} if datasets else {}
    arms = tuple(_arm(folder, name, shared, notes) for name in names)
    null_arm = bool(config.get("test_null_hypothesis", False))
    if config.get("max_parallel"):
        notes.append(
            "max_parallel is not heeded: on one machine arms run one after the other, or they disturb each other"
        )
    count = len(arms) + null_arm
    if count < 2:
        raise PacelineError(f"{folder}: nothing to compare with: add an arm, or test_null_hypothesis: true")
    return ABSpec(
        name=folder.name,
        base=folder,
        configs=(_write_suite(folder, config, files),),
        arms=arms,
        null_arm=null_arm,
        max_runs=int(config["repeat"]) * count,
        warmup=0,
        own_metrics=True,
        notes=tuple(notes),
    )


def _read_config(path: Path) -> Mapping[str, Any]:
    node = parse_file(path)[0]
    keys = mapping_of(node)
    data = plain(node)
    problems = []
    if not isinstance(data, dict):
        problems.append(problem_at(node.mark, "", "expected a mapping of keys"))
        data = {}
    for key, child in keys.items():
        if key not in _KEYS:
            what = f"unknown key {key!r}; known are {', '.join(_KEYS)}"
            problems.append(problem_at(child.mark, "", what))
    repeat = data.get("repeat")
    if not isinstance(repeat, int) or isinstance(repeat, bool) or repeat <= 0:
        off = "0 switches A/B tests off; 5 or more is advised"
        what = off if repeat == 0 and repeat is not False else "expected how often each arm runs"
        problems.append(problem_at(keys.get("repeat", node).mark, "repeat", what))
    for key in ("targets", "h2o_datasets"):
        if not isinstance(data.get(key) or [], list):
            problems.append(problem_at(keys[key].mark, key, "expected a list"))
    if problems:
        raise ConfigError(problems)
    return data


def _arm(folder: Path, name: str, shared: Mapping[str, str], notes: list[str]) -> ArmSpec:
    env = {**shared, "AB_VERSION": name}
    cluster = folder / f"{name}{_CLUSTER}"
    if cluster.is_file():
        env["CLUSTER_KWARGS"] = str(cluster)
    options = ArmOptions(env=env, dask=_read_dask(folder / f"{name}{_DASK}", notes))
    return ArmSpec(name=name.removeprefix("AB_"), options=options, conda=folder / f"{name}{_CONDA}")


def _read_dask(path: Path, notes: list[str]) -> dict[str, Any]:
    """Dask's configuration; it may be empty, and a `dask:` around it, which would set nothing, is taken away."""
    if not path.is_file() or not path.read_text(encoding="utf-8").strip():
        return {}
    node = parse_file(path)[0]
    data = plain(node)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError([problem_at(node.mark, "", "expected a mapping of Dask's settings")])
    if list(data) == ["dask"] and isinstance(data["dask"], dict):
        notes.append(f"{path.name}: the key 'dask' around the settings would set nothing and was taken away")
        return data["dask"]
    return data


def _write_suite(folder: Path, config: Mapping[str, Any], files: Path) -> Path:
    """A suite of one case for each target, run from the folder that holds the tests."""
    targets = [str(target) for target in config.get("targets") or ["tests"]]
    root = folder.parent
    for target in targets:
        if not (root / target.partition("::")[0]).exists():
            raise PacelineError(f"{folder / 'config.yaml'}: targets: there is no {target} in {root}")
    markers = ["-m", str(config["markers"])] if config.get("markers") else []
    entries = [
        {
            "name": target,
            "script": pytest_target.__file__,
            # Dollars of targets are theirs, not ours.
            "args": [word.replace("$", "$$") for word in (*markers, target)],
            "cwd": str(root),
        }
        for target in targets
    ]
    text = json.dumps({"results_dir": "results", "entries": entries}, indent=2)
    path = files / f"suite-{hashlib.sha256(text.encode()).hexdigest()[:12]}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode() + b"\n")
    return path


def build_conda(
    path: Path, *, cache_dir: Path, log: Path, say: Callable[[str], None], notes: list[str]
) -> Venv:
    """The environment of a file, with all that its tests need; what could not be taken from it is noted."""
    files = [path]
    further = path.parent.parent / "ci" / "environment-test.yml"
    if further.is_file():
        files.append(further)
        notes.append(f"{path.name}: with the packages of ci/environment-test.yml")
    contents = [_read_environment(file) for file in files]
    program = next((found for name in _PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        venv = _build_by_pip(path, contents, cache_dir, log, say, notes)
    else:
        say(f"{path.name}: an environment by {Path(program).name}")
        venv = _build_by_conda(program, files, contents, cache_dir, log)
    _check_lent(venv, path)
    return venv


def _read_environment(path: Path) -> Mapping[str, Any]:
    node = parse_file(path)[0]
    content = plain(node)
    if not isinstance(content, dict) or not isinstance(content.get("dependencies", []), list):
        what = "expected a conda environment: a mapping with a list 'dependencies'"
        raise ConfigError([problem_at(node.mark, "", what)])
    return content


def _build_by_conda(
    program: str, files: Sequence[Path], contents: Sequence[Mapping[str, Any]], cache_dir: Path, log: Path
) -> Venv:
    key = hashlib.sha256(json.dumps([program, *contents]).encode()).hexdigest()[:20]
    prefix = cache_dir / "conda" / key
    python = prefix / "bin" / "python"

    def create(lock: int) -> Mapping[str, Any]:
        what = f"the conda environment of {files[0]}"
        commands: list[list[str | Path]] = [
            [program, "env", "create" if number == 0 else "update", "--prefix", prefix, "--file", file]
            for number, file in enumerate(files)
        ]
        commands.append([python, "-m", "pip", "install", _PYTEST])
        for words in commands:
            run_logged(words, what=what, log=log, lock=lock, env=build_environ())
        lend_ourselves(python, what)
        return {"installed": answer([python, "-c", _LIST], what=what).splitlines()}

    facts = make_once(prefix, create)
    packages = tuple(str(one) for content in contents for one in content.get("dependencies", ()))
    return Venv(python=python, key=key, packages=packages, installed=tuple(facts.get("installed", ())))


def _build_by_pip(
    path: Path,
    contents: Sequence[Mapping[str, Any]],
    cache_dir: Path,
    log: Path,
    say: Callable[[str], None],
    notes: list[str],
) -> Venv:
    parts = [pip_part(content) for content in contents]
    packages = list(dict.fromkeys(package for part in parts for package in part[0]))
    left_out = list(dict.fromkeys(name for part in parts for name in part[2]))
    names = {re.split(r"[\s=<>!~\[@]", package, maxsplit=1)[0].lower() for package in packages}
    packages += [_PYTEST] if _PYTEST not in names else []
    missing = f", without {', '.join(left_out)}" if left_out else ""
    notes.append(
        f"{path.name}: conda is not installed here, so pip installed what it can of it{missing}; "
        "builds of conda's own channels may be faster or slower"
    )
    say(f"{path.name}: conda is not installed; pip installs {', '.join(packages) or 'nothing'}")
    return build_venv(packages, cache_dir=cache_dir, log=log, python=parts[0][1], base=path.parent)


def _check_lent(venv: Venv, path: Path) -> None:
    """Refuse an arm that brings another Paceline: arms are measured by the one that compares them."""
    if not any(re.match(r"paceline\b", line, re.IGNORECASE) for line in venv.installed):
        return
    question: list[str | Path] = [venv.python, "-c", "import paceline; print(paceline.__version__)"]
    own = answer(question, what=f"the environment of {path}").strip()
    if own != __version__:
        raise PacelineError(
            f"{path}: it installs paceline {own}, and arms are measured by the one that runs this, {__version__}; "
            "take it out: each arm gets ours"
        )


def pip_part(content: Mapping[str, Any]) -> tuple[list[str], str | None, list[str]]:
    """What pip can install of a conda environment, the Python it wants, and what is left out."""
    packages: list[str] = []
    left_out: list[str] = []
    python = None
    for item in content.get("dependencies", ()):
        if isinstance(item, Mapping):
            packages += [str(package) for package in item.get("pip") or ()]
            continue
        found = _DEPENDENCY.fullmatch(str(item).strip())
        name, rest = (found[1], found[2]) if found else (str(item), "")
        if name == "python":
            version = re.search(r"\d+\.\d+(\.\d+)?", rest)
            python = version[0] if version else None
        elif name in _NOT_PYTHON or not _VERSION.fullmatch(_pip_version(rest)):
            left_out.append(name)
        else:
            packages.append(_OTHER_NAMES.get(name, name) + _pip_version(rest))
    return packages, python, [name for name in left_out if name != "pip"]


def _pip_version(text: str) -> str:
    """`=1.2` of conda is any 1.2; a build string is left out."""
    text = text.strip().split(" ")[0] if not re.match(r"[<>=!~]=?\s", text.strip()) else text.replace(" ", "")
    fuzzy = re.fullmatch(r"=?([\d][\w.]*)(?:=.*)?", text.removeprefix("=") if text.startswith("==") else text)
    if text.startswith("=="):
        return text
    if fuzzy and text.startswith("="):
        return f"=={fuzzy[1].rstrip('.*')}.*" if fuzzy[1].count(".") < 2 else f"=={fuzzy[1]}"
    return f"=={fuzzy[1]}" if fuzzy else text
