"""Windows of known manifests, on every executor.

The first manifest is made here from a seed; what must come of it was counted by the literal reference. The second is
the sample of the published pipeline, whose counts are public; it is not ours to keep here. `ALM_SAMPLE` names it.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import fsum
from pathlib import Path

import pytest

from paceline.curate import LocalExecutor, Pipeline, RayActorExecutor, RayDataExecutor, XennaExecutor
from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage, ALMManifestReader, ALMTallyStage
from paceline.curate.pipeline import Executor

MAKE = Path(__file__).parents[2] / "benchmarks" / "data" / "make_alm_manifest.py"
SAMPLE = os.environ.get("ALM_SAMPLE", "")
MAKERS: dict[str, Callable[[], Executor]] = {
    "local-here": lambda: LocalExecutor(workers=1),
    "local": LocalExecutor,
    "ray_actors": RayActorExecutor,
    "ray_data": RayDataExecutor,
    "xenna-streaming": XennaExecutor,
    "xenna-batch": lambda: XennaExecutor(mode="batch"),
}


@dataclass(frozen=True, slots=True)
class Counts:
    entries: int
    builder_windows: int
    filtered_windows: int
    truncation_events: int
    filtered_duration_s: float

    def times(self, factor: int) -> "Counts":
        whole = (self.entries, self.builder_windows, self.filtered_windows, self.truncation_events)
        return Counts(*(factor * count for count in whole), factor * self.filtered_duration_s)


PLAIN = Counts(5, 146, 23, 62, 2815.1)
HARD = Counts(40, 729, 136, 302, 16692.28)
PUBLISHED = Counts(5, 181, 25, 92, 3035.5)


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name.startswith("local") else pytest.mark.ray) for name in MAKERS]
)
def executor(request: pytest.FixtureRequest) -> Executor:
    if not request.param.startswith("local"):
        request.getfixturevalue("cluster")
    return MAKERS[request.param]()


def make(path: Path, counts: Counts, *words: str) -> Path:
    command = [sys.executable, str(MAKE), "--output", str(path), "--entries", str(counts.entries), *words]
    subprocess.run(command, check=True)
    return path


def count(
    manifest: Path, executor: Executor, *, repeat_factor: int = 1, range_bytes: int = 1 << 20
) -> Counts:
    reader = ALMManifestReader(str(manifest), repeat_factor=repeat_factor, range_bytes=range_bytes)
    stages = [reader, ALMDataBuilderStage(), ALMDataOverlapStage(overlap_percentage=50), ALMTallyStage()]
    result = Pipeline("alm", stages).run(executor)
    assert not result.rejects

    def total(name: str) -> int:
        return sum(task.data[name] for task in result)

    duration_s = fsum(task.data["filtered_duration_s"] for task in result)
    whole = ("entries", "builder_windows", "filtered_windows", "truncation_events")
    return Counts(*map(total, whole), pytest.approx(duration_s, abs=1e-6))


def test_made_manifests_give_their_known_windows(executor: Executor, tmp_path: Path) -> None:
    plain = make(tmp_path / "plain.jsonl", PLAIN)
    assert count(plain, executor, repeat_factor=40, range_bytes=100_000) == PLAIN.times(40)
    hard = make(tmp_path / "hard.jsonl", HARD, "--hard")
    assert count(hard, executor, range_bytes=50_000) == HARD


@pytest.mark.skipif(not SAMPLE, reason="ALM_SAMPLE does not name the published sample")
def test_the_published_sample_gives_its_published_windows(executor: Executor) -> None:
    assert count(Path(SAMPLE), executor, repeat_factor=40) == PUBLISHED.times(40)


@pytest.mark.skipif(not SAMPLE, reason="ALM_SAMPLE does not name the published sample")
def test_the_published_benchmark_gives_its_published_windows() -> None:
    assert count(Path(SAMPLE), LocalExecutor(), repeat_factor=2000) == PUBLISHED.times(2000)
