"""What all parts of chaos.py stand on: commands in forks of a process that has everything loaded, and their results.

A fork is the program itself but for its start: the runner's id, which a process makes when it is loaded, is made anew.
This process adopts what a killed runner leaves behind, so that nothing that was started can hide.
"""

import ctypes
import os
import resource
import shlex
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from secrets import token_hex

Action = Sequence[str] | Callable[[], object]
COLUMNS = ("lost", "twice", "orphans", "stuck", "tracebacks", "outside", "executed", "escapes", "hangs")
_PR_SET_CHILD_SUBREAPER = 36
_LOADED = (
    *("numpy", "psutil", "pydantic", "rich.table", "yaml"),
    *("paceline.cli.run", "paceline.cli.plan", "paceline.cli.show", "paceline.cli.list", "paceline.cli.send"),
    *("paceline.cli.history", "paceline.cli.compare", "paceline.cli.dashboard", "paceline.cli.regressions"),
    *("paceline.session.session", "paceline.history.store.store", "paceline.history.store.migrate"),
    *("paceline.dashboard.build", "paceline.findings.detection", "paceline.findings.comparing"),
    *("paceline.report.terminal", "paceline.sinks.dispatch"),
)


@dataclass
class Tally:
    """One line of the table: what was done, and how often each thing went wrong. None: does not apply here."""

    part: str
    what: str
    unit: str
    rounds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    applies: Sequence[str] = ()
    longest_s: float = 0.0
    peak_mib: float = 0.0
    not_run: str = ""
    detail: str = ""

    @property
    def ok(self) -> bool:
        return not sum(self.counts.values())

    def fail(self, column: str, what: str, repeat: Sequence[str]) -> None:
        """Count something that went wrong, and say at once how to see it again."""
        self.counts[column] += 1
        command = shlex.join(["python", "benchmarks/chaos.py", *repeat])
        print(f"FAILED {self.part} ({column}): {what}\n  repeat: {command}", flush=True)

    def took(self, ended: "Ended") -> None:
        self.longest_s = max(self.longest_s, ended.seconds)
        self.peak_mib = max(self.peak_mib, ended.peak_mib)


@dataclass(frozen=True)
class Ended:
    """A command that is over. `code` is None if it was killed; `timed_out` if that was for its deadline."""

    code: int | None
    output: str
    seconds: float
    peak_mib: float
    timed_out: bool = False


def show(tallies: Sequence[Tally]) -> None:
    head = f"| part | {' | '.join(['rounds', *COLUMNS, 'longest', 'peak MiB'])} | |"
    print("\n" + head + "\n" + "|---" * (len(COLUMNS) + 5) + "|")
    for each in tallies:
        counts = [str(each.counts[column]) if column in each.applies else "" for column in COLUMNS]
        longest = f"{each.longest_s:.1f} s" if each.longest_s else ""
        peak = f"{each.peak_mib:.0f}" if each.peak_mib else ""
        rounds = "not run" if each.not_run else f"{each.rounds:,} {each.unit}"
        cells = [f"{each.part}: {each.what}", rounds, *counts, longest, peak, each.not_run or each.detail]
        print(f"| {' | '.join(cells)} |")


def load() -> None:
    """Import what commands need, once, and become the parent of all that loses its own."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # who has threads should not fork
    for name in _LOADED:
        import_module(name)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def start(words: Action, cwd: Path, env: Mapping[str, str], log: Path, *, limits: bool = False) -> int:
    """The process of `paceline WORDS`, or of a function; what it prints goes to a file."""
    pid = os.fork()
    if pid:
        return pid
    code = 70  # no command ends so
    try:
        _become(cwd, env, log, limits)
        code = 0
        words() if callable(words) else command(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:  # noqa: BLE001 - a traceback is what the rounds look for
        code = 70
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)


def command(words: Sequence[str]) -> None:
    """What the program `paceline` does."""
    from paceline.cli import main

    sys.argv = ["paceline", *words]
    main()


def _become(cwd: Path, env: Mapping[str, str], log: Path, limits: bool) -> None:
    """Make the fork look like a program that was just started."""
    os.setsid()
    os.chdir(cwd)
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, fd), (2, fd)):
        os.dup2(source, target)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))  # as Python does when it starts
    runner = token_hex(8)
    for name, module in list(sys.modules.items()):
        if name.startswith("paceline.") and hasattr(module, "RUNNER"):
            module.RUNNER = runner
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if limits:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30), size + (1 << 30)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, 256 << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def finish(pid: int, log: Path, kill_after_s: float, *, deadline: bool = False) -> Ended:
    """Wait for a process, and `kill -9` it, and it alone, once its time is over."""
    started, timed_out = time.monotonic(), False
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        taken_s = time.monotonic() - started
        if done:
            break
        if taken_s >= kill_after_s:
            os.kill(pid, signal.SIGKILL)
            timed_out = deadline
            _, status, usage = os.wait4(pid, 0)
            break
        time.sleep(min(0.004, max(0.0, kill_after_s - taken_s)))
    code = os.waitstatus_to_exitcode(status)
    output = log.read_bytes().decode("utf-8", "replace") if log.exists() else ""
    killed = code == -signal.SIGKILL
    return Ended(None if killed else code, output, taken_s, usage.ru_maxrss / 1024, timed_out)


def run(
    words: Action, cwd: Path, env: Mapping[str, str], *, within_s: float = 120.0, limits: bool = False
) -> Ended:
    """A whole command, whose time is bounded, and its memory if asked for."""
    log = cwd.parent / f"{cwd.name}.log"
    return finish(start(words, cwd, env, log, limits=limits), log, within_s, deadline=True)


def adopted(mine: Sequence[int] = ()) -> dict[int, str]:
    """The processes, with their start times, that lost their parent and live; those that ended are collected."""
    found = {}
    for pid in map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()):
        if pid in mine:
            continue
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if fields[0] == "Z":
                os.waitpid(pid, os.WNOHANG)
            else:
                found[pid] = fields[19]
    return found


def still_there(before: Mapping[int, str], mine: Sequence[int], within_s: float = 10.0) -> list[int]:
    """Which of the processes left by an earlier command live on; they get a moment to end."""
    end = time.monotonic() + within_s
    while True:
        now = adopted(mine)
        left = [pid for pid, started in before.items() if now.get(pid) == started]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.02)


def end_all(mine: Sequence[int] = ()) -> None:
    """End what a failed round has left, so that it does not count against the next."""
    for pid in adopted(mine):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def environment(directory: Path, **more: str) -> dict[str, str]:
    """The variables of a command: few of our own, and a home in a directory that is thrown away."""
    ours = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
    home = directory / "home"
    home.mkdir(parents=True, exist_ok=True)
    return {**ours, "HOME": str(home), "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1", **more}
