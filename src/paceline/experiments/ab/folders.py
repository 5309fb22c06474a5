"""Folders of A/B environments as Coiled's benchmarks have them: files of each arm, and a `config.yaml`.

`AB_<name>.conda.yaml` is an arm's environment, `AB_<name>.dask.yaml` its Dask configuration, `AB_<name>.cluster.yaml`
its changes to the clusters. The tests that `config.yaml` names run by pytest, one case a target.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.config.nodes import Node, mapping_of, parse_file, plain
from paceline.errors import ConfigError, PacelineError, Problem
from paceline.experiments.ab import pytest_target
from paceline.experiments.ab.schema import ArmOptions
from paceline.experiments.ab.spec import ABSpec, ArmSpec
from paceline.record.atomic import write_atomic

_CONDA, _DASK, _CLUSTER = ".conda.yaml", ".dask.yaml", ".cluster.yaml"
_KEYS = ("repeat", "test_null_hypothesis", "targets", "markers", "h2o_datasets", "max_parallel")
BASELINE = "baseline"


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
    shared = (
        {"H2O_DATASETS": ",".join(map(str, config["h2o_datasets"]))} if config.get("h2o_datasets") else {}
    )
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
        notes=tuple(notes),
    )


def _read_config(path: Path) -> Mapping[str, Any]:
    node = parse_file(path)[0]
    data = plain(node)
    problems = []
    if not isinstance(data, dict):
        problems.append(_problem(node, "", "expected a mapping of keys"))
        data = {}
    problems += [
        _problem(child, "", f"unknown key {key!r}; known are {', '.join(_KEYS)}")
        for key, child in mapping_of(node).items()
        if key not in _KEYS
    ]
    repeat = data.get("repeat")
    if not isinstance(repeat, int) or isinstance(repeat, bool) or repeat < 0:
        problems.append(
            _problem(mapping_of(node).get("repeat", node), "repeat", "expected how often each arm runs")
        )
    elif repeat == 0:
        problems.append(
            _problem(mapping_of(node)["repeat"], "repeat", "0 switches A/B tests off; 5 or more is advised")
        )
    for key in ("targets", "h2o_datasets"):
        if not isinstance(data.get(key) or [], list):
            problems.append(_problem(mapping_of(node)[key], key, "expected a list"))
    if problems:
        raise ConfigError(problems)
    return data


def _problem(node: Node, path: str, message: str) -> Problem:
    return Problem(file=node.mark.file, line=node.mark.line, path=path, message=message)


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
        raise ConfigError([_problem(node, "", "expected a mapping of Dask's settings")])
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
            "args": [*markers, target],
            "cwd": str(root),
        }
        for target in targets
    ]
    suite = {"results_dir": "results", "entries": [_escaped(entry) for entry in entries]}
    text = json.dumps(suite, indent=2)
    path = files / f"suite-{hashlib.sha256(text.encode()).hexdigest()[:12]}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode() + b"\n")
    return path


def _escaped(entry: dict[str, Any]) -> dict[str, Any]:
    """Dollars of targets are theirs, not ours."""
    words = [str(word).replace("$", "$$") for word in entry["args"]]
    return {**entry, "args": words}
