"""A bisection as it goes, a line a run."""

from pathlib import Path
from typing import TextIO

import click

from paceline.experiments.bisect.bisection import BisectTask
from paceline.experiments.bisect.page import bisection_lines
from paceline.experiments.bisect.result import BisectionResult, Candidate
from paceline.experiments.bisect.searching import Run, Search
from paceline.report.format import spelled_for, visible

_LONGEST_TITLE = 50


class Progress:
    """Prints to a stream, whose reader may go away without ending the search."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self._is_first = True

    def begin(self, task: BisectTask) -> None:
        good, bad = task.good.candidate, task.states[-1].candidate
        count = len(task.states)
        self._say(
            f"Searching {count} candidate{'s' if count > 1 else ''} from {good.label} to {bad.label} "
            f"for what changed {task.metric} of {task.case.name}"
        )
        self._say(f"Runs are kept in {task.out}")

    def ran(self, run: Run, search: Search, candidate: Candidate) -> None:
        """One run: what it gave, and who is suspected now."""
        before = len(search.runs) - 1
        if self._is_first and before:
            self._say(f"Going on after {before} run{'s' if before > 1 else ''} of before")
        self._is_first = False
        end = "good end" if run.index < 0 else "bad end" if run.index == search.last else ""
        gave = search.shown(run.value) if run.value is not None else run.reason
        guess = search.guess
        likely = ""
        if guess is not None:
            likely = f"likely {search.label(guess[0])} {guess[1] * 100:.0f} %"
        name = visible(candidate.title)[:_LONGEST_TITLE]
        words = (f"[{len(search.runs)}] {candidate.label}", visible(gave), likely, end or name)
        self._say("  ".join(word for word in words if word))

    def end(self, result: BisectionResult, out: Path) -> None:
        self._say("")
        for line in bisection_lines(result):
            self._say(line)
        self._say("")
        self._say(f"Report in {out / 'bisect.html'} (also bisect.md and bisect.json)")

    def _say(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            click.echo(spelled_for(getattr(self._stream, "encoding", None), text), file=self._stream)
        except OSError:
            self._stream = None
