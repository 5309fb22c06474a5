"""Code that is not ours: classes in files beside a suite, and a hash of it, since edited code is other code."""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType
from typing import Any

from paceline import plugins
from paceline.errors import PacelineError

_FAULTS = (ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError, LookupError, OSError)
_files: dict[str, Path] = {}
"""Name → path of Python files that classes were asked of; their names are what results know them by."""


def take_file(place: str, beside: Path | None = None) -> str:
    """`./my_masker.py:Mine` as `my_masker.py:Mine`, with the file remembered; other names as they are."""
    file, colon, attribute = place.rpartition(":")
    if not colon or not file.endswith(".py"):
        return place
    path = Path(_files[file]) if file in _files else ((beside or Path()) / file).absolute()
    if not path.is_file():
        raise PacelineError(f"{place}: there is no file {path}")
    if _files.setdefault(path.name, path) != path:
        raise PacelineError(f"{path} and {_files[path.name]} have one name: rename one, results go by it")
    return f"{path.name}:{attribute}"


def taken_files() -> dict[str, str]:
    """What a worker needs to find the same classes."""
    return {name: str(path) for name, path in _files.items()}


def remember_files(files: Mapping[str, str]) -> None:
    """In a worker: where the parent's files are."""
    _files.update({name: Path(path) for name, path in files.items()})


def find_part(group: str, name: str) -> Any:
    """The object of that name in an entry point group, at an import path, or in a file that was taken."""
    file, _, attribute = name.rpartition(":")
    if not file.endswith(".py"):
        return plugins.find(group, name)
    module = _load(take_file(name).rpartition(":")[0])
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise PacelineError(f"{_files[file]} has no {attribute!r}") from error


def part_name(thing: Any) -> str:
    """Where a worker finds the same object."""
    file = getattr(sys.modules.get(thing.__module__), "__paceline_file__", None)
    return f"{file or thing.__module__}:{thing.__qualname__}"


def _load(file: str) -> Any:
    path = _files[file]
    name = f"paceline_file_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    loader = _AsWritten(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise PacelineError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    module.__paceline_file__ = file  # type: ignore[attr-defined]
    sys.modules[name] = module
    _import_as_written(path.parent)
    try:
        loader.exec_module(module)
    except _FAULTS as error:
        del sys.modules[name]
        raise PacelineError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


class _AsWritten(SourceFileLoader):
    """Takes no compiled form: Python holds one for current if size and second of an edit are the same."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


_beside: set[str] = set()


def _import_as_written(directory: Path) -> None:
    """Let files import what lies beside them, as it is now."""
    if not _beside:
        sys.path_hooks.insert(0, _finder)
    if directory.name not in ("site-packages", "dist-packages"):  # beside it lie all packages there are
        _beside.add(str(directory))
        for known in [one for one in sys.path_importer_cache if _is_beside(one)]:
            del sys.path_importer_cache[known]
    if str(directory) not in sys.path:
        sys.path.append(str(directory))


def _is_beside(place: str) -> bool:
    path = Path(place)
    return any(str(one) in _beside for one in (path, *path.parents)) and "site-packages" not in path.parts


def _finder(place: str) -> FileFinder:
    if not _is_beside(place):
        raise ImportError(f"{place} is none of ours")
    return FileFinder(place, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_AsWritten, SOURCE_SUFFIXES))


def code_sha256(*things: Any) -> str | None:
    """A hash of the modules of some classes and of what they import from beside them; None if all are our own."""
    files: set[Path] = set()
    for thing in things:
        name = thing if isinstance(thing, str) else thing.__module__
        if name.partition(".")[0] != "paceline":
            files |= set(_module_files(name))
    if not files:
        return None
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _module_files(name: str) -> Iterator[Path]:
    """The file of a module, and those that it imports: of a package its own, of a single file what lies beside it."""
    origin = getattr(sys.modules.get(name), "__file__", None)
    if origin is None:
        spec = importlib.util.find_spec(name)
        origin = None if spec is None else spec.origin
    if origin is None or not Path(origin).is_file():
        return
    start = Path(origin)
    is_package = "." in name or start.name == "__init__.py"
    root = start.parents[name.count(".") + (start.name == "__init__.py")]
    if not is_package and root.name in ("site-packages", "dist-packages"):
        yield start  # beside it lie all packages there are
        return
    todo, seen = [start], {start}
    while todo:
        path = todo.pop()
        yield path
        for imported in _imports(path, root):
            if is_package and imported.partition(".")[0] != name.partition(".")[0]:
                continue
            base = root.joinpath(*imported.split("."))
            for found in (base.with_suffix(".py"), base / "__init__.py"):
                if found not in seen and found.is_file():
                    seen.add(found)
                    todo.append(found)


def _imports(path: Path, root: Path) -> Iterator[str]:
    """The full names of all modules that a file may import."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    package = path.relative_to(root).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *((node.module,) if node.module else ())))
            yield from filter(None, (base, *(f"{base}.{one.name}".strip(".") for one in node.names)))
