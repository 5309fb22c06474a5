"""A disk that fills after so many pages, from none on: said in one line or a record, and `--resume` completes it."""

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from chaos_parts.ground import Ended, Tally, environment, run

CASES = 6
PAGE = os.sysconf("SC_PAGESIZE")
SCRIPT = """\
echo "$PACELINE_CASE" >> "$CHAOS_LOG"
echo some output
echo '{"value": 1}' > "$PACELINE_RESULTS_PATH/metrics.json"
"""


class SmallDisk:
    """A file system of 8 MiB, in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(path)]
        try:
            done = subprocess.run(mount, capture_output=True, text=True, check=False)
            self.refusal = done.stderr.strip() if done.returncode else ""
        except OSError as error:
            self.refusal = str(error)

    def leave(self, pages: int) -> None:
        """Empty it, then fill it up to so many pages."""
        for each in self.path.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        free = os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_frsize // PAGE
        with (self.path / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, (free - pages) * PAGE)

    def free(self) -> None:
        (self.path / "filler").unlink()

    def close(self) -> None:
        if not self.refusal:
            subprocess.run(["umount", "-l", str(self.path)], check=True)


def passed(session: Path) -> dict[str, bytes]:
    found = {path.parent.name: path.read_bytes() for path in session.glob("*/record.json")}
    return {case: data for case, data in found.items() if json.loads(data)["status"] == "passed"}


def one_round(tally: Tally, directory: Path, disk: SmallDisk, pages: int) -> None:
    disk.leave(pages)
    log = directory / "log"
    log.write_text("")
    env = environment(directory, CHAOS_LOG=str(log), TMPDIR=str(directory))
    session = disk.path / "results/s"
    repeat = ["disk", "--only", str(pages)]

    def go(*how: str) -> Ended:
        words = ["run", str(directory / "suite.yaml"), "--results-dir", str(disk.path / "results"), *how]
        ended = run([*words, "--db", str(disk.path / "history.db")], directory / "here", env)
        tally.took(ended)
        if ended.timed_out:
            tally.fail("hangs", f"with {pages} pages: {ended.output[-500:]}", repeat)
        elif ended.code not in (0, 1, 2) or "Traceback" in ended.output:
            tally.fail(
                "tracebacks", f"with {pages} pages, exit code {ended.code}: {ended.output[-2500:]}", repeat
            )
        return ended

    first = go("--session-name", "s")
    if first.code == 2 and not first.output.strip():
        tally.fail("stuck", f"with {pages} pages it ended without a word", repeat)
    before, runs = passed(session), Counter(log.read_text().split())
    disk.free()
    is_there = (session / "plan.json").exists()
    last = go("--resume", "s", "--rerun-failed") if is_there else go("--session-name", "s2")
    after = passed(session if is_there else disk.path / "results/s2")
    tally.rounds += 1
    if last.code not in (0, 1) or len(after) != CASES:
        tally.fail(
            "stuck", f"with {pages} pages, {len(after)} passed in the end: {last.output[-1000:]}", repeat
        )
    for case, data in before.items() if is_there else ():
        if after.get(case) != data:
            tally.fail("lost", f"with {pages} pages: the finished record of {case} is another one", repeat)
        elif Counter(log.read_text().split())[case] != runs[case]:
            tally.fail("twice", f"with {pages} pages: {case} had finished and ran again", repeat)


def disk(directory: Path, rounds: int, only: int | None) -> list[Tally]:
    """A session for each number of pages below 200 that are left; with fewer rounds, spread over them."""
    tally = Tally("disk", "full after n pages", "disks")
    tally.applies = ("lost", "twice", "stuck", "tracebacks", "hangs")
    small = SmallDisk(directory / "small")
    if small.refusal:
        tally.not_run = f"a small tmpfs cannot be mounted: {small.refusal}"
        return [tally]
    try:
        (directory / "here").mkdir()
        (directory / "step.sh").write_text(SCRIPT)
        entries = "".join(
            f"  - {{name: c{number}, command: [sh, {directory}/step.sh]}}\n" for number in range(CASES)
        )
        (directory / "suite.yaml").write_text(f"entries:\n{entries}")
        last = max(rounds, 200)
        for pages in range(0, last, max(1, last // rounds)) if only is None else [only]:
            one_round(tally, directory, small, pages)
    finally:
        small.close()
    return [tally]
