"""A/B tests, bisections and nights where nothing changed: all of the real code but the runs themselves.

What is simulated is `experiments.trials.run_trial`: a case gives a number that is drawn, and nothing is started.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from null_rates import Row

from paceline.config.sections import Nightly
from paceline.experiments import trials
from paceline.experiments.ab.ab_test import ABRequest, run_ab
from paceline.experiments.bisect.bisection import BisectTask, case_of, run_bisection
from paceline.experiments.bisect.report import BisectionResult, Question
from paceline.experiments.bisect.search import Limits
from paceline.experiments.builds.build import Builder, Candidate
from paceline.experiments.nightly.investigation import Night, investigate
from paceline.experiments.nightly.suspicions import Place, Point, SeriesKey, Suspected
from paceline.history import open_store
from paceline.judge import suspect_tail
from paceline.model import Case, Measurement, Record, Status
from paceline.session.request import Request

METRIC = "work_s"
SUITE = "entries:\n  - {name: work, command: 'true'}\n"
AB = f"""{SUITE}
arms: {{old: {{}}, new: {{}}}}
metrics: {{work_s: lower, side_s: lower}}
budget: {{runs: 84}}
warmup: 0
"""
NIGHTS = 30
Draw = Callable[[], float]
Family = Callable[[np.random.Generator], Draw]


def normal(random: np.random.Generator) -> Draw:
    return random.normal


def spiky(random: np.random.Generator) -> Draw:
    return lambda: random.normal() + (random.random() < 0.05) * random.uniform(8, 25)


def skewed(random: np.random.Generator) -> Draw:
    return random.exponential


def student(random: np.random.Generator) -> Draw:
    return lambda: random.standard_t(3) / math.sqrt(3)


def two_modes(random: np.random.Generator) -> Draw:
    return lambda: 0.55 * random.normal() + 1.67 * (random.random() < 0.5)


def correlated(random: np.random.Generator) -> Draw:
    last = random.normal()

    def step() -> float:
        nonlocal last
        last = 0.5 * last + math.sqrt(0.75) * random.normal()
        return last

    return step


FAMILIES: dict[str, Family] = {
    "normal": normal,
    "spiky": spiky,
    "skewed": skewed,
    "Student t3": student,
    "two modes": two_modes,
    "correlated": correlated,
}
"""Noise with a standard deviation of 1, but for its spikes and tails; neighbours are runs one after the other."""


Measure = Callable[[trials.TrialSetting, str], float]


@contextmanager
def simulated(measure: Measure) -> Iterator[None]:
    """In place of each trial, numbers for the cases it would run, by the setting and the metric."""
    real = trials.run_trial
    cases: dict[str, tuple[Case, ...]] = {}

    def run_trial(setting: trials.TrialSetting, number: int) -> tuple[Record, ...]:
        if setting.name not in cases:
            cases[setting.name] = trials.plan_trial(setting, 1).cases
        return tuple(
            Record(
                session=setting.name,
                case=case,
                attempt=1,
                status=Status.PASSED,
                metrics={
                    name: Measurement(value=value, unit="s", direction="lower", samples=(value,))
                    for name in (METRIC, "side_s")
                    for value in (measure(setting, name),)
                },
            )
            for case in cases[setting.name]
        )

    trials.run_trial = run_trial
    try:
        yield
    finally:
        trials.run_trial = real


@contextmanager
def suite() -> Iterator[Path]:
    """A directory with a suite of one case."""
    with tempfile.TemporaryDirectory() as text:
        directory = Path(text)
        (directory / "suite.yaml").write_text(SUITE)
        (directory / "ab.yaml").write_text(AB)
        yield directory


def bisect(draw: Draw, *, culprit: int, effect: float, directory: Path, count: int = 40) -> BisectionResult:
    """A whole search as `paceline bisect` makes it; the noise is 1 % and the effect in units of it."""
    steps = tuple(Candidate(ident=f"{number:04}", label=f"{number:04}") for number in range(count))
    request = Request(configs=(directory.parent / "suite.yaml",))
    case = case_of(request, "work")

    def measure(setting: trials.TrialSetting, metric: str) -> float:
        place = -1 if setting.name.startswith("good") else int(setting.name.partition("-")[0])
        return 100 + draw() + effect * (place >= culprit)

    task = BisectTask(
        configs=request.configs,
        case=case,
        question=Question(
            case=case.name,
            metric=METRIC,
            good=Candidate(ident="good", label="good"),
            candidates=steps,
            direction="lower",
        ),
        builder=Builder(cache_dir=directory / "cache", log=directory / "log"),
        limits=Limits(),
        out=directory,
    )
    with simulated(measure):
        return run_bisection(task, lambda *_: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Noise between nights, which all runs of a night share, and within them; a change of the level, tonight."""

    between: float
    within: float
    change: float = 0.0


def suspected_night(random: np.random.Generator, machine: Machine) -> tuple[Suspected, float]:
    """The first night of many that looks worse, and the level that its runs have."""
    while True:
        moods = machine.between * random.normal(size=NIGHTS + 1)
        moods[-1] += math.log1p(machine.change)
        values = np.exp(moods + machine.within * random.normal(size=NIGHTS + 1))
        # Most nights are like the others, and there is nothing to ask about them.
        if values[-1] < values.mean() + 1.5 * values[:-1].std():
            continue
        found = suspect_tail(values.tolist())
        if found is not None:
            break
    point = Point(
        float(values[-1]),
        (),
        "",
        "tonight",
        f"{random.integers(2**62):x}",
        "2026-01-31",
        "passed",
        "",
        "",
        "1",
    )
    suspected = Suspected(
        series=SeriesKey("work", "", "", METRIC, "s", ""),
        direction="lower",
        good=Place(session="before", time="2026-01-30"),
        bad=Place(session="tonight", time="2026-01-31"),
        effect=found.effect,
        weight=found.score,
        before=tuple(values[: found.index].tolist()),
        at=point,
    )
    return suspected, float(moods[-1])


def is_confirmed(random: np.random.Generator, machine: Machine, directory: Path) -> bool:
    """What `paceline nightly` makes of a night that looks worse, where there is no old state to run again."""
    suspected, level = suspected_night(random, machine)
    request = Request(configs=(directory / "suite.yaml",))
    night = Night(
        request=request,
        options=Nightly(),
        builder=Builder(cache_dir=directory / "cache", log=directory / "log"),
        tonight=Candidate(ident="tonight", label="tonight"),
        repository=None,
        results_dir=directory,
    )
    draw = lambda setting, metric: math.exp(level + machine.within * random.normal())  # noqa: E731
    with simulated(draw), open_store(directory / "history.db") as store:
        return investigate(suspected, store, night).verdict == "worse"


def ab_differs(random: np.random.Generator, family: Family, directory: Path) -> bool:
    """Whether an A/B test of a suite against itself, with two metrics, says that something differs."""
    draw = family(random)
    out = directory / f"ab-{random.integers(2**62)}"
    with simulated(lambda setting, metric: math.exp(0.02 * draw())):
        done = run_ab(ABRequest(path=directory / "ab.yaml", out=out, results_dir=directory))
    return any(one.verdict in ("better", "worse") for one in done.result.comparisons if not one.null)


def ab_rows(seed: int, count: int) -> Iterator[Row]:
    """A suite against itself: two metrics, 28 blocks, noise of 2 %."""
    random = np.random.default_rng(seed)
    with suite() as directory:
        for name, family in FAMILIES.items():
            hits = sum(ab_differs(random, family, directory) for _ in range(count))
            yield Row("ab", f"the same in two arms, {name} noise: something differs", hits, count)


def bisect_rows(seed: int, count: int) -> Iterator[Row]:
    """Equal ends, and steps of two standard deviations over 40 commits."""
    random = np.random.default_rng(seed)
    for name, family in FAMILIES.items():
        with suite() as directory:
            found = [
                bisect(family(random), culprit=99, effect=0.0, directory=directory / str(number))
                for number in range(count)
            ]
        hits = sum(one.culprit is not None or one.ending == "reversed" for one in found)
        yield Row("bisect", f"equal ends, {name} noise: said to differ", hits, count)
    for name, family in FAMILIES.items():
        right = []
        with suite() as directory:
            for number in range(count):
                culprit = int(random.integers(40))
                one = bisect(family(random), culprit=culprit, effect=2.0, directory=directory / str(number))
                right += [one.culprit == culprit] if one.ending == "found" else []
        yield Row(
            "bisect", f"a step of 2 sd, {name} noise: right if named", sum(right), len(right), 0.95, True
        )


def nightly_rows(seed: int, count: int) -> Iterator[Row]:
    """Nights that look worse, where no old state can be run again."""
    random = np.random.default_rng(seed)
    with suite() as directory:
        for between, within in ((0.01, 0.005), (0.01, 0.01), (0.01, 0.02), (0.0, 0.01)):
            machine = Machine(between=between, within=within)
            hits = sum(is_confirmed(random, machine, directory) for _ in range(count))
            noise = f"{between:.1%} between and {within:.1%} within nights"
            yield Row("nightly", f"a suspected night without a change, {noise}: confirmed", hits, count)
        machine = Machine(between=0.01, within=0.01, change=0.1)
        hits = sum(is_confirmed(random, machine, directory) for _ in range(count))
        yield Row(
            "nightly", "a night 10 % slower, 1 % between and within nights: confirmed", hits, count, 0.9, True
        )
