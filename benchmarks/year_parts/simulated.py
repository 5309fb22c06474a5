"""Trials that cost nothing: what builds and runs a case in an experiment, with values drawn from the truth instead.

Whatever of `paceline.experiments` runs a case does so by `trials.run_trial`, on what a builder built: with both
replaced everything else is real.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from year_parts.world import BRANCH_EFFECT, World

from paceline.experiments import trials
from paceline.experiments.bisect import steps
from paceline.experiments.builds.build import Builder, Built, Candidate, Worktree
from paceline.experiments.builds.environments import Venv
from paceline.model import Case, Measurement, Record, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBuilder(Builder):
    """Builds nothing: a candidate's revision and packages are all that a simulated run needs to know."""

    def build(self, candidate: Candidate) -> Built:
        tree = Worktree(path=self.repo or Path(), revision=candidate.revision)
        venv = Venv(python=Path("python"), key="simulated", packages=candidate.packages)
        return Built(worktree=tree, venv=venv if candidate.packages else None)


class Trials:
    """Runs of cases on the machine and in the night that it was set to; counts them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = np.random.default_rng(world.seed + 1)
        self._tracks: dict[tuple[str, int], list[Any]] = {}
        for track in world.tracks:
            self._tracks.setdefault((track.case, track.machine), []).append(track)
        self._places = {name: place for place, name in enumerate(world.line.commits)}
        self._branches = {name: branch.base for branch in world.line.branches for name in branch.commits}
        self.night, self.machine, self.count = 0, 0, 0

    def place(self, revision: str) -> tuple[int, float]:
        """Where on the line a revision is or left it, and what its branch does to every level."""
        if revision in self._branches:
            return self._branches[revision], 1 + BRANCH_EFFECT
        return self._places.get(revision, self._world.line.newest[self.night]), 1.0

    def run(self, setting: trials.TrialSetting, number: int) -> tuple[Record, ...]:
        """In place of `run_trial`: the records of the selected cases."""
        self.count += 1
        world = self._world
        commit, factor = self.place(setting.worktree.revision if setting.worktree else "")
        versions = dict(world.versions[self.night])
        for pin in setting.venv.packages if setting.venv else ():
            package, _, version = pin.partition("==")
            versions[package] = int(version.partition(".")[0])
        records = []
        for name in setting.only:
            metrics = {}
            for track in self._tracks[name, self.machine]:
                level = factor * world.level(track, commit, versions)
                value = world.measured_again(track, self.night, level, self._rng)
                metrics[track.metric] = Measurement(
                    value=value, unit=track.unit, direction=track.direction, samples=(value,)
                )
            case = Case(name=name, entry=name, key=name, variant=setting.name)
            records.append(
                Record(
                    session=f"{setting.name}-{number}",
                    case=case,
                    attempt=1,
                    status=Status.PASSED,
                    metrics=metrics,
                )
            )
        return tuple(records)


def every_binding(package: str, name: str, original: object) -> Iterator[Any]:
    """The modules of a package that know something by a name of their own."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith(package) and getattr(module, name, None) is original:
            yield module


@contextmanager
def simulated_trials(run: Callable[..., Any]) -> Iterator[None]:
    """Within it no experiment runs anything, and every version of a package can be had."""
    with ExitStack() as stack:
        for module in every_binding("paceline.experiments", "run_trial", trials.run_trial):
            stack.enter_context(patch.object(module, "run_trial", run))
        stack.enter_context(patch.object(steps, "available_versions", _versions))
        yield


def _versions(package: str, options: object = ()) -> tuple[str, ...]:
    del package, options
    return tuple(f"{number}.0" for number in range(1, 40))
