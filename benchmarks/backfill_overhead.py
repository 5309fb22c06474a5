"""What a revision of a backfill costs besides its build and its benchmark.

    python benchmarks/backfill_overhead.py                 40 revisions
    python benchmarks/backfill_overhead.py --revisions 10  a first look

A repository whose build and whose benchmark do nothing but start is measured at each of its revisions, and again when
all are measured already. Before and after, the same commands run by themselves; what is left is ours: checkout, plan,
session, record, history.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import Row, finish, make_parser
from measuring import environment

BOUND_S = 1.0
SCRIPT = """\
import json, os, sys
where = sys.argv[sys.argv.index("--benchmark-results-path") + 1]
os.makedirs(where, exist_ok=True)
with open(where + "/metrics.json", "w") as file:
    json.dump({"work_s": 1.0}, file)
"""
SUITE = """\
entries:
  - {name: work, script: work.py, env: {MEASURED: "{repo_dir}"}}
"""


def make_repository(path: Path, count: int) -> None:
    path.mkdir()
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "init", "--quiet", path], check=True)
    (path / "build.sh").write_text("exit 0\n")
    for number in range(count):
        (path / "step.txt").write_text(f"{number}\n")
        subprocess.run(["git", "-C", path, "add", "."], check=True)
        subprocess.run(["git", "-C", path, *who, "commit", "--quiet", "-m", f"Step {number}"], check=True)


def bare(place: Path, count: int) -> float:
    """Seconds that building and running take for a revision, without us."""
    began = time.perf_counter()
    for _ in range(count):
        subprocess.run(["sh", "build.sh"], cwd=place / "library", check=True)
        words = [sys.executable, "../work.py", "--benchmark-results-path", str(place / "bare")]
        subprocess.run(words, cwd=place / "library", check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) / count


def backfill(place: Path, count: int) -> tuple[float, dict[str, object]]:
    """Seconds of one call, and what it says."""
    words = (
        "run",
        "suite.yaml",
        "--repo",
        "library",
        "--last",
        str(count),
        "--setup",
        "sh build.sh",
        "--json",
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "paceline", *words],
        cwd=place,
        env={
            **environment(),
            "PACELINE_CACHE": str(place / "cache"),
            "PACELINE_DB": str(place / "history.db"),
        },
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - began, json.loads(done.stdout)


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--revisions", type=int, default=40)
    args = parser.parse_args()
    count = args.revisions
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "work.py").write_text(SCRIPT)
        (place / "suite.yaml").write_text(SUITE)
        make_repository(place / "library", count)
        half = max(3, count // 4)
        before_s = bare(place, half)
        took_s, first = backfill(place, count)
        after_s = bare(place, half)
        again_s, second = backfill(place, count)
        start_s, _ = backfill(place, 1)
    assert len(first["revisions"]) == count and second["already"] == count  # type: ignore[arg-type]
    bare_s = (before_s + after_s) / 2
    overhead_s = took_s / count - bare_s
    load = os.getloadavg()[0]
    rows = [
        Row(
            what="a revision besides its build and run",
            metric="revision_overhead_s",
            figure=overhead_s,
            bound=BOUND_S,
            unit="s",
            detail=f"{took_s / count:.2f} s a revision, {bare_s:.2f} s bare; load {load:.1f}",
        ),
        Row(
            what="the same as a multiple of the bare run",
            metric="revision_overhead",
            figure=overhead_s / bare_s,
            bound=20.0,
            unit="",
            detail="both in this run, on the same machine",
        ),
        Row(
            what="a revision that is measured already",
            metric="known_revision_overhead_s",
            figure=max(0.0, again_s - start_s) / (count - 1),
            bound=BOUND_S / 4,
            unit="s",
            detail=f"{again_s:.2f} s for {count}, {start_s:.2f} s for one",
        ),
    ]
    return finish(args, rows, num_revisions=count)


if __name__ == "__main__":
    sys.exit(main())
