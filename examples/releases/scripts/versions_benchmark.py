"""What installers ask of `packaging`: parse versions, sort them, and filter them by a specifier.

Each part has its CPU time, the best of three, and the number of calls that it makes. Calls are the same in every run,
so a change of them is the library's, on however busy a machine.
"""

import argparse
import sys
import time
from collections.abc import Callable
from types import FrameType

import packaging
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from paceline import emit

# One by one: a set of several is tried in an order that Python's hashes decide, which differs from run to run.
SPECIFIERS = (">=0.2", "!=0.4.*", "<0.8", "~=0.3")


def make_texts(majors: int) -> list[str]:
    """Versions as an index lists them, finals and others."""
    suffixes = ("", "rc1", ".post2", ".dev3")
    return [
        f"{major}.{minor}.{patch}{suffix}"
        for major in range(majors)
        for minor in range(10)
        for patch in range(10)
        for suffix in suffixes
    ]


def find_fitting(texts: list[str]) -> list[str]:
    return [text for specifier in SPECIFIERS for text in SpecifierSet(specifier).filter(texts)]


def count_calls(work: Callable[[], object]) -> int:
    """How many functions are called, those of C included."""
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def best_cpu_s(work: Callable[[], object], rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path")
    parser.add_argument("--majors", type=int, default=1)
    options = parser.parse_args()
    texts = make_texts(options.majors)
    versions = [Version(text) for text in texts]
    parts: dict[str, Callable[[], object]] = {
        "parse": lambda: [Version(text) for text in texts],
        "sort": lambda: sorted(versions),
        "filter": lambda: find_fitting(texts),
    }
    for name, work in parts.items():
        emit.metrics({f"{name}_cpu_s": best_cpu_s(work), f"{name}_calls": count_calls(work)})
    emit.params({"packaging": packaging.__version__, "versions": len(texts)})
    emit.metrics({"num_fitting": len(find_fitting(texts))})


if __name__ == "__main__":
    main()
