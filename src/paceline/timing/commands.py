"""Commands, run again and again, in turns: a command in each turn that has the largest share of its runs before it.

The process starter is that of `paceline run`: a command starts from a process that has imported next to nothing, and is
ended with all that it started.
"""

import os
import random
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Literal, Protocol

from paceline.errors import PacelineError
from paceline.run.collectors import SystemCollector
from paceline.run.local.process import Command, Exit, Warden
from paceline.timing.results import Result
from paceline.timing.targets import Target

FOREVER_S = 365 * 86_400.0
FIRST_LOOK_S = 1.0
"""Shorter runs are left alone: their memory is what the kernel says of their largest process."""
SHELL_RUNS_BEFORE = 20
SHELL_RUNS = 100
LARGEST_OFFSET = 4096
"""Bytes by which the environment of a run varies, so that the layout of memory does: a program may be fast by luck."""

Where = Literal["null", "pipe", "inherit"]
PLACES: tuple[Where, ...] = ("null", "pipe", "inherit")


class CommandFailed(PacelineError):
    """A command that is timed, or one around it, did not succeed."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How often commands run: for `max_time_s` each, within these bounds; or `exactly` so often."""

    warmup: int = 0
    exactly: int | None = None
    least: int = 10
    most: int | None = None
    max_time_s: float = 3.0

    def wanted(self, done: int, one_s: float) -> int:
        """How many runs a command gets of which one takes so long, with what comes around it."""
        if self.exactly is not None:
            return self.exactly
        by_time = int(self.max_time_s / one_s) if one_s > 0 else self.least
        return max(done, min(max(self.least, by_time), self.most or by_time + self.least))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a command is run: through which shell (None: without), where its output goes and its input comes from."""

    shell: tuple[str, ...] | None = ("/bin/sh",)
    output: Where | Path = "null"
    input: Path | None = None
    ignores_failure: bool = False
    in_turns: bool = True


class View(Protocol):
    """Who watches: what is being done, and how far it is."""

    def doing(self, text: str) -> None: ...
    def measured(self) -> None: ...


def time_commands(results: Sequence[Result], runs: Runs, manner: Manner, view: View) -> None:
    """Fill the results, one for each command; whatever ends this early, they hold what was measured by then."""
    with Warden() as warden, _Timer(warden, manner) as timer:
        groups = [list(results)] if manner.in_turns else [[one] for one in results]
        for group in groups:
            _Group(group, runs, manner, timer, view).run()


class _Group:
    """Commands that take turns."""

    def __init__(
        self, group: Sequence[Result], runs: Runs, manner: Manner, timer: "_Timer", view: View
    ) -> None:
        self._group = group
        self._runs = runs
        self._manner = manner
        self._timer = timer
        self._view = view
        self._order = random.Random(len(group))  # noqa: S311 - the same order every time

    def run(self) -> None:
        targets = [one.target for one in self._group]
        try:
            for text in dict.fromkeys(target.setup for target in targets if target.setup):
                self._view.doing(f"set-up: {text}")
                self._timer.around("setup", text)
            self._warm_up()
            if self._manner.shell is not None:
                self._view.doing("measuring the start of the shell")
                for _ in range(SHELL_RUNS_BEFORE):
                    self._timer.time_shell()
            self._measure()
        finally:
            for text in dict.fromkeys(target.cleanup for target in targets if target.cleanup):
                self._timer.around("cleanup", text)

    def _warm_up(self) -> None:
        for turn in range(self._runs.warmup):
            self._view.doing(f"warm-up {turn + 1} of {self._runs.warmup}")
            for one in self._group:
                self._timer.run(one, keeps=False)

    def _measure(self) -> None:
        self._view.doing("")
        spent_s = [0.0] * len(self._group)
        while (least := min(one.share for one in self._group)) < 1:
            behind = [place for place, one in enumerate(self._group) if one.share <= least]
            place = self._order.choice(behind)
            result = self._group[place]
            spent_s[place] += self._timer.run(result)
            done = len(result.starts)
            result.share = done / self._runs.wanted(done, spent_s[place] / done)
            self._timer.time_shell_now_and_then()
            for one in self._group:
                self._timer.take_off_shell(one)
            self._view.measured()


class _Timer:
    """Runs one command at a time, and what comes around it."""

    def __init__(self, warden: Warden, manner: Manner) -> None:
        self._warden = warden
        self._manner = manner
        self._env = dict(os.environ)
        self._cwd = str(Path.cwd())
        self._shell_runs: list[Exit] = []
        self._offsets = random.Random(7)  # noqa: S311 - a length is nothing secret
        self._stack = ExitStack()

    def __enter__(self) -> "_Timer":
        self._null = os.open(os.devnull, os.O_RDWR)
        self._stack.callback(os.close, self._null)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, result: Result, *, keeps: bool = True) -> float:
        """One run with what comes before and after it; hands back how long all of that took."""
        target = result.target
        spent_s = self.around("prepare", target.prepare) if target.prepare else 0.0
        iteration = {"PACELINE_ITERATION": str(len(result.starts)) if keeps else "warmup"}
        with self._streams() as streams, SystemCollector() as system:
            ended = self._start(self._argv(target.text), iteration, streams)
        self._check(target, ended)
        if keeps:
            usage = ended.usage
            result.starts.append([usage.wall_s])
            result.user_s.append(usage.cpu_user_s)
            result.system_s.append(usage.cpu_system_s)
            result.peak_bytes.append(usage.peak_memory_bytes)
            result.exit_codes.append(ended.returncode)
            result.conditions.append(system.conditions(usage))
        if ended.leftovers:
            result.notes.append("it leaves processes in the background, which were ended after each run")
        if target.conclude:
            spent_s += self.around("conclude", target.conclude)
        return spent_s + ended.usage.wall_s

    def around(self, kind: str, text: str) -> float:
        """Run a command that is not timed, and must succeed; hands back how long it took."""
        ended = self._start(self._argv(text), {}, (self._null, self._null))
        if ended.returncode != 0:
            raise CommandFailed(
                f"the --{kind} command failed: {text}: {ended.message or 'it did not end by itself'}"
            )
        return ended.usage.wall_s

    def time_shell(self) -> None:
        shell = self._manner.shell or ()
        ended = self._start((*shell, "-c", ""), {}, (self._null, self._null))
        if ended.returncode != 0:
            raise PacelineError(
                f"cannot time the start of the shell {shlex.join(shell)}: {ended.message}; use -N"
            )
        self._shell_runs.append(ended)

    def time_shell_now_and_then(self) -> None:
        """Once more, next to a run, up to a number: a machine gets faster or slower on the way."""
        if self._manner.shell is not None and len(self._shell_runs) < SHELL_RUNS:
            self.time_shell()

    def take_off_shell(self, result: Result) -> None:
        """Tell a result what the shell takes."""
        if self._shell_runs:
            used = [one.usage for one in self._shell_runs]
            result.shell_s = median(one.wall_s for one in used)
            result.shell_user_s = fmean(one.cpu_user_s for one in used)
            result.shell_system_s = fmean(one.cpu_system_s for one in used)

    def _argv(self, text: str) -> tuple[str, ...]:
        if self._manner.shell is not None:
            return (*self._manner.shell, "-c", text)
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise PacelineError(f"cannot take {text!r} apart into words: {error}") from error
        if not words:
            raise PacelineError("a command is empty; give a program to run")
        return words

    def _start(self, argv: tuple[str, ...], env: Mapping[str, str], streams: tuple[int, ...]) -> Exit:
        offset = "x" * self._offsets.randrange(LARGEST_OFFSET)
        command = Command(
            argv=argv,
            env={**self._env, **env, "PACELINE_OFFSET": offset},
            cwd=self._cwd,
            timeout_s=FOREVER_S,
            first_look_s=FIRST_LOOK_S,
        )
        ended = self._warden.run(command, _nobody_listens, streams=streams)
        if ended.reason == "launch_error":
            raise PacelineError(ended.message)
        if ended.reason != "exited":
            raise CommandFailed(f"{shlex.join(argv)}: {ended.message}")
        return ended

    @contextmanager
    def _streams(self) -> Iterator[tuple[int, ...]]:
        """Where a run's output goes, opened anew for each run; none stand for pipes."""
        with ExitStack() as stack:

            def opened(path: Path, flags: int) -> int:
                try:
                    fd = os.open(path, flags, 0o666)
                except OSError as error:
                    raise PacelineError(f"{path}: {error.strerror}") from error
                stack.callback(os.close, fd)
                return fd

            match self._manner.output:
                case "null":
                    streams: tuple[int, ...] = (self._null, self._null)
                case "inherit":
                    streams = (1, 2)
                case "pipe":
                    streams = ()
                case path:
                    fd = opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                    streams = (fd, self._null)
            if self._manner.input is not None:
                streams = (*(streams or (self._null, self._null)), opened(self._manner.input, os.O_RDONLY))
            yield streams

    def _check(self, target: Target, ended: Exit) -> None:
        if ended.returncode and not self._manner.ignores_failure:
            raise CommandFailed(
                f"{target.name} failed: {ended.message}. -i times it all the same, --show-output shows what it prints"
            )


def _nobody_listens(_stream: str, _chunk: bytes) -> None:
    """What is read from a pipe is thrown away."""
