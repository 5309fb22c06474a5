"""How often `paceline check` is right, on real runs: pull requests with a planted loss, and with none.

    python benchmarks/check_accuracy.py --checks 20         twenty of each
    python benchmarks/check_accuracy.py --checks 5 --loss 5

The benchmark is a loop of Python that takes some milliseconds of CPU; its script takes the best of twenty, as timeit
does, so that a whole run takes half a second. Each check is a new pull request: another commit, another seed, other
orders. What is planted is a share of the loop's rounds.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import make_parser, publish
from measuring import environment

LIBRARY = """\
ROUNDS = {rounds}
def work():
    total = 0
    for number in range(ROUNDS):
        total += number * number % 7
    return total
"""
SCRIPT = """\
import time
import library
from paceline import emit
def once():
    start = time.process_time()
    library.work()
    return time.process_time() - start
emit.metrics({"work_s": min(once() for _ in range(20))})
"""
ROUNDS = 200_000


def git(repo: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, "-C", str(repo), *words], check=True)


def pull_request(repo: Path, number: int, share: float) -> None:
    """A branch that makes the loop longer by a share, and tidies up."""
    git(repo, "checkout", "--quiet", "-B", f"feature-{number}-{share}", "main")
    (repo / "library.py").write_text(LIBRARY.format(rounds=round(ROUNDS * (1 + share))))
    (repo / "notes.txt").write_text(f"{number}\n")
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", f"Feature {number}")


def check(place: Path, time_limit: str, limit: str) -> dict[str, object]:
    words = (
        "check",
        "library/paceline.yaml",
        "--base",
        "main",
        "--metric",
        "work_s",
        "--no-explain",
        "--json",
    )
    done = subprocess.run(
        [sys.executable, "-m", "paceline", *words, "--time", time_limit, "--fail-above", limit],
        cwd=place,
        env={**environment(), "PACELINE_CACHE": str(place / "cache")},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return {**json.loads(done.stdout), "code": done.returncode}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--checks", type=int, default=20)
    parser.add_argument("--loss", type=float, default=10.0, help="percent")
    parser.add_argument("--fail-above", default="5%")
    parser.add_argument("--time", default="3m", help="of each check")
    options = parser.parse_args()
    shares = {"none": 0.0, "planted": options.loss / 100}
    failed = dict.fromkeys(shares, 0)
    runs: dict[str, list[int]] = {name: [] for name in shares}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        repo = place / "library"
        repo.mkdir()
        git(repo, "init", "--quiet", "--initial-branch=main")
        (repo / "library.py").write_text(LIBRARY.format(rounds=ROUNDS))
        (repo / "bench.py").write_text(SCRIPT)
        (repo / "paceline.yaml").write_text("entries:\n  - {name: work, script: bench.py}\n")
        git(repo, "add", ".")
        git(repo, "commit", "--quiet", "-m", "Begin")
        for number in range(options.checks):
            for name, share in shares.items():
                pull_request(repo, number, share)
                found = check(place, options.time, options.fail_above)
                failed[name] += found["code"] == 1
                runs[name].append(int(str(found["runs"])))
                print(
                    f"{number + 1}/{options.checks} {name}: {found['verdict']} ({found['runs']} runs)",
                    flush=True,
                )
    count = options.checks
    print(
        f"\nloss of {options.loss:g} %, limit {options.fail_above}; load {os.getloadavg()[0]:.1f}, "
        f"{time.monotonic() - began:.0f} s"
    )
    print("| pull requests | failed | median of runs |\n|---|---:|---:|")
    for name in shares:
        print(f"| {name} | {failed[name]} of {count} | {sorted(runs[name])[count // 2]} |")
    figures = {
        "planted_loss_accuracy": (failed["planted"] / count, ""),
        "no_loss_accuracy": (1 - failed["none"] / count, ""),
    }
    publish(options, figures, num_checks=count)


if __name__ == "__main__":
    main()
