"""What a team sees that brings its own past: the results of asv imported, searched, printed and shown.

    python benchmarks/real_history.py asv-results.tar.xz                import and search: a few minutes
    python benchmarks/real_history.py asv-results.tar.xz --keep real.db keep the database, or go on with it
    python benchmarks/real_history.py asv-results.tar.xz --half open    leave out the half that is kept apart
    python benchmarks/real_history.py made/results --planted made/planted.json    what data/make_asv_history.py made

Prints what importing, searching and listing cost, how many changes there are, and how many of them the command line and
the first page name. Importing is held against reading the same files and inserting the same rows plainly, searching
against reading all series.

Half of the series, chosen by a hash of their names, is kept apart: who tunes the detector looks at the open half only,
and the figures of both halves show whether the tuning holds for what it has not seen.

For people to look at, `--plots DIR` writes a page of some of what is called new and worse, drawn by a fixed seed from
the sorted ids of each half.
"""

import argparse
import hashlib
import html
import json
import random
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import orjson
from figures import Row, finish, make_parser
from measuring import environment

from paceline.finding import Finding, SeriesKey
from paceline.findings.order import read_order
from paceline.history import Store, open_store
from paceline.history.series import Point
from paceline.numbers import interval, number

SEED = 20180615
"""Chosen before the detector was tuned on any of these histories; changing it would be choosing what to look at."""
PLOTS = 24
HALVES = ("open", "apart")
_WIDTH, _HEIGHT, _AROUND = 620, 150, 120


def half_of(series: SeriesKey) -> str:
    """To which half a series belongs; all of a benchmark's metrics, machines and versions go together."""
    return HALVES[hashlib.sha256(series.case.partition("[")[0].encode()).digest()[0] % 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a command took, and what it printed."""

    cpu_s: float
    wall_s: float
    written_bytes: int
    printed: str


_COUNTING = """
import atexit, pathlib, runpy, sys
note, counted = pathlib.Path(sys.argv.pop(1)), pathlib.Path("/proc/self/io")
atexit.register(lambda: note.write_text(counted.read_text()))
runpy.run_module("paceline", run_name="__main__", alter_sys=True)
"""


def paceline(*words: str) -> Cost:
    """Run a command in a process of its own, with the bytecode that a user's machine has."""
    before, started_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.NamedTemporaryFile() as note:
        done = subprocess.run(
            [sys.executable, "-c", _COUNTING, note.name, *words],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        written = re.search(r"^wchar: (\d+)", Path(note.name).read_text(), re.MULTILINE)
    if done.returncode not in (0, 1) or not written:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall_s = time.perf_counter() - started_s
    return Cost(cpu_s=cpu_s, wall_s=wall_s, written_bytes=int(written[1]), printed=done.stdout)


def plainly_imported_s(results: Path) -> float:
    """What it takes at least: each file read, and a row for each of its numbers inserted."""
    started_s = time.process_time()
    with (
        tempfile.TemporaryDirectory() as place,
        closing(sqlite3.connect(Path(place) / "plain.db")) as database,
    ):
        database.execute("CREATE TABLE value (benchmark TEXT, cell INTEGER, revision TEXT, number REAL)")
        for path in sorted(results.rglob("*.json")):
            text = path.read_bytes()
            document = orjson.loads(text) if b"NaN" not in text else json.loads(text)
            columns = document.get("results", {})
            rows = [
                (name, cell, document["commit_hash"], number)
                for name, told in columns.items()
                for cell, number in enumerate(told[0] or ())
            ]
            database.executemany("INSERT INTO value VALUES (?, ?, ?, ?)", rows)
        database.commit()
    return time.process_time() - started_s


def all_read_s(database: Path) -> float:
    """What it takes to read every series that is judged."""
    started_s = time.process_time()
    with open_store(database, read_only=True) as store:
        order = read_order(store)
        for series in store.iter_columns(judged_only=True):
            order.points(series)
    return time.process_time() - started_s


def unpack(archive: Path, into: Path) -> Path:
    if archive.is_dir():
        return archive
    with tarfile.open(archive) as files:
        files.extractall(into, filter="data")
    return into


def say(what: str, text: str) -> None:
    print(f"{what:<34} {text}", flush=True)


def timed(cost: Cost) -> str:
    return f"{cost.cpu_s:6.1f} s CPU, {cost.wall_s:6.1f} s wall"


def measure(results: Path, database: Path, site: Path) -> list[Row]:
    """Each step as a team takes it, on a copy of the imported history so that it can be searched again."""
    rows: list[Row] = []
    if not database.exists():
        plain_s = plainly_imported_s(results)
        cost = paceline("history", "import", str(results), "--db", str(database))
        say("import", timed(cost))
        size = database.stat().st_size
        rows += [
            figure(
                "import",
                "import_overhead",
                cost.cpu_s / plain_s,
                16,
                f"{cost.cpu_s:.1f} s CPU of {plain_s:.1f} s",
            ),
            figure(
                "written", "import_written_overhead", cost.written_bytes / size, 5, f"of {size / 1e6:,.0f} MB"
            ),
        ]
    say("size of the database", f"{database.stat().st_size / 1e6:,.0f} MB")
    searched = database.with_suffix(".searched.db")
    shutil.copyfile(database, searched)
    read_s = all_read_s(database)
    first = paceline("regressions", "--db", str(searched))
    say("search and print", timed(first))
    detail = f"{first.cpu_s:.1f} s CPU of {read_s:.1f} s"
    rows.append(figure("search", "search_overhead", first.cpu_s / read_s, 8, detail))
    say("print again, nothing new", timed(paceline("regressions", "--db", str(searched))))
    lines = first.printed.splitlines()
    say("printed", f"{len(lines):,} lines, the widest {max(map(len, lines), default=0)} characters")
    say("its last line", lines[-1] if lines else "")
    say("dashboard build", timed(paceline("dashboard", "build", str(site), "--db", str(searched))))
    say("badge of open regressions", badge_text(site))
    return rows


def figure(what: str, metric: str, value: float, bound: float, detail: str, unit: str = "x") -> Row:
    return Row(what=what, metric=metric, figure=value, bound=bound, unit=unit, detail=detail)


def held_against_planted(store: Store, planted: Path) -> list[Row]:
    """What of the known changes was found on each machine, within five commits; and what of the restless alarms."""
    known = json.loads(planted.read_text())
    place = {revision: at for at, revision in enumerate(known["commits"])}
    found: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    restless = 0
    for one in store.findings():
        name = one.case.partition("[")[0]
        restless += one.fails and known["kinds"][name] == "restless"
        found[name].add((one.environment_class, place.get(one.first_bad.revision, -100)))
    classes = {series.environment_class for series in store.iter_columns(judged_only=True)}
    wanted = [
        (one["benchmark"], class_id, place[one["commit"]]) for one in known["steps"] for class_id in classes
    ]
    missed = sum(
        not any(told == class_id and abs(at - step) <= 5 for told, at in found[name])
        for name, class_id, step in wanted
    )
    percent = 100 * missed / max(1, len(wanted))
    alarms = restless / max(1, len(classes) * sum(kind == "restless" for kind in known["kinds"].values()))
    return [
        figure("planted steps missed", "missed_steps", percent, 10, f"{missed} of {len(wanted)}", "%"),
        figure("alarms of a restless benchmark", "restless_alarms", alarms, 1, "on each machine, in all", ""),
    ]


def badge_text(site: Path) -> str:
    found = re.search(r"<title>(.*?)</title>", (site / "badges/regressions.svg").read_text())
    return found[1] if found else "?"


def count_halves(store: Store, halves: Sequence[str]) -> dict[str, list[Finding]]:
    """What was found in each half; the findings that are new and worse, by their ids."""
    told = {half: [one for one in store.findings() if half_of(one.series) == half] for half in halves}
    for half, found in told.items():
        new = [one for one in found if one.fails]
        small = sum(1 for one in new if abs(one.effect or 0.0) < 0.05)
        incidents = {one.incident for one in found}, {one.incident for one in new}
        text = f"{len(found):,} findings in {len(incidents[0]):,} incidents; new and worse: {len(new):,} in "
        say(f"half {half!r}", f"{text}{len(incidents[1]):,}, {small:,} of them below 5 %")
    return {
        half: sorted((one for one in found if one.fails), key=lambda one: one.id)
        for half, found in told.items()
    }


def write_plots(store: Store, population: Sequence[Finding], count: int, out: Path) -> None:
    """A page with some of the findings, each with the points around its change in the order they are judged in."""
    drawn = random.Random(SEED).sample(population, min(count, len(population)))
    order = read_order(store)
    points: dict[SeriesKey, list[Point]] = {}
    wanted = {one.series for one in drawn}
    for series in store.iter_columns(cases=sorted({one.case for one in drawn}), judged_only=True):
        if series.key in wanted:
            points[series.key] = order.points(series)
    body = "".join(plot(at, one, points[one.series]) for at, one in enumerate(drawn, 1))
    style = "body{font:13px sans-serif;columns:2}figure{margin:0 0 18px;break-inside:avoid}svg{background:#f6f6f6}"
    out.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style>{body}")


def plot(at: int, one: Finding, points: Sequence[Point]) -> str:
    """One finding: the stretch around the change, and below it the whole series."""
    place = next((i for i, point in enumerate(points) if point.record_id == one.at_record), len(points) - 1)
    first = max(0, place - _AROUND)
    values = [point.value for point in points]
    near = drawing(values[first : place + _AROUND], place - first, _HEIGHT)
    whole = drawing(values, place, _HEIGHT // 3)
    name = html.escape(f"{at}. {one.id} {one.case} {one.metric} {one.variant or ''}")
    size = html.escape(
        f"{interval(one.effect, one.low, one.high)}, {len(points):,} points, {one.at_time[:10]}"
    )
    return f"<figure><figcaption>{name}<br><b>{size}</b></figcaption>{near}<br>{whole}</figure>"


def drawing(values: Sequence[float], mark: int, height: int) -> str:
    low, high = min(values), max(values)
    span = (high - low) or 1.0

    def x(i: int) -> float:
        return 4 + (_WIDTH - 8) * i / max(1, len(values) - 1)

    def y(value: float) -> float:
        return height - 4 - (height - 8) * (value - low) / span

    dots = "".join(f'<circle cx="{x(i):.1f}" cy="{y(v):.1f}" r="1.4"/>' for i, v in enumerate(values))
    line = f'<path d="M{x(mark) - 2:.1f} 0V{height}" stroke="#c22" stroke-width="1"/>'
    ends = f'<text x="4" y="12">{number(high)}</text><text x="4" y="{height - 4}">{number(low)}</text>'
    return f'<svg width="{_WIDTH}" height="{height}" font-size="11">{line}{dots}{ends}</svg>'


def main(argv: Sequence[str] | None = None) -> int:
    parser: argparse.ArgumentParser = make_parser(__doc__)
    parser.add_argument("archive", type=Path, help="a directory of asv's results, or a tar file of one")
    parser.add_argument("--keep", type=Path, help="the imported database: made if it is not there")
    parser.add_argument("--half", choices=(*HALVES, "both"), default="both")
    parser.add_argument("--plots", type=Path, help="a directory for pages of what is called new and worse")
    parser.add_argument("--count", type=int, default=PLOTS, help="how many of each half")
    parser.add_argument(
        "--planted", type=Path, help="what is known of the changes, by data/make_asv_history.py"
    )
    args = parser.parse_args(argv)
    halves = HALVES if args.half == "both" else (args.half,)
    with tempfile.TemporaryDirectory(prefix="paceline-real-") as directory:
        scratch = Path(directory)
        database = args.keep.absolute() if args.keep else scratch / "real.db"
        results = args.archive if database.exists() else unpack(args.archive, scratch)
        rows = measure(results, database, scratch / "site")
        with open_store(database.with_suffix(".searched.db")) as store:
            population = count_halves(store, halves)
            for half, found in population.items() if args.plots else ():
                args.plots.mkdir(parents=True, exist_ok=True)
                write_plots(store, found, args.count, args.plots / f"{half}.html")
            rows += held_against_planted(store, args.planted) if args.planted else []
            size = store.size()
    return finish(args, rows, num_records=size.records)


if __name__ == "__main__":
    raise SystemExit(main())
