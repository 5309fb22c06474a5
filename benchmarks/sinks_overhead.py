"""What sinks cost a session, as ratios measured in one run.

    python benchmarks/sinks_overhead.py                1,000 entries, 50 metrics each
    python benchmarks/sinks_overhead.py --entries 100  a first look

Sessions without sinks, with three of them, and with three of which one hangs, are run in turn, so that a change of
load meets all of them; each round gives a ratio, and the median counts. The time is that of the whole session, the
wait at its end included.
"""

import argparse
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

BOUND = 1.03
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


def session_s(directory: Path, suite: Path, name: str) -> float:
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPATH"] = str(directory)
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
    done = subprocess.run(command, check=False, cwd=directory, env=environ, capture_output=True, text=True)
    taken_s = time.perf_counter() - started_s
    if done.returncode:
        raise SystemExit(f"the measured session failed:\n{done.stdout}{done.stderr}")
    return taken_s


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


def measure(directory: Path, count: int, seconds: float, rounds: int, url: str) -> bool:
    suites = make_suites(directory, count, seconds, url)
    warm = make_suites(directory, 3, seconds, url)
    for name, suite in warm.items():
        session_s(directory, suite, f"warm-{name}")
    suites = make_suites(directory, count, seconds, url)
    taken: dict[str, list[float]] = {name: [] for name in suites}
    for number in range(rounds):
        for name, suite in suites.items():
            taken[name].append(session_s(directory, suite, f"{name}-{number}"))
    met = True
    for name in ("three", "hanging"):
        ratios = [one / plain for one, plain in zip(taken[name], taken["none"], strict=True)]
        ratio = statistics.median(ratios)
        met = met and ratio <= BOUND
        spread = ", ".join(f"{one:.3f}" for one in ratios)
        print(
            f"{name:8} {ratio:.3f} (bound {BOUND}) of {statistics.median(taken['none']):.1f} s; rounds: {spread}"
        )
    return met


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument(
        "--seconds", type=float, default=0.02, help="what each entry takes, besides its start"
    )
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        (directory / "scripts").mkdir()
        (directory / "scripts/fifty.py").write_text(SCRIPT)
        (directory / "hanging.py").write_text(HANGING)
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        return 0 if measure(directory, args.entries, args.seconds, args.rounds, url) else 1


if __name__ == "__main__":
    sys.exit(main())
