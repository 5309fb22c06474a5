"""The plugin's options; those of pytest-benchmark begin with the same word and mean other things."""

import argparse

import pytest

PROFILERS = ("dask", "py-spy", "memray")
PROFILE_DIR = "benchmark-profiles"


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("paceline", "benchmarks remembered by Paceline")
    group.addoption(
        "--benchmark",
        action="store_true",
        dest="paceline_benchmark",
        help="Measure what the benchmark fixtures mark, and add it to the history.",
    )
    group.addoption(
        "--benchmark-db",
        metavar="URL",
        dest="paceline_db",
        help="With --benchmark: the database to record into, a file or postgresql://…. "
        "Default: $PACELINE_DB, else benchmark.db.",
    )
    group.addoption(
        "--benchmark-profile",
        metavar="KINDS",
        dest="paceline_profile",
        type=_profilers,
        default=(),
        help="With --benchmark: run each benchmark that passed once more under profilers, after its timed pass. "
        f"One or more of {', '.join(PROFILERS)}, separated by commas.",
    )
    group.addoption(
        "--benchmark-profile-dir",
        metavar="DIR",
        dest="paceline_profile_dir",
        default=PROFILE_DIR,
        help="Where profiles are kept. Default: %(default)s.",
    )


def _profilers(text: str) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [kind for kind in kinds if kind not in PROFILERS]
    if unknown or not kinds:
        raise argparse.ArgumentTypeError(f"{text!r}: give one or more of {', '.join(PROFILERS)}")
    return kinds
