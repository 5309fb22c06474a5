"""The benchmarks of a suite, found by importing it, with what its modules, classes and functions say about each.

An attribute is looked up in the function, then in the instance of its class, then in its module.
"""

import hashlib
import inspect
import itertools
import os
import pkgutil
import re
import sys
import textwrap
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

KINDS = {
    "time": re.compile(r"Time[A-Z_].+|time_.+"),
    "timeraw": re.compile(r"Timeraw[A-Z_].+|timeraw_.+"),
    "mem": re.compile(r"Mem[A-Z_].+|mem_.+"),
    "peakmem": re.compile(r"PeakMem[A-Z_].+|peakmem_.+"),
    "track": re.compile(r"Track[A-Z_].+|track_.+"),
}
"""What asv tells a benchmark by: how its name begins."""

_ADDRESS = re.compile(r"(<.*) at (0x[\da-fA-F]*)(>)")


@dataclass(frozen=True)
class Fault:
    """Why a part of the suite cannot be used, and where."""

    file: str
    line: int
    message: str


@dataclass(frozen=True)
class Benchmark:
    """One function of the suite that measures something, for all of its parameters."""

    name: str
    kind: str
    func: Callable[..., Any]
    sources: Sequence[Any]

    def first(self, name: str, default: Any = None) -> Any:
        """An attribute of the nearest source that has it."""
        return next((one for one in self.all(name)), default)

    def all(self, name: str, *, any_case: bool = False) -> Iterator[Any]:
        """An attribute of each source that has it, the nearest first."""
        for source in self.sources:
            names = [key for key in dir(source) if key.lower() == name] if any_case else [name]
            if len(names) > 1:
                raise ValueError(f"there are several: {', '.join(names)}; keep one")
            found = getattr(source, names[0], None) if names else None
            if found is not None:
                yield found

    @cached_property
    def setups(self) -> list[Callable[..., Any]]:
        """The module's set-up before the class's."""
        return [*self.all("setup", any_case=True)][::-1]

    @cached_property
    def teardowns(self) -> list[Callable[..., Any]]:
        return [*self.all("teardown", any_case=True)]

    @cached_property
    def setup_cache(self) -> Callable[[], Any] | None:
        found: Callable[[], Any] | None = self.first("setup_cache")
        return found

    @property
    def cache_key(self) -> str:
        """What tells one `setup_cache` from another: all benchmarks that have the same share what it made."""
        code = getattr(inspect.unwrap(self.setup_cache), "__code__", None) if self.setup_cache else None
        place = f"{code.co_filename}:{code.co_firstlineno}" if code else ""
        return f"{place} {_source(self.setup_cache)}"

    @cached_property
    def axes(self) -> list[list[Any]]:
        """The values of each parameter."""
        params = list(self.first("params", ()))
        if params and not isinstance(params[0], list | tuple):
            return [params]
        return [list(axis) for axis in params]

    @property
    def param_names(self) -> list[str]:
        names = [str(name) for name in self.first("param_names", ())][: len(self.axes)]
        return names + [f"param{number}" for number in range(len(names) + 1, len(self.axes) + 1)]

    @cached_property
    def labels(self) -> list[list[str]]:
        """The text of each value, each once in its axis."""
        return [_told_apart([_label(value) for value in axis]) for axis in self.axes]

    def cells(self) -> Iterator[tuple[tuple[str, ...], tuple[Any, ...]]]:
        """Every combination of parameters that applies: the texts and the values; the last parameter changes first."""
        left_out = [tuple(one) for one in self.first("skip_params", ())]
        for labels, values in zip(
            itertools.product(*self.labels), itertools.product(*self.axes), strict=True
        ):
            if not any(_is_same(values, one) for one in left_out):
                yield labels, values

    def values_of(self, labels: Sequence[str]) -> tuple[Any, ...]:
        """The parameters that have these texts."""
        try:
            return tuple(
                axis[texts.index(label)]
                for axis, texts, label in zip(self.axes, self.labels, labels, strict=True)
            )
        except ValueError:
            raise LookupError(f"{self.name} has no parameters ({', '.join(labels)})") from None

    @property
    def rounds(self) -> int:
        """In how many processes asv measures it."""
        if self.kind not in ("time", "timeraw"):
            return 1
        return max(1, int(self.first("rounds", self.first("processes", 2))))

    @cached_property
    def code(self) -> str:
        """The source of all that decides what is measured, as asv puts it together."""
        parts, before = [], None
        for function in (self.func, *self.setups, self.setup_cache):
            text = _source(function)
            if text is None:
                continue
            owner = _class_name(function)
            if owner and owner != before:
                text = f"class {owner}:\n    " + text.replace("\n", "\n    ")
            elif owner:
                text = "    " + text.replace("\n", "\n    ")
            parts.append(text)
            before = owner
        return "\n\n".join(parts).rstrip()

    @property
    def version(self) -> str:
        """The one that the suite gives, else a hash of the code: the one that asv has, so that its results go on."""
        given = self.first("version")
        if given is not None:
            return str(given)
        env = self.first("env") if self.kind == "timeraw" else None
        told = "\n# timeraw_env\n" + repr(sorted((str(k), str(v)) for k, v in env.items())) if env else ""
        return hashlib.sha256((self.code + told).encode()).hexdigest()

    @property
    def place(self) -> tuple[str, int]:
        code = getattr(inspect.unwrap(self.func), "__code__", None)
        return (code.co_filename, code.co_firstlineno) if code else ("", 0)


class _Root:
    """Finds the suite's own package, wherever it lies, and no other module."""

    def __init__(self, directory: str) -> None:
        self.parent, self.name = os.path.split(directory)

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [self.parent], target) if name == self.name else None


def open_suite(directory: str) -> str:
    """Let the suite be imported; hands back the name of its package."""
    directory = os.path.abspath(directory)  # noqa: PTH100
    root = _Root(directory)
    sys.meta_path.insert(0, root)
    return root.name


@dataclass
class Found:
    """All benchmarks of a suite by name, and what of it cannot be imported."""

    benchmarks: dict[str, Benchmark] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


def find_all(directory: str) -> Found:
    """Import the whole suite; a module that fails is named, and the others are found all the same."""
    found = Found()
    for module in _modules(open_suite(directory), found.faults):
        for one in _benchmarks_in(module, found.faults):
            found.benchmarks.setdefault(one.name, one)
    return found


def find_one(directory: str, name: str) -> Benchmark:
    """One benchmark; only the module that its name speaks of is imported, unless it is not there."""
    package, parts = open_suite(directory), name.split(".")
    for cut in (1, 2):
        path = os.path.join(directory, *parts[:-cut])  # noqa: PTH118
        if parts[:-cut] and (os.path.isfile(f"{path}.py") or os.path.isdir(path)):  # noqa: PTH112, PTH113
            module = import_module(".".join([package, *parts[:-cut]]))
            for one in _benchmarks_in(module, []):
                if one.name == name:
                    return one
    found = find_all(directory)
    if name in found.benchmarks:
        return found.benchmarks[name]
    why = f": {found.faults[0].message}" if found.faults else ""
    raise LookupError(f"the suite {directory} has no benchmark {name}{why}")


def _modules(name: str, faults: list[Fault]) -> Iterator[ModuleType]:
    try:
        module = import_module(name)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        faults.append(fault_of(error, f"{name} cannot be imported"))
        return
    yield module
    for info in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        yield from _modules(info.name, faults)


def _benchmarks_in(module: ModuleType, faults: list[Fault]) -> Iterator[Benchmark]:
    found: list[tuple[str, Any, type | None]]
    for name, item in [*vars(module).items()]:
        if name.startswith("_"):
            continue
        if inspect.isclass(item) and not inspect.isabstract(item):
            members = inspect.getmembers(item, lambda one: inspect.isfunction(one) or inspect.ismethod(one))
            found = [(key, one, item) for key, one in members]
        elif inspect.isfunction(item):
            found = [(name, item, None)]
        else:
            continue
        for key, function, owner in found:
            one, error = tried(partial(_benchmark, module, key, function, owner))
            if error is not None:
                faults.append(fault_of(error, f"{module.__name__}.{key}"))
            elif one is not None:
                yield one


def _benchmark(module: ModuleType, key: str, function: Any, owner: type | None) -> Benchmark | None:
    if getattr(function, "skip_benchmark", False):
        return None
    given = getattr(function, "benchmark_name", None)
    called = str(given).rpartition(".")[2] if given else key
    kind = next((kind for kind, pattern in KINDS.items() if pattern.fullmatch(called)), None)
    if kind is None:
        return None
    inside = module.__name__.split(".")[1:]
    if owner is None:
        name = str(given or ".".join([*inside, function.__name__]))
        found = Benchmark(name, kind, function, (function, module))
    else:
        instance = owner()
        method = getattr(instance, key)
        name = str(given or ".".join([*inside, owner.__name__, key]))
        found = Benchmark(name, kind, method, (method, instance, module))
    _ = found.labels, found.version, found.rounds, found.param_names  # what is wrong with them shows now
    return found


def tried(action: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """What code of the suite gives, or what it raised, which may be anything."""
    try:
        return action(), None
    except Exception as error:  # noqa: BLE001
        return None, error


def fault_of(error: BaseException, what: str) -> Fault:
    """Where in the suite an error came from, and its first line."""
    if isinstance(error, SyntaxError) and error.filename:
        return Fault(str(error.filename), error.lineno or 0, f"{what}: {error.msg}")
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    message = f"{what}: {text.splitlines()[0] if text else type(error).__name__}"
    ours = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(("<", ours)):
            return Fault(frame.filename, frame.lineno or 0, message)
    return Fault("", 0, message)


def _label(value: object) -> str:
    """A value's `repr`, without the address that is another one each time."""
    text = repr(value)
    match = _ADDRESS.fullmatch(text)
    own = _ADDRESS.fullmatch(object.__repr__(value)) if match else None
    return match[1] + match[3] if match and own and own[2] == match[2] else text


def _told_apart(labels: list[str]) -> list[str]:
    counts, seen = Counter(labels), Counter[str]()
    unique = []
    for label in labels:
        unique.append(f"{label} ({seen[label]})" if counts[label] > 1 else label)
        seen[label] += 1
    return unique


def _is_same(values: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    try:
        return bool(values == others)
    except (TypeError, ValueError):  # arrays compare to arrays
        return False


def _source(function: Any) -> str | None:
    if function is None:
        return None
    given = getattr(function, "pretty_source", None)
    if given is not None:
        return textwrap.dedent(given).lstrip()
    try:
        lines, _ = inspect.getsourcelines(function)
    except (TypeError, OSError):
        return None
    return textwrap.dedent("\n".join(line.rstrip() for line in lines)) if lines else None


def _class_name(function: Any) -> str | None:
    parts = getattr(function, "__qualname__", "").split(".") if inspect.ismethod(function) else []
    return parts[-2] if len(parts) > 1 else None


def attributes(benchmark: Benchmark) -> Mapping[str, Any]:
    """What is known of a benchmark before it runs, as plain data."""
    file, line = benchmark.place
    timeout = benchmark.first("timeout")
    cache = getattr(benchmark.setup_cache, "timeout", None) if benchmark.setup_cache else 0
    return {
        "name": benchmark.name,
        "kind": benchmark.kind,
        "param_names": benchmark.param_names,
        "cells": [list(labels) for labels, _ in benchmark.cells()],
        "version": benchmark.version,
        "rounds": benchmark.rounds,
        "timeout_s": None if timeout is None else float(timeout),
        "cache_timeout_s": None if cache is None else float(cache),
        "file": file,
        "line": line,
    }
