"""Counts the functions of Paceline that one entry goes through: `paceline run` on a suite of a single `/bin/true`.

    python tools/way_of_an_entry.py           how many functions, in how many files
    python tools/way_of_an_entry.py --list    each of them with its file, in the order in which they are first entered
    python tools/way_of_an_entry.py --no-history    the same without what the history adds

The session runs in this process, in a new directory, with a history as by default; its worker threads count, processes
that it starts do not. A function is a code object with a name, entered however often. Bodies of modules and classes
are left out; lambdas, comprehensions and generator expressions are counted apart. What is entered only while modules
are loaded (decorators, and what tables are made with) is a part of the whole and told beside it. What `dataclasses`
and others make by `exec` is in no file and not seen.
"""

import argparse
import inspect
import os
import runpy
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SOURCES = Path(__file__).resolve().parents[1] / "src" / "paceline"
SUITE = "entries:\n  - {name: nothing, command: [/bin/true]}\n"


class Way:
    """The code objects that were entered, in the order of their first entry."""

    def __init__(self) -> None:
        self.entered: dict[CodeType, bool] = {}
        """Whether each was entered otherwise than while a module was loaded."""
        self._loading = threading.local()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == "<module>" and event in ("call", "return"):
            depth = getattr(self._loading, "depth", 0)
            self._loading.depth = depth + (1 if event == "call" else -1)
        elif event == "call" and code.co_flags & inspect.CO_OPTIMIZED:  # which the body of a class is not
            is_loading = getattr(self._loading, "depth", 0) > 0
            self.entered[code] = self.entered.get(code, False) or not is_loading

    def ours(self) -> list[CodeType]:
        return [code for code in self.entered if code.co_filename.startswith(f"{SOURCES}{os.sep}")]


def is_named(code: CodeType) -> bool:
    return not code.co_name.startswith("<")


def file_of(code: CodeType) -> str:
    return str(Path(code.co_filename).relative_to(SOURCES))


@contextmanager
def silent() -> Iterator[None]:
    """Keep what the session prints from ours."""
    sys.stdout.flush()
    kept = os.dup(1)
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def walk(words: list[str]) -> Way:
    """Run the command in this process, and in the current directory."""
    way = Way()
    sys.argv = ["paceline", *words]
    # The body of the script that runs `paceline` is a module, too; it is not being loaded.
    way._loading.depth = -1
    threading.setprofile(way)
    sys.setprofile(way)
    try:
        with suppress(SystemExit):
            runpy.run_module("paceline", run_name="__main__")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return way


def tell(way: Way, *, with_list: bool) -> None:
    ours = way.ours()
    named = [code for code in ours if is_named(code)]
    if with_list:
        for number, code in enumerate(named, start=1):
            mark = "" if way.entered[code] else "  (while modules were loaded)"
            print(f"{number:4}  {file_of(code)}:{code.co_firstlineno}  {code.co_qualname}{mark}")
    loading = sum(not way.entered[code] for code in named)
    files = len({file_of(code) for code in named})
    later = [code for code in named if way.entered[code]]
    others = len(ours) - len(named)
    print(f"{len(named)} functions in {files} files of src/paceline, and {others} lambdas and the like")
    print(
        f"{len(later)} of them in {len({file_of(code) for code in later})} files without the {loading} "
        "that are entered only while modules are loaded"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="each function with its file, in order")
    parser.add_argument("--no-history", action="store_true", help="do not record the session in a history")
    options = parser.parse_args()
    words = ["run", "--session-name", "way", *(["--no-history"] if options.no_history else [])]
    for name in [name for name in os.environ if name.startswith("PACELINE_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="way-") as directory:
        here = Path.cwd()
        os.chdir(directory)
        try:
            Path("paceline.yaml").write_text(SUITE)
            with silent():
                way = walk(words)
            report = Path("results/way/report.json")
            if not report.is_file() or '"ok": true' not in report.read_text():
                print("the session did not pass; there is no way to tell of", file=sys.stderr)
                return 1
        finally:
            os.chdir(here)
    tell(way, with_list=options.list)
    return 0


if __name__ == "__main__":
    sys.exit(main())
