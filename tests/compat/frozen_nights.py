"""The nights of the history that `make_fixtures.py` keeps: each a real session at a date of its own."""

import json
import random
import shutil
from pathlib import Path

from neutral_python import GIT, ask, begin, git, paceline, pack, set_clock, write_goldens

NIGHTS = 16
ALL_NUMBERS = """
SELECT case_key, variant, version, metric, unit, direction, status, count(*) AS records, sum(value) AS total,
    min(value) AS least, max(value) AS most, min(text) AS text, sum(sample_count) AS samples
FROM measurement GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7
"""
ALL_SAMPLES = "SELECT count(*) AS samples, sum(value) AS total, min(text) AS text FROM sample"
ALL_RUNS = """
SELECT session_id, name, originalname, call_outcome, python_version, platform, start, duration, peak_memory
FROM test_run ORDER BY start, name
"""
QUESTIONS = [
    ("history", "list"),
    ("history", "list", "--json"),
    ("history", "list", "--sessions", "--json"),
    ("history", "log", "sort"),
    ("history", "log", "sort", "work_s"),
    ("history", "log", "sort", "work_s", "--json"),
    ("history", "log", "read", "work_s", "--json"),
    ("history", "log", "parse", "work_s"),
    ("history", "log", "parse", "work_s", "--json"),
    ("history", "log", "join*", "work_s", "--json"),
    ("regressions",),
    ("regressions", "--json"),
    ("regressions", "--markdown"),
    ("regressions", "--state", "acknowledged", "--json"),
    ("regressions", "--replay", "--json"),
    ("compare", "night-03", "night-12"),
    ("compare", "night-03", "night-12", "--json"),
    ("compare", "main~13", "main", "--json"),
    ("history", "export", "-", "--format", "csv", "--metric", "work_s"),
    (
        "history",
        "export",
        "-",
        "--format",
        "json",
        "--case",
        "sort",
        "--metric",
        "*_s",
        "--since",
        "2026-03-15",
        "--samples",
    ),
    ("history", "query", ALL_NUMBERS, "--json"),
    ("history", "query", ALL_SAMPLES, "--json"),
    ("history", "query", ALL_RUNS, "--json"),
]


def make() -> None:
    place = begin("history")
    git(place, "init", "--quiet", "--template=", "--initial-branch=main")
    (place / ".gitignore").write_text("results/\nbenchmark.db*\n")
    chance = random.Random(20260301)
    for night in range(1, NIGHTS + 1):
        _prepare(place, night, chance)
        _run(place, night)
        if night == 13:
            _judge(place)
    set_clock("2026-03-17T09:00:00+00:00")
    paceline(place, "history", "import", "results/night-14")
    paceline(place, "history", "alias", "read_rows", "read")
    paceline(
        place,
        "history",
        "reset",
        "parse",
        "--why",
        "parses twice as many rows",
        "--at",
        "2026-03-06T00:00:00Z",
    )
    paceline(place, "history", "prune", "--session", "night-01")
    paceline(place, "regressions", codes=(0, 1), **GIT)
    shutil.rmtree(place / "results")
    pack("history", place)
    write_goldens("history", ask(place, QUESTIONS, **GIT))
    set_clock(None)


def _prepare(place: Path, night: int, chance: random.Random) -> None:
    """What the library is on that day, as a commit."""
    takes = {
        "sort": 2.0 * (1.25 if night >= 9 else 1.0),
        "join-1000": 0.1,
        "join-100000": 8.0 * (0.8 if night >= 11 else 1.0),
        "read": 1.0,
        "parse": 3.0 * (2.0 if night >= 6 else 1.0),
    }
    for name, seconds in takes.items():
        values = [f"{seconds * chance.gauss(1, 0.01):.6f}" for _ in range(3)]
        file = place / "tonight" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            "fail\n" if (name, night) == ("join-1000", 12) else "".join(f"{one}\n" for one in values)
        )
    if night == 7:
        suite = place / "paceline.yaml"
        suite.write_text(suite.read_text().replace("name: read_rows", "name: read"))
    git(place, "add", ".")
    git(
        place,
        "commit",
        "--quiet",
        "--message",
        f"What was done on day {night}",
        when=f"2026-03-{night:02}T01:00:00Z",
    )


def _run(place: Path, night: int) -> None:
    set_clock(f"2026-03-{night:02}T02:00:00+00:00")
    threads = "2" if night >= 9 else "4"
    words = ["--no-history"] if night == 14 else []
    words += ["--session-name", f"night-{night:02}", "--quiet"]
    paceline(place, "run", *words, codes=(0, 1), OMP_NUM_THREADS=threads, **GIT)


def _judge(place: Path) -> None:
    """What people said when they had looked at the findings of the thirteenth night."""
    found = json.loads(paceline(place, "regressions", "--json", codes=(0, 1), **GIT).stdout)
    told = {(one["case"], one["metric"]): one["id"] for one in found}
    who = ("--who", "the maintainers")
    slower = told["sort", "work_s"]
    paceline(place, "verdict", slower, "acknowledged", "--why", "looking into it", *who)
    paceline(place, "verdict", slower, "expected", "--why", "it sorts stably now", *who)
    paceline(place, "verdict", slower, "acknowledged", "--why", "it should not take as long", *who)
    paceline(place, "verdict", told["sort", "rows_per_s"], "false", "--why", "a backup ran", *who)
