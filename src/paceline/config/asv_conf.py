"""`asv.conf.json`: where the benchmarks of a suite lie, what they measure, and in which environments asv runs them.

It is JSON with comments, and commas at the ends of lists, as asv reads it.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.config.nodes import Node, mapping_of, parse_file, plain, problem_at
from paceline.errors import ConfigError, did_you_mean

NAMES = ("asv.conf.json", "asv.conf.jsonc")
DEFAULT_TIMEOUT_S = 60.0

_USED = ("project", "repo", "repo_subdir", "branches", "benchmark_dir", "default_benchmark_timeout")
_OF_BUILDS = ("pythons", "matrix", "build_command", "install_command", "uninstall_command", "install_timeout")
_OF_ENVIRONMENTS = (
    *("environment_type", "conda_channels", "conda_environment_file", "include", "exclude", "env_dir"),
    *("plugins", "launch_method", "build_cache_size", "wheel_cache_size", "dvcs"),
)
_OF_PAGES = (
    *("version", "project_url", "show_commit_url", "results_dir", "html_dir", "hash_length"),
    *("regressions_first_commits", "regressions_thresholds"),
)
KNOWN = (*_USED, *_OF_BUILDS, *_OF_ENVIRONMENTS, *_OF_PAGES)
_PARTS = ("req", "env", "env_nobuild")
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvConf:
    """What Paceline takes from the file; `warnings` name what in it is unknown, or is not done.

    `requirements` are the packages of the matrix with their versions, `environments` each combination of variables.
    """

    path: Path
    benchmark_dir: Path
    project: str = ""
    repo: str = ""
    branches: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    requirements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environments: tuple[Mapping[str, str], ...] = ({},)
    build_command: tuple[str, ...] = ()
    install_command: tuple[str, ...] = ()
    timeout_s: float = DEFAULT_TIMEOUT_S
    warnings: tuple[str, ...] = ()

    @property
    def repo_path(self) -> Path | None:
        """The repository that is measured, if it lies on this machine."""
        path = Path(self.path.parent, self.repo) if self.repo and "://" not in self.repo else None
        return path.resolve() if path is not None and path.is_dir() else None


def find_conf(directory: Path) -> Path | None:
    """The file that a directory of benchmarks belongs to: in it, or beside it and naming it."""
    for place in (directory, directory.parent):
        for name in NAMES:
            path = place / name
            if path.is_file() and (place == directory or read_conf(path).benchmark_dir == directory):
                return path
    return None


def read_conf(path: Path) -> AsvConf:
    """The file; a ConfigError names each value that is not of its kind."""
    node = parse_file(path, _without_comments)[0]
    keys, problems = mapping_of(node), []
    data = plain(node)
    if not isinstance(data, dict):
        raise ConfigError([problem_at(node.mark, "", "expected a mapping of keys")])
    kinds: dict[str, tuple[Any, str]] = {
        **dict.fromkeys(("project", "repo", "benchmark_dir"), (str, "a text")),
        **dict.fromkeys(("branches", "pythons"), (list, "a list")),
        **dict.fromkeys(("build_command", "install_command"), ((list, str), "a list of commands")),
        "matrix": (dict, "a mapping"),
        "default_benchmark_timeout": ((int, float), "seconds"),
    }
    for key, (kind, words) in kinds.items():
        if data.get(key) is not None and not isinstance(data[key], kind):
            problems.append(problem_at(keys[key].mark, key, f"expected {words}"))
    if problems:
        raise ConfigError(problems)
    matrix = data.get("matrix") or {}
    if matrix and not set(matrix) & {*_PARTS}:
        matrix = {"req": matrix}  # as files of before 0.5 have it
    return AsvConf(
        path=path,
        benchmark_dir=Path(path.parent.absolute(), data.get("benchmark_dir") or "benchmarks"),
        project=data.get("project") or "",
        repo=data.get("repo") or "",
        branches=_texts(data.get("branches")),
        pythons=_texts(data.get("pythons")),
        requirements={name: _texts(values) for name, values in (matrix.get("req") or {}).items()},
        environments=tuple(_environments(matrix)),
        build_command=_texts(data.get("build_command")),
        install_command=_texts(data.get("install_command")),
        timeout_s=float(data.get("default_benchmark_timeout") or DEFAULT_TIMEOUT_S),
        warnings=tuple(_warnings(path, keys, matrix)),
    )


def _without_comments(text: str) -> str:
    """The text with spaces for comments, so that lines stay where they are; `//` in a text is no comment."""

    def blank(found: re.Match[str]) -> str:
        part = found[0]
        return part if part.startswith('"') else re.sub(r"[^\n]", " ", part)

    return _COMMENT.sub(blank, text).replace("\t", " ")


def _texts(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [] if value is None else [value]
    return tuple("" if item is None else str(item) for item in items)


def _environments(matrix: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Each combination of variables; a value of null leaves one out."""
    axes: dict[str, Sequence[Any]] = {}
    for part in ("env", "env_nobuild"):
        for name, values in (matrix.get(part) or {}).items():
            axes[name] = values if isinstance(values, list) else [values]
    for values in itertools.product(*axes.values()):
        yield {name: str(value) for name, value in zip(axes, values, strict=True) if value is not None}


def _warnings(path: Path, keys: Mapping[str, Node], matrix: Mapping[str, Any]) -> Iterator[str]:
    for key, node in keys.items():
        if key not in KNOWN:
            yield f"{path}:{node.mark.line}: unknown key {key!r}; {did_you_mean(key, KNOWN, 'it is left alone')}"
    wanted = [
        key for key in ("pythons", "include", "exclude", "plugins") if keys.get(key) and keys[key].value
    ]
    wanted += ["matrix.req"] if matrix.get("req") else []
    if wanted:
        yield (
            f"{path.name}: {', '.join(wanted)} ask for environments of their own, and this runs in one Python: "
            "that of paceline, or the entry's 'interpreter'"
        )
