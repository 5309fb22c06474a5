"""Entries whose cases are the tests of pytest or the benchmarks of asv: a child process is asked which there are.

Nothing of a suite is imported here. The child has the entry's Python, its variables and a time limit. What it says is
data; what it cannot import is an error of that entry, and the other cases are there all the same.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline import guest
from paceline.asv.labels import from_repr
from paceline.config.asv_conf import AsvConf, find_conf, read_conf
from paceline.config.nodes import Location
from paceline.errors import ConfigError, Problem
from paceline.model import RUN_DIR, Scalar
from paceline.numbers import duration
from paceline.plan.commands import SEARCH_PATH, Filling, SuiteCall
from paceline.plan.directories import SESSION_DIR
from paceline.record import below
from paceline.record.layout import SHARED
from paceline.record.repository import find_top

LONGEST_S = 300.0
"""How long a suite may take to say what it has; numpy's takes 10 s."""

CACHES = f"{SESSION_DIR}/{SHARED}/asv"
"""Where the benchmarks of a session share what their `setup_cache` made."""

MOST_CASES = 100_000
"""Cases of an entry; numpy's suite has 8,200."""

_LARGEST_ANSWER = 64 << 20
_LONGEST_LOG = 1 << 16
_LONGEST_VALUE = 200
_SENTINEL = re.compile(r"\x00(\w+)\x00")
"""Directories of a session, which there is not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A test or a benchmark with its parameters; `argv`, `cwd` and `file` are what its case runs.

    What is None is for the entry to say.
    """

    base: str
    argv: tuple[str, ...]
    file: str
    line: int = 0
    params: Mapping[str, Scalar] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    cwd: str | None = None
    version: str | None = None
    timeout_s: float | None = None
    rounds: int | None = None
    joins: tuple[str, ...] = ()
    """What adds a test to the process of another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a suite has, and what is wrong with it."""

    found: tuple[Found, ...] = ()
    faults: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


class Refused(Exception):
    """The child gave no answer; says why in one line."""


_known: dict[str, Any] = {}
"""What suites have said, for as long as this process lives: an experiment plans its trials again and again."""


def ask(filling: Filling) -> Answer:
    """The cases of an entry with its texts filled in; none where something is wrong with these already."""
    location = filling.location
    call = filling.suite()
    if filling.notes.unset or filling.notes.problems:
        return Answer()
    try:
        return _ask_asv(call, location, filling) if call.kind == "asv" else _ask_pytest(call)
    except Refused as error:
        return Answer(faults=(filling.expansion.loaded.problem((*location, call.kind), f"{error}"),))
    except ConfigError as error:
        return Answer(faults=error.problems)


def _ask_pytest(call: SuiteCall) -> Answer:
    words = [guest.__file__, "paceline.pytest_plugin.entry:collect"]
    first = Path(call.paths[0].partition("::")[0])
    # What pytest takes for its root where the tests have no configuration, and so a part of their names.
    start = find_top(first.parent) or first.parent
    told = _answer(call, words, [*call.paths, *call.args], start)
    root = str(told.get("root") or "")
    found = []
    for test in _items(told, "tests"):
        one = {"id": str(test["id"]), "base": str(test["base"]), "file": str(test["file"])}
        argv = (
            *call.python,
            guest.__file__,
            "paceline.pytest_plugin.entry:run",
            one["id"],
            f"--rootdir={root}",
            one["file"],
            *call.args,
        )
        found.append(
            Found(
                base=one["base"],
                argv=argv,
                file=one["file"],
                line=int(test.get("line") or 0),
                params=_params(test.get("params")),
                tags=tuple(map(str, test.get("marks") or ())),
                cwd=root or None,
                joins=("--also", json.dumps([one["id"], one["file"]]), RUN_DIR),
            )
        )
    return Answer(found=tuple(found), faults=tuple(_faults(told, Path(root))))


def _ask_asv(call: SuiteCall, location: Location, filling: Filling) -> Answer:
    directory = Path(call.paths[0])
    path = directory if directory.is_file() else find_conf(directory)
    conf = read_conf(path) if path else AsvConf(path=directory, benchmark_dir=directory)
    suite = Path(os.path.normpath(conf.benchmark_dir))
    if not suite.is_dir():
        raise Refused(f"{suite} is no directory of benchmarks; name the one that holds them")
    words = [guest.__file__, "paceline.asv.child:discover", str(suite)]
    told = _answer(call, words, [], suite.parent)
    found = [
        case
        for env in conf.environments
        for benchmark in _items(told, "benchmarks")
        for case in _cells(call, conf, suite, env, benchmark)
    ]
    return Answer(found=tuple(found), faults=tuple(_faults(told, suite.parent)), warnings=conf.warnings)


def _cells(
    call: SuiteCall, conf: AsvConf, suite: Path, env: Mapping[str, str], told: Mapping[str, Any]
) -> Iterator[Found]:
    """A case for each combination of a benchmark's parameters, and of variables with several values in asv's matrix."""
    name = str(told["name"])
    names = [str(one) for one in told["param_names"]]
    varied = {key for one in conf.environments for key in one if len(conf.environments) > 1}
    own_s, cache_s = (
        conf.timeout_s if told.get(key) is None else float(told[key])
        for key in ("timeout_s", "cache_timeout_s")
    )
    for labels in told["cells"]:
        argv = (*call.python, guest.__file__, "paceline.asv.child:run", str(suite), name)
        params = dict(zip(names, map(from_repr, map(str, labels)), strict=True))
        yield Found(
            base=name,
            argv=(*argv, json.dumps(labels), CACHES, repr(conf.timeout_s)),
            file=str(told["file"]),
            line=int(told.get("line") or 0),
            params=_params({**params, **{key: env.get(key) for key in sorted(varied)}}),
            env=env,
            tags=(str(told["kind"]),),
            version=str(told["version"]),
            timeout_s=own_s + cache_s,
            rounds=int(told["rounds"]),
        )


def _answer(call: SuiteCall, words: Sequence[str], more: Sequence[str], cwd: Path) -> Mapping[str, Any]:
    """What the child writes; asked once for the same words, variables and directory."""
    own = {name: value.replace(SEARCH_PATH, os.environ.get("PATH", "")) for name, value in call.env.items()}
    own = {name: _SENTINEL.sub(r"/\1", value) for name, value in own.items()}
    more = [_SENTINEL.sub(r"/\1", word) for word in more]
    cwd = Path(call.cwd or cwd)
    key = json.dumps([call.python, words, more, sorted(own.items()), str(cwd)])
    if key not in _known:
        with tempfile.TemporaryDirectory(prefix="paceline-suite-") as made:
            place = Path(made, "found.json")
            _run([*call.python, *words, str(place), *more], {**os.environ, **own}, cwd, Path(made, "log"))
            _known[key] = _read(place)
    told: Mapping[str, Any] = _known[key]
    return told


def _run(argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> None:
    """Run the child to its end, or end it and all that it started."""
    with log.open("wb") as stream:
        try:
            child = subprocess.Popen(
                argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        except OSError as error:
            raise Refused(f"cannot start {argv[0]}: {error.strerror or error}") from error
        try:
            code = child.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            raise Refused(f"took longer than {duration(LONGEST_S)} to say what it has") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if code:
        with below.open_given(log) as printed:
            printed.seek(max(0, log.stat().st_size - _LONGEST_LOG))
            lines = printed.read(_LONGEST_LOG).decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        errors = [line for line in said if re.match(r"(ERROR\b|[\w.]*(Error|Exception)\b)", line)]
        why = (errors or said or [f"exit code {code}"])[-1]
        raise Refused(f"cannot be asked what it has: {why[:500]}")


def _read(place: Path) -> Mapping[str, Any]:
    try:
        with below.open_given(place) as file:
            text = file.read(_LARGEST_ANSWER + 1)
        told = json.loads(text) if len(text) <= _LARGEST_ANSWER else None
    except (OSError, ValueError):
        told = None
    if not isinstance(told, dict):
        raise Refused("gave no answer that can be read")
    return told


def _items(told: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    items: list[Mapping[str, Any]] = [item for item in told.get(key) or () if isinstance(item, dict)]
    if max(len(items), sum(len(item.get("cells") or ()) for item in items)) > MOST_CASES:
        raise Refused(f"has more than {MOST_CASES:,} cases; name a part of it")
    return items


def _faults(told: Mapping[str, Any], root: Path) -> Iterator[Problem]:
    for fault in _items(told, "faults"):
        file = str(Path(root, str(fault.get("file") or "")))
        yield Problem(file=file, line=int(fault.get("line") or 0), path="", message=str(fault.get("message")))


def _params(given: object) -> dict[str, Scalar]:
    """Parameters as names of cases can have them: one line, of a length that can be read."""
    params: dict[str, Scalar] = {}
    for name, value in (given if isinstance(given, dict) else {}).items():
        if isinstance(value, str):
            value = " ".join(value.split())
            value = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
        params[str(name)] = (
            value if value is None or isinstance(value, str | int | float | bool) else str(value)
        )
    return params
