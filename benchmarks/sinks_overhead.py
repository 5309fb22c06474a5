"""What sinks cost a session: the share of its wall time that is theirs, measured in one and the same session.

    python benchmarks/sinks_overhead.py                1,000 entries, 50 metrics each
    python benchmarks/sinks_overhead.py --entries 100  a first look
    python benchmarks/sinks_overhead.py --compare 3    also whole sessions beside such without sinks, in turn

Of a session with three sinks, and of one with three of which one hangs, the time is taken that the runner spends on
them:
starting them, writing the journal, and the wait at the end. On a machine that does nothing else `--compare` shows what
they take besides by using its cores; on a busy one that drowns in noise.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from figures import is_recorded, make_parser, publish
from measuring import environment

BOUND = 0.03
SCRIPT = """\
import json, os, sys, time
time.sleep(float(sys.argv[1]))
where = sys.argv[sys.argv.index("--benchmark-results-path") + 1]
os.makedirs(where, exist_ok=True)
with open(where + "/metrics.json", "w") as file:
    json.dump({f"metric_{number}": number * 1.25 for number in range(50)}, file)
"""
HANGING = """\
import time
class Hangs:
    def __init__(self, options, context): pass
    def open(self, plan): time.sleep(1e6)
"""


class Receiver(BaseHTTPRequestHandler):
    """Takes everything; stands for a service on another machine, so it does not even read the JSON."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Silence."""


def write_suite(directory: Path, name: str, count: int, seconds: float, sinks: list[str]) -> Path:
    entries = "".join(
        f"  - {{name: entry_{number}, script: fifty.py, args: '{seconds}'}}\n" for number in range(count)
    )
    path = directory / f"{name}.yaml"
    path.write_text("\n".join([f"results_dir: {directory}/results", "sinks:", *sinks, "entries:", entries]))
    return path


def with_sinks_of(directory: Path) -> dict[str, str]:
    paths = filter(None, (str(directory), os.environ.get("PYTHONPATH")))
    return {**environment(), "PYTHONPATH": os.pathsep.join(paths)}


def session_s(directory: Path, suite: Path, name: str) -> float:
    """The wall time of a whole session, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "paceline",
        "run",
        str(suite),
        "--session-name",
        name,
        "--no-history",
        "-q",
    ]
    started_s = time.perf_counter()
    done = subprocess.run(
        command, check=False, cwd=directory, env=with_sinks_of(directory), capture_output=True, text=True
    )
    taken_s = time.perf_counter() - started_s
    if done.returncode:
        raise SystemExit(f"the measured session failed:\n{done.stdout}{done.stderr}")
    return taken_s


def shares_of(directory: Path, suite: Path, name: str) -> list[float]:
    """Of a session in a process of its own: its wall time, and what of it went into starting, telling, ending sinks."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", str(suite), name],
        check=True,
        cwd=directory,
        env=with_sinks_of(directory),
        stdout=subprocess.PIPE,
        text=True,
    )
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_one(suite: Path, name: str) -> None:
    """Run a session with a watch on all that it does for sinks."""
    from paceline.session import session
    from paceline.session.request import Request
    from paceline.sinks.dispatch import Dispatcher

    spent_s = {"open": 0.0, "record": 0.0, "close": 0.0}

    class Watched(Dispatcher):
        """Times its own methods."""

    def watch(method: str) -> None:
        original = getattr(Dispatcher, method)

        def timed(self: Dispatcher, *arguments: Any) -> Any:
            started_s = time.perf_counter()
            try:
                return original(self, *arguments)
            finally:
                spent_s[method] += time.perf_counter() - started_s

        setattr(Watched, method, timed)

    for method in spent_s:
        watch(method)
    session.Dispatcher = Watched  # type: ignore[misc]
    started_s = time.perf_counter()
    report = session.run(Request(configs=(suite,), session_name=name, history=False), Silent())
    whole_s = time.perf_counter() - started_s
    if not report.ok:
        raise SystemExit(f"the measured session failed: {dict(report.counts)}")
    print(json.dumps([whole_s, *spent_s.values()]))


class Silent:
    """A listener that says nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def make_suites(directory: Path, count: int, seconds: float, url: str) -> dict[str, Path]:
    files = f"  - {{name: files, directory: {directory}/copies}}"
    hook = f"  - {{name: hook, type: webhook, url: '{url}'}}"
    table = f"  - {{name: table, type: files, directory: {directory}/tables, formats: [csv]}}"
    # It hangs from the first call on; the end of a session does not wait for a call that is older than this.
    hangs = "  - {name: hangs, type: 'hanging:Hangs', wait_s: 5}"
    return {
        "none": write_suite(directory, "none", count, seconds, ["  []"]),
        "three": write_suite(directory, "three", count, seconds, [files, hook, table]),
        "hanging": write_suite(directory, "hanging", count, seconds, [files, hook, hangs]),
    }


def measure(directory: Path, count: int, seconds: float, url: str) -> dict[str, float]:
    """The share that sinks add to a session, for each kind of them."""
    for name, suite in make_suites(directory, 3, seconds, url).items():
        session_s(directory, suite, f"warm-{name}")
    shares = {}
    suites = make_suites(directory, count, seconds, url)
    for name in ("three", "hanging"):
        whole_s, start_s, tell_s, end_s = shares_of(directory, suites[name], f"share-{name}")
        spent_s = start_s + tell_s + end_s
        shares[name] = share = spent_s / (whole_s - spent_s)
        print(
            f"{name:8} adds {share:.2%} (bound {BOUND:.0%}) to {whole_s - spent_s:.1f} s: "
            f"{start_s:.2f} s to start them, {1e6 * tell_s / count:.0f} µs an entry, {end_s:.2f} s at the end",
            flush=True,
        )
    return shares


def compare(directory: Path, count: int, seconds: float, rounds: int, url: str) -> None:
    suites = make_suites(directory, count, seconds, url)
    taken: dict[str, list[float]] = {name: [] for name in suites}
    for number in range(rounds):
        for name, suite in suites.items():
            taken[name].append(session_s(directory, suite, f"{name}-{number}"))
    for name in ("three", "hanging") if rounds else ():
        ratios = [one / plain for one, plain in zip(taken[name], taken["none"], strict=True)]
        told = ", ".join(f"{one:.3f}" for one in ratios)
        median_s = statistics.median(taken["none"])
        print(
            f"{name:8} {statistics.median(ratios):.3f} times {median_s:.1f} s without sinks; rounds: {told}"
        )


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument(
        "--seconds", type=float, default=0.02, help="what each entry takes, besides its start"
    )
    parser.add_argument("--compare", type=int, default=0, metavar="ROUNDS")
    parser.add_argument(
        "--one", nargs=2, metavar=("SUITE", "SESSION"), help="one watched session, and no more"
    )
    args = parser.parse_args()
    if args.one:
        run_one(Path(args.one[0]), args.one[1])
        return 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        (directory / "scripts").mkdir()
        (directory / "scripts/fifty.py").write_text(SCRIPT)
        (directory / "hanging.py").write_text(HANGING)
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        shares = measure(directory, args.entries, args.seconds, url)
        compare(directory, args.entries, args.seconds, args.compare, url)
    figures = {f"{name}_sinks_overhead": (100 * share, "%") for name, share in shares.items()}
    publish(args, figures, num_entries=args.entries)
    return 0 if is_recorded(args) or max(shares.values()) <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
