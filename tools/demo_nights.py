"""What `make demo` needs besides a suite: a small library with a planted regression, and nights before tonight.

    python tools/demo_nights.py repo results/demo/repo              a repository with a commit that made it slower
    python tools/demo_nights.py nights results/demo/first-look --repo results/demo/repo --db results/demo/benchmark.db

The library and its slow commit are real: what tonight measures is measured. The nights before are made up: each takes
the numbers of the session that is named, with some noise, and those of `clean_text` by as much faster before the slow
commit as that commit's parent is now. Their sessions are called `made-up-…`, on the dashboard too.
"""

import argparse
import importlib.util
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

from paceline.history import SessionInfo, open_store
from paceline.history.session_files import read_session
from paceline.history.session_info import session_id
from paceline.model import Measurement, Record

NIGHTS = 40
COMMITS_A_NIGHT = 3
SLOW_NIGHT = 30
SLOW = SLOW_NIGHT * COMMITS_A_NIGHT + 1
NOISE = 0.02
CASE = "clean_text"
# Of made-up nights only what a benchmark itself measured; what the machine did then is nobody's to make up.
KEPT = ("time_taken_s", "clean_overhead", "throughput_", "peak_memory_bytes", "multiply_time")

LIBRARY = '''"""Cleans text. Made for Paceline's demo."""

STOP_WORDS = {stop_words}


def clean(text: str) -> str:
    """The text in lower case, without words that say nothing."""
    return " ".join(word for word in text.casefold().split() if word not in STOP_WORDS)
'''
WORDS = "the of and to in a"
FAST = f"frozenset(\n    {WORDS!r}.split()\n)"
SLOW_FORM = f"tuple(\n    {WORDS!r}.split()\n)"
SLOW_SUBJECT = "Keep the stop words in the order of the list"
SUBJECTS = ("Word the notes anew", "Name the release", "Thank those who report", "Explain the stop words")


def make_repository(path: Path) -> None:
    """Some commits for each night; all but one change the notes only."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    stream = "".join(_commits(datetime.now(UTC) - timedelta(days=NIGHTS + 1)))
    command = ["git", "-C", str(path), "fast-import", "--quiet"]
    subprocess.run(command, input=stream.encode(), check=True)
    subprocess.run(["git", "-C", str(path), "reset", "-q", "--hard", "main"], check=True)
    print(
        f"{path}: a library of {NIGHTS * COMMITS_A_NIGHT} commits, made for the demo; one of them made it slower"
    )


def _commits(first: datetime) -> Iterator[str]:
    """The repository as `git fast-import` reads it."""
    for number in range(NIGHTS * COMMITS_A_NIGHT):
        when = first + timedelta(days=1) * (number / COMMITS_A_NIGHT)
        subject = SLOW_SUBJECT if number == SLOW else SUBJECTS[number % len(SUBJECTS)]
        yield "commit refs/heads/main\n"
        yield f"committer the maintainers <maintainers@example.org> {int(when.timestamp())} +0000\n{_data(subject)}"
        yield f"M 644 inline NOTES.md\n{_data(f'Made for the demo of Paceline. Edition {number}.{chr(10)}')}"
        if number in (0, SLOW):
            yield f"M 644 inline wordbag.py\n{_data(_source(is_slow=number == SLOW))}"


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"


def _source(*, is_slow: bool) -> str:
    return LIBRARY.format(stop_words=SLOW_FORM if is_slow else FAST)


def measure_slowdown(repo: Path) -> float:
    """By how much the planted commit made the library slower, on this machine."""
    texts = [" ".join(random.Random(seed).choices(TEXT_WORDS, k=200)) for seed in range(300)]  # noqa: S311
    slow, fast = _load(repo / "wordbag.py"), ModuleType("fast")
    exec(_source(is_slow=False), fast.__dict__)  # noqa: S102 - our own text, above
    pairs = [(_cpu_s(slow, texts), _cpu_s(fast, texts)) for _ in range(9)]
    return statistics.median(after / before for after, before in pairs)


TEXT_WORDS = [*WORDS.split(), *(f"word{number}" for number in range(60))]


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _cpu_s(library: ModuleType, texts: list[str]) -> float:
    started_s = time.process_time()
    for text in texts:
        library.clean(text)
    return time.process_time() - started_s


def add_nights(session: Path, repo: Path, database: Path, slowdown: float) -> None:
    """Put the nights before the session's into the history."""
    log = ["git", "-C", str(repo), "rev-list", "--reverse", "main"]
    revisions = subprocess.run(log, check=True, capture_output=True, text=True).stdout.split()
    today = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0)
    chance = random.Random(20261116)  # noqa: S311 - made-up numbers
    _, environment, records, *_ = read_session(session)
    known = list(records)
    with open_store(database) as store:
        for night in range(NIGHTS):
            when = today - timedelta(days=NIGHTS - night)
            faster = slowdown if night < SLOW_NIGHT else 1.0
            info = _session(when, revisions[min((night + 1) * COMMITS_A_NIGHT, len(revisions)) - 1])
            store.add(info, environment, [_made_up(record, info, faster, chance) for record in known])
    print(f"{database}: {NIGHTS} nights, made up from tonight's first look; called made-up-…")
    print(f"planted: {NIGHTS - SLOW_NIGHT} nights ago {CASE} became {slowdown - 1:.0%} slower")


def _session(when: datetime, revision: str) -> SessionInfo:
    start, name = when.isoformat(timespec="milliseconds").replace("+00:00", "Z"), f"made-up-{when:%Y-%m-%d}"
    return SessionInfo(
        id=session_id(name, start),
        name=name,
        started_at=start,
        revision=revision,
        branch="main",
        meta={"run_reason": "made up for the demo"},
    )


def _made_up(record: Record, info: SessionInfo, faster: float, chance: random.Random) -> Record:
    factor = faster if record.case.entry == CASE else 1.0
    metrics = {
        name: _near(value, factor, chance)
        for name, value in record.metrics.items()
        if name.startswith(KEPT) and value.direction
    }
    return replace(
        record,
        session=info.name,
        started_at=info.started_at,
        revision=info.revision,
        metrics=metrics,
        artifacts=(),
        warnings=("made up for the demo",),
    )


def _near(value: Measurement, faster: float, chance: random.Random) -> Measurement:
    """The measurement with noise; memory does not depend on how fast things are."""
    by = math.exp(chance.gauss(0, NOISE))
    if value.unit != "bytes":
        by *= faster if value.direction == "higher" else 1 / faster
    samples = tuple(sample * by for sample in value.samples)
    return replace(value, value=(value.value or 0) * by, samples=samples)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("repo").add_argument("path", type=Path)
    nights = commands.add_parser("nights")
    nights.add_argument("session", type=Path, help="the session whose numbers the nights are made of")
    nights.add_argument("--repo", type=Path, required=True)
    nights.add_argument("--db", type=Path, required=True)
    args = parser.parse_args()
    if args.command == "repo":
        make_repository(args.path)
    else:
        add_nights(args.session, args.repo, args.db, measure_slowdown(args.repo))
    return 0


if __name__ == "__main__":
    sys.exit(main())
