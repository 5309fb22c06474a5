"""The way of an entry, as CONTRIBUTING.md draws it, is the way it goes: a real run is traced, caller by caller."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_FUNCTIONS, MOST_FILES = 15, 12
MOST_FRAMES_BETWEEN = 1

# Notes, for each function of ours that is called, which of ours called it, the nearest first. A thread goes on where
# the function stands that submitted its work.
TRACER = """
import json, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

source = os.path.dirname(sys.argv.pop(1))
found, parents = {}, threading.local()

def name_of(code):
    path = Path(code.co_filename).relative_to(source).with_suffix("")
    return ".".join((*path.parts, code.co_qualname))

def callers(frame):
    stack = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(source) and frame.f_code.co_name != "<module>":
            stack.append(name_of(frame.f_code))
        frame = frame.f_back
    return stack + getattr(parents, "stack", [])

def trace(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(source):
        found.setdefault(name_of(frame.f_code), callers(frame.f_back)[:4])

submit = ThreadPoolExecutor.submit

def submitted(self, function, *args):
    stack = callers(sys._getframe(1))

    def work(*args):
        parents.stack = stack
        return function(*args)

    return submit(self, work, *args)

ThreadPoolExecutor.submit = submitted
threading.setprofile(trace)
sys.setprofile(trace)
try:
    from paceline.cli import main
    main()
except SystemExit:
    pass
sys.setprofile(None)
Path("callers.json").write_text(json.dumps(found))
"""


def drawn() -> Iterator[tuple[str, str]]:
    """Each function of the drawing with the one above it; the first has none."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = re.search(r"## The way of an entry.*?```text\n(.*?)```", text, re.DOTALL)
    assert block, "CONTRIBUTING.md draws no way of an entry"
    above: list[tuple[int, str]] = []
    for line in block[1].splitlines():
        match = re.match(r"^([│├└─ ]*)([a-z_.]+\w+(?:\.\w+)*)", line)
        assert match, line
        depth, name = len(match[1]), match[2]
        above = [(other, parent) for other, parent in above if other < depth]
        yield (above[-1][1] if above else "", name)
        above.append((depth, name))


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    where = tmp_path_factory.mktemp("way")
    (where / "paceline.yaml").write_text("entries:\n  - {name: nothing, command: [/bin/true]}\n")
    package = str(ROOT / "src/paceline/__init__.py")
    words = [sys.executable, "-c", TRACER, package, "run", "--session-name", "s"]
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, timeout=170)
    assert json.loads((where / "results/s/report.json").read_text())["ok"], done.stderr
    found: dict[str, list[str]] = json.loads((where / "callers.json").read_text())
    return found


def test_it_is_short() -> None:
    names = [name for _, name in drawn()]
    assert len(names) <= MOST_FUNCTIONS and len(set(names)) == len(names)
    files = {str(file_of(name)) for name in names}
    assert len(files) <= MOST_FILES


def file_of(name: str) -> Path:
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        path = ROOT.joinpath("src/paceline", *parts[:count]).with_suffix(".py")
        if path.is_file():
            return path
    raise AssertionError(f"there is no file for {name}")


@pytest.mark.parametrize(("caller", "callee"), list(drawn()))
def test_each_function_calls_the_next_itself_or_through_one_other(
    caller: str, callee: str, traced: dict[str, list[str]]
) -> None:
    assert callee in traced, f"{callee} is not on the way"
    if caller:
        assert caller in traced[callee][: MOST_FRAMES_BETWEEN + 1], traced[callee]
