"""What the dashboard costs at scale: building it, adding a night, loading its pages and panning a long chart.

    python benchmarks/dashboard_scale.py                          10 million samples in 10,000 series: half an hour
    python benchmarks/dashboard_scale.py --samples 500000         a first look
    python benchmarks/dashboard_scale.py --keep history.db        keep what was generated, or go on with it

    python benchmarks/dashboard_scale.py --build-only             no browser: building it, and adding a night

Needs Chromium, unless only the build is measured. Pages are timed in it, in turn with an empty site of the same
bundle; the ratio of the medians counts.
Sizes are those after gzip, as a file host sends them.
"""

import gzip
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from figures import Row, finish, make_parser
from history_scale import (
    ENVIRONMENT,
    METRICS_A_CASE,
    NIGHT_METRICS,
    POINTS,
    generate,
    make_cases,
    night,
)
from measuring import in_turn

from paceline.history import open_store
from paceline.history.store import schema

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LONG = 100_000
PAN_SECONDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a command took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def build(database: Path, out: Path) -> Cost:
    """Build in a process of its own; the peak is that of the largest so far, so the first call counts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started_s = time.perf_counter()
    command = [sys.executable, "-m", "paceline", "dashboard", "build", str(out), "--db", str(database)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=out.parent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu_s=cpu_s, wall_s=time.perf_counter() - started_s, peak_mb=after.ru_maxrss / 1024)


def measure_build(database: Path, out: Path, cases: list[Any]) -> list[Row]:
    full = build(database, out)
    files = [path for path in out.rglob("*") if path.is_file()]
    size_mb = sum(path.stat().st_size for path in files) / 1e6
    told = f"{full.wall_s:.0f} s wall, {full.cpu_s:.0f} s CPU, {len(files):,} files, {size_mb:,.0f} MB"
    some = cases[: NIGHT_METRICS // METRICS_A_CASE]
    nights = []
    for _ in range(3):
        with open_store(database) as store:
            number = len(store.sessions())
            session, records = night(number, some, random.Random(number))
            store.add(session, ENVIRONMENT, records)
        nights.append(build(database, out))
    wall = statistics.median(one.wall_s for one in nights) / full.wall_s
    cpu = statistics.median(one.cpu_s for one in nights) / full.cpu_s
    share = f"{NIGHT_METRICS:,} metrics; CPU {cpu:.2%}, wall {wall:.2%}; {nights[-1].wall_s:.1f} s"
    return [
        Row(
            what="full build, memory",
            metric="build_memory_mb",
            figure=full.peak_mb,
            bound=500,
            unit="MB",
            detail=told,
        ),
        Row(
            what="build after one night",
            metric="night_build_overhead",
            figure=max(cpu, wall) * 100,
            bound=5,
            unit="%",
            detail=share,
        ),
    ]


@cache
def zipped(path: Path) -> bytes:
    """A file as a host keeps it; compressed when it was put there, not when it is asked for."""
    return gzip.compress(path.read_bytes(), 6)


class Zipped(SimpleHTTPRequestHandler):
    """A file host that compresses; it counts what it sends."""

    sent = 0
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            self.send_error(404)
            return
        data = zipped(path)
        type(self).sent += len(data)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with suppress(BrokenPipeError, ConnectionResetError):  # the page has gone on to another
            self.wfile.write(data)

    def handle(self) -> None:
        with suppress(ConnectionResetError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        return


@contextmanager
def hosted(directory: Path) -> Iterator[tuple[str, type[Zipped]]]:
    counted = type("Counted", (Zipped,), {"sent": 0})
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: counted(*args, directory=str(directory)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/index.html", counted
    finally:
        server.shutdown()
        server.server_close()


DRAWN = """wanted => new Promise(done => {
  const look = () => document.querySelector(wanted)
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))
    : requestAnimationFrame(look);
  look();
})"""


def drawn_ms(page: Any, address: str, wanted: str) -> float:
    """From the start of the navigation until what is wanted is on the screen."""
    page.goto("about:blank")
    page.goto(address, wait_until="commit")
    return float(page.evaluate(DRAWN, wanted))


def measure_pages(browser: Any, out: Path, empty: Path, rounds: int) -> list[Row]:
    page = browser.new_page()
    with hosted(out) as (full_address, counted), hosted(empty) as (empty_address, _):
        counted.sent = 0
        drawn_ms(page, full_address, ".tiles")
        first_kb = counted.sent / 1000
        looks: dict[str, Callable[[], float]] = {
            "empty": lambda: drawn_ms(page, empty_address, ".welcome"),
            "first": lambda: drawn_ms(page, full_address, ".tiles"),
            "case": lambda: drawn_ms(page, f"{full_address}#/case/bench_7?m=phase_3_s", ".chart .drawing"),
        }
        times_ms = in_turn(rounds, *looks.values())
    middle = dict(zip(looks, map(statistics.median, times_ms), strict=True))
    told = ", ".join(f"{name} {ms:.0f} ms" for name, ms in middle.items())
    return [
        Row(
            what="first load, transferred",
            metric="transfer_overhead",
            figure=first_kb,
            bound=300,
            unit="kB",
            detail="gzip, page and data",
        ),
        Row(
            what="first load, drawn",
            metric="first_load_overhead",
            figure=middle["first"] / middle["empty"],
            bound=2,
            unit="x",
            detail=told,
        ),
        Row(
            what="a case of 10 series, drawn",
            metric="case_load_overhead",
            figure=middle["case"] / middle["first"],
            bound=1.5,
            unit="x",
            detail="beside the first load",
        ),
    ]


def make_long(path: Path) -> None:
    """A case with very many points; its rows are written directly, since only drawing is measured."""
    chance = random.Random(2)
    numbers = range(1, LONG + 1)
    idents = [number.to_bytes(16, "big") for number in numbers]
    begin = datetime(2015, 1, 1, tzinfo=UTC)
    times = [f"{begin + timedelta(hours=number):%Y-%m-%dT%H:%M:%S}.000Z" for number in numbers]
    told = zip(numbers, idents, times, strict=True)
    records = [(n, ident, n, 1, 1, 1, 1, "passed", at, 1.0, *[None] * 3, 1, None) for n, ident, at in told]
    values = [(1, number, chance.gauss(100, 2), None, 1) for number in numbers]
    named = zip(numbers, idents, times, strict=True)
    sessions = [(n, ident, f"s{n}", "session", at, *[""] * 6, None) for n, ident, at in named]
    with open_store(path) as store, store.database.writing():
        insert = store.database.insert
        insert(schema.case, [(1, "long", "", "1", "entry", "long", "long", None)])
        insert(schema.series, [(1, 1, "wall_s", "s", "lower")])
        insert(schema.environment, [(1, "one", "one", "", "", "", None)])
        insert(schema.setting, [(1, b"0" * 16, "")])
        insert(schema.session, sessions)
        insert(schema.record, records)
        insert(schema.metric, values)


PAN = """seconds => new Promise(done => {
  const over = document.querySelector('.chart');
  const [start, frames] = [performance.now(), []];
  let last = start;
  const step = now => {
    frames.push(now - last);
    last = now;
    if (now - start > seconds * 1000) return done(frames.slice(2));
    const by = (frames.length >> 5) % 2 ? 40 : -40;
    over.dispatchEvent(new WheelEvent('wheel', {deltaX: by, shiftKey: true, bubbles: true, cancelable: true}));
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


@contextmanager
def served(database: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "paceline", "dashboard", "serve", "--port", "0", "--db", str(database)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=database.parent)
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(60)


def measure_panning(browser: Any, directory: Path) -> Row:
    make_long(directory / "long.db")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(300_000)
    with served(directory / "long.db") as address:
        page.goto(f"{address}#/case/long")
        page.wait_for_selector(".chart .drawing")
        shown = page.locator(".facts").inner_text()
        assert f"{LONG:,} records" in shown, shown
        frames = page.evaluate(PAN, PAN_SECONDS)
        page.goto("about:blank")
    rate = 1000 * len(frames) / sum(frames)
    slowest = sorted(frames)[int(len(frames) * 0.95)]
    told = f"{LONG:,} points, all in view; 95 % of the frames within {slowest:.0f} ms"
    # Shown as time a frame, so that less is better like everywhere in this table.
    return Row(
        what=f"panning, time a frame ({rate:.0f} a second)",
        metric="panning_frame_ms",
        figure=1000 / rate,
        bound=1000 / 30,
        unit="ms",
        detail=told,
    )


def measure(database: Path, directory: Path, samples: int) -> list[Row]:
    cases = make_cases(max(1, samples // POINTS // METRICS_A_CASE))
    generate(database, cases)
    return measure_build(database, directory / "site", cases)


def measure_browsing(directory: Path, rounds: int) -> list[Row]:
    from playwright.sync_api import sync_playwright

    with open_store(directory / "empty.db"):
        pass
    build(directory / "empty.db", directory / "empty")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        rows = measure_pages(browser, directory / "site", directory / "empty", rounds)
        rows.append(measure_panning(browser, directory))
        browser.close()
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--samples", type=int, default=10_000_000, help="how many to generate")
    parser.add_argument("--rounds", type=int, default=9, help="how often each page is loaded")
    parser.add_argument("--keep", type=Path, help="generate into this file and keep it")
    parser.add_argument("--build-only", action="store_true", help="no pages, so no browser")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline-dashboard-") as name:
        directory = Path(name)
        database = (args.keep or directory / "history.db").resolve()
        rows = measure(database, directory, args.samples)
        if not args.build_only:
            rows += measure_browsing(directory, args.rounds)
    return finish(args, rows, num_samples=args.samples)


if __name__ == "__main__":
    raise SystemExit(main())
