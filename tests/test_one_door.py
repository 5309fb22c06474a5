"""Files that others may have made are reached through `record/below.py` only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from source_trees import nodes_of

SOURCE = Path(__file__).parents[1] / "src" / "paceline"

PACKAGES = ("dashboard", "history", "record", "report", "session", "sinks")
"""Those that go through the door; the others are added as they are converted."""

EXCEPTIONS = {
    "dashboard/site.py: read_bytes": "a file of the package itself",
    "record/capacity.py: read_text": "what the kernel and the system say of this machine",
    "record/lock.py: read_text": "what the kernel says of a process and of this machine's start",
    "record/packages.py: read_text": "metadata of installed packages; it runs alone under other interpreters",
    "record/packages.py: read_bytes": "the conda environment that is active",
    "sinks/__init__.py: read_text": "a file with a secret that the user's own environment or configuration names",
    "sinks/github_api.py: read_bytes": "the files of the workflow's step, which GitHub names in its environment",
    "sinks/github_api.py: open": "the same: the step's summary",
    "sinks/sender.py: open": "the pipe that its parent gave it",
    "sinks/sender.py: os.open": "the null device",
}
MOST_EXCEPTIONS = 10

METHODS = frozenset({"open", "read_text", "read_bytes", "write_text", "write_bytes"})
OPENERS = frozenset(
    {"os.open", "io.open", "gzip.open", "bz2.open", "lzma.open", "tarfile.open", "codecs.open"}
)
# Objects of ours, or of a library, that have an `open` which opens no file.
HARMLESS = frozenset(
    {
        *("below.open_below", "below.open_file", "below.open_given", "below.open_atomic"),
        *("self.open", "session.open", "executor.open", "sinks.open", "sink.open", "SessionDir.open"),
        *("build_opener(_NoRedirects).open", "shutil.disk_usage"),
    }
)


def doors(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of each call that reaches a file by itself."""
    for node in nodes_of(path):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in HARMLESS or (name == "tarfile.open" and "fileobj" in {one.arg for one in node.keywords}):
            continue
        if name == "open" or name in OPENERS or name.startswith("shutil."):
            yield node.lineno, name
        elif isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            yield node.lineno, node.func.attr


@pytest.mark.parametrize("package", PACKAGES)
def test_files_are_reached_through_one_module(package: str) -> None:
    wrong = [
        f"{path}:{line}: {name}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for line, name in doors(path)
        if path.name != "below.py" and f"{path.relative_to(SOURCE)}: {name}" not in EXCEPTIONS
    ]
    assert not wrong, "use paceline.record.below, or say in EXCEPTIONS why not"


def test_exceptions_are_few_and_needed() -> None:
    found = {
        f"{path.relative_to(SOURCE)}: {name}" for path in SOURCE.rglob("*.py") for _, name in doors(path)
    }
    assert set(EXCEPTIONS) <= found, "not needed any more"
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS and all(EXCEPTIONS.values())


@pytest.mark.parametrize(
    "code",
    [
        "open('x')",
        "Path('x').open()",
        "p.read_text()",
        "os.open('x', 0)",
        "shutil.copy(a, b)",
        "gzip.open('x')",
    ],
)
def test_what_opens_a_file_is_seen(tmp_path: Path, code: str) -> None:
    (tmp_path / "one.py").write_text(f"def f():\n    return {code}\n")
    assert [line for line, _ in doors(tmp_path / "one.py")] == [2]
