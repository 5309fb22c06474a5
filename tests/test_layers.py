"""The shape of the house: who imports whom, what is imported when, and how long things may grow."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from source_trees import nodes_of, tree_of

SOURCE = Path(__file__).parents[1] / "src"
FILES = sorted((SOURCE / "paceline").rglob("*.py"))

LONGEST_FUNCTION = 60
LONGEST_FILE = 500

# Higher layers import lower ones, never the other way round. Parts of one layer do not know each other.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"__main__"}),
    frozenset({"cli", "pytest_plugin"}),
    frozenset({"experiments"}),
    frozenset({"session", "dashboard", "doctor"}),
    frozenset({"findings", "evals", "timing"}),
    frozenset({"plan", "run", "history", "judge", "report", "sinks", "curate"}),
    frozenset({"config"}),
    frozenset({"record", "metrics", "plugins", "asv"}),
    frozenset({"model", "errors", "urls", "numbers", "guest"}),
    frozenset({"finding"}),
)
# `config` lies under `plan` alone: the others of its neighbours' layer see nothing of it. Evals read their own section.
KNOWS_CONFIG = frozenset({"cli", "experiments", "session", "plan", "evals"})
# A number, an outcome and a failure read the same on a terminal and in a message; and whatever a sink has started is
# watched and ended as the processes of a case are.
SINKS_KNOW = frozenset(
    {
        "paceline.report.format",
        "paceline.report.markdown",
        "paceline.report.cases",
        "paceline.run.local.tree",
    }
)
# Curation is a library of its own that could leave the house, but for the home that a private Ray cluster has, and the
# count of CPUs, which is made in one place.
CURATE_KNOWS = frozenset(
    {"curate", "errors", "urls", "numbers", None, "paceline.run.ray.home", "paceline.record.capacity"}
)
STANDARD_LIBRARY_ONLY = (
    "paceline.emit",
    "paceline.model",
    "paceline.finding",
    "paceline.errors",
    "paceline.urls",
    "paceline.numbers",
    "paceline.timing.bench",
    "paceline.timing.functions",
    "paceline.timing.work",
)
HEAVY = frozenset({"rich", "pydantic", "yaml", "psutil", "pynvml", "ray", "orjson", "numpy", "sqlalchemy"})
LIGHT_ENTRANCES = ("paceline", "paceline.emit", "paceline.cli")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def column_of(module: str) -> str | None:
    """The part of the house a module belongs to; None for the package itself and `emit`, which stand apart."""
    parts = module.split(".")
    if len(parts) == 1 or parts[1] == "emit":
        return None
    return parts[1]


def level_of(column: str) -> int:
    return next(level for level, columns in enumerate(LAYERS) if column in columns)


def imports_of(path: Path, nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that the statements import."""
    package = ".".join(path.parent.relative_to(SOURCE).parts)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1, f"{path}:{node.lineno}: a relative import leaves its package"
            base = f"{package}.{node.module}" if node.level else str(node.module)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in MODULES else base


def all_imports(path: Path) -> Iterator[tuple[int, str]]:
    return imports_of(path, nodes_of(path))


def import_time_nodes(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported: not those in functions, nor for type checkers."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from import_time_nodes(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for name in ("body", "orelse", "finalbody", "handlers"):
                yield from import_time_nodes(getattr(node, name, ()))


def reachable(start: str) -> dict[str, str]:
    """All modules that importing `start` imports, each with the one that asked for it."""
    found = {start: ""}
    queue = [start]
    for module in queue:
        parent = module.rpartition(".")[0]
        path = MODULES.get(module)
        names = [name for _, name in imports_of(path, import_time_nodes(tree_of(path).body))] if path else []
        for name in [*names, *([parent] if parent else [])]:
            if name not in found:
                found[name] = module
                queue.append(name)
    return found


def test_curation_needs_nothing_of_the_rest() -> None:
    wrong = [
        f"{path}:{line}: {name}"
        for module, path in MODULES.items()
        if column_of(module) == "curate"
        for line, name in all_imports(path)
        if name.split(".")[0] == "paceline" and CURATE_KNOWS.isdisjoint({column_of(name), name})
    ]
    assert not wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_name(path))
def test_imports_go_downwards(path: Path) -> None:
    here = column_of(module_name(path))
    wrong = []
    for line, name in all_imports(path):
        there = column_of(name) if name.split(".")[0] == "paceline" else None
        if there is None or here == there:
            continue
        if here is None:
            allowed = there in {"model", "errors"} or name == "paceline.timing.script"
        elif there == "config":
            allowed = here in KNOWS_CONFIG
        elif here == "sinks" and there in ("report", "run"):
            allowed = name in SINKS_KNOW
        elif here == "curate" and there == "run":
            allowed = name in CURATE_KNOWS
        else:
            allowed = level_of(here) < level_of(there)
        if not allowed:
            wrong.append(f"{path}:{line}: {here or 'paceline'} must not import {name}")
    assert not wrong


def test_every_module_has_its_place() -> None:
    columns = {column_of(module) for module in MODULES} - {None}
    known = frozenset().union(*LAYERS)
    assert columns <= known, "a new part of the house: say in LAYERS where it stands"


@pytest.mark.parametrize("module", STANDARD_LIBRARY_ONLY)
def test_scripts_and_types_need_the_standard_library_only(module: str) -> None:
    tops = {name.split(".")[0] for _, name in all_imports(MODULES[module])}
    assert tops - {"paceline"} <= sys.stdlib_module_names


@pytest.mark.parametrize("entrance", LIGHT_ENTRANCES)
def test_nothing_heavy_is_reachable_at_import(entrance: str) -> None:
    chain = reachable(entrance)
    heavy = {name: chain[name] for name in chain if name.split(".")[0] in HEAVY}
    assert not heavy, "imported at the top of a module that a light one imports"


@pytest.mark.parametrize("entrance", LIGHT_ENTRANCES)
def test_nothing_heavy_is_imported_in_fact(entrance: str) -> None:
    program = f"import sys, {entrance}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{path}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def test_functions_stay_short() -> None:
    long = {name: lines for path in FILES for name, lines in functions_of(path) if lines > LONGEST_FUNCTION}
    assert not long


def test_files_stay_short() -> None:
    lengths = {str(path): len(path.read_text().splitlines()) for path in FILES}
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE}


def test_broad_excepts_stand_around_a_case_a_stub_a_sink_call_and_code_of_a_suite_only() -> None:
    broad = [
        f"{path}:{node.lineno}"
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.ExceptHandler) and is_broad(node)
    ]
    assert len(broad) <= 4, broad


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Whether it catches whatever comes and keeps it; one that raises again what is not its own does not."""
    catches_all = handler.type is None or ast.unparse(handler.type) in {"Exception", "BaseException"}
    raises_again = any(isinstance(node, ast.Raise) and node.exc is None for node in ast.walk(handler))
    return catches_all and not raises_again
