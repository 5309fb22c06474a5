"""The A/B test itself: block after block until every metric is decided or the budget is spent."""

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from paceline.errors import PacelineError, SessionError
from paceline.experiments import trials
from paceline.experiments.ab.arms import Arm
from paceline.experiments.ab.blocks import hash_seed_of, look_blocks, order_of
from paceline.experiments.ab.report import ABResult, ArmComparison, ArmInfo, Missing
from paceline.experiments.ab.spec import ABSpec
from paceline.experiments.ab.tally import Judged, Tally, Trial, trial_data
from paceline.experiments.journal import Journal
from paceline.experiments.trials import plan_trial
from paceline.judge.comparison import LEVEL
from paceline.model import Plan, one_spelling
from paceline.numbers import duration
from paceline.report.format import visible

BEGIN, TRIAL, END = "begin", "trial", "end"
_MOST_BLOCKS = 1000
_FEWEST_BLOCKS = 4

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How many blocks there may be, how many before them only warm up, and after which ones one looks."""

    warmup: int
    max_blocks: int

    @property
    def looks(self) -> tuple[int, ...]:
        return look_blocks(self.max_blocks)


def make_schedule(spec: ABSpec) -> Schedule:
    """The schedule that the budget allows; one too small for warm-ups goes without."""
    count = len(spec.arm_names)
    if spec.max_runs is None:
        return Schedule(warmup=spec.warmup, max_blocks=_MOST_BLOCKS)
    if spec.max_runs < count:
        raise PacelineError(
            f"{spec.name}: a budget of {spec.max_runs} runs is too small for {count} arms; allow {count * 10} or more"
        )
    # Arms that are decided drop out, so that the others may have more blocks; three are left at last.
    smallest = 2 + spec.null_arm if count > 1 + spec.null_arm else count
    warmup = spec.warmup
    while warmup and (spec.max_runs - warmup * count) // count < _FEWEST_BLOCKS:
        warmup -= 1
    return Schedule(warmup=warmup, max_blocks=(spec.max_runs - warmup * count) // smallest)


def plan_arms(arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], dict[str, Plan], tuple[tuple[str, str], ...]]:
    """The arms with the cases that all of them have, what a run of each does, and which arm lacks which case."""
    plans = {arm.name: plan_trial(arm.setting, 1) for arm in arms}
    cases = {name: {case.name for case in plan.cases} for name, plan in plans.items()}
    every, shared = set().union(*cases.values()), set.intersection(*cases.values())
    if not shared:
        raise PacelineError(
            f"nothing was compared: {' and '.join(cases)} have no case in common; give them the same entries"
        )
    if every == shared:
        return tuple(arms), plans, ()
    only = tuple(sorted(shared))
    chosen = tuple(replace(arm, setting=replace(arm.setting, only=only, exclude=())) for arm in arms)
    absent = tuple((name, case) for name, had in cases.items() for case in sorted(every - had))
    return chosen, {arm.name: plan_trial(arm.setting, 1) for arm in chosen}, absent


def fingerprints(spec: ABSpec, arms: Sequence[Arm], plans: Mapping[str, Plan]) -> tuple[str, str]:
    """Hashes of all that decides what is compared, with the fingerprints of today and with the former ones.

    The budget does not decide it, so that it can be raised later.
    """
    content: dict[str, Any] = {
        "environments": [arm.setting.venv.key if arm.setting.venv else "" for arm in arms],
        "metrics": dict(spec.metrics),
        "margin": spec.margin,
        "seed": spec.seed,
        "warmup": make_schedule(spec).warmup,
        **({} if spec.vary_hash_seed else {"hash_seed": "as it is"}),
    }
    now = {arm.name: [case.fingerprint for case in plans[arm.name].cases] for arm in arms}
    former = {arm.name: [case.former_fingerprint for case in plans[arm.name].cases] for arm in arms}
    written = (json.dumps({**content, "arms": cases}, sort_keys=True) for cases in (now, former))
    found = [hashlib.sha256(text.encode()).hexdigest() for text in written]
    return found[0], found[1]


class Experiment:
    """An A/B test in its directory; whatever was done there before is known by its journal."""

    def __init__(
        self,
        spec: ABSpec,
        arms: Sequence[Arm],
        plans: Mapping[str, Plan],
        journal: Journal,
        *,
        say: Say,
        notes: Sequence[str] = (),
        absent: Sequence[tuple[str, str]] = (),
        allow_missing: bool = False,
    ) -> None:
        self._spec = spec
        self._absent = tuple(absent)
        self._allow_missing = allow_missing
        self._arms = {arm.name: arm for arm in arms}
        self._baseline = arms[0].name
        self._candidates = [arm.name for arm in arms[1:] if not arm.null]
        self._journal = journal
        self._say = say
        self._notes = tuple(notes)
        self._schedule = make_schedule(spec)
        self._cases = {(arm, case.name): case for arm, plan in plans.items() for case in plan.cases}
        self._trials = [_trial(entry) for entry in journal.of(TRIAL)]
        self._seed = self._begin(fingerprints(spec, arms, plans))

    def _begin(self, marks: tuple[str, str]) -> int:
        for entry in self._journal.of(BEGIN):
            if entry["fingerprint"] not in marks:
                raise SessionError(
                    f"{self._journal.path.parent} holds another A/B test, or this one before it was changed: "
                    "give another --out"
                )
            return int(entry["seed"])
        seed = self._spec.seed if self._spec.seed is not None else secrets.randbits(32)
        self._journal.append(
            BEGIN, fingerprint=marks[0], seed=seed, name=self._spec.name, arms=list(self._arms)
        )
        return seed

    def run(self, on_look: Callable[[ABResult], None] = lambda result: None) -> ABResult:
        """Run what is still to be run; the result so far is handed out after every look."""
        counted = -self._schedule.warmup
        while not (ended := self._ended(counted)):
            due = [turn for turn in self._turns(counted) if not self._is_done(turn[0], counted)]
            for name, cases in due:
                self._run_trial(name, counted, cases)
            counted += 1
            if due and counted in self._schedule.looks:
                result = self.result("")
                real = [one for one in result.comparisons if not one.null]
                decided = sum(one.verdict != "inconclusive" for one in real)
                self._say(f"after block {counted} {decided} of {len(real)} comparisons are decided")
                on_look(result)
        if not any(True for _ in self._journal.of(END)):
            self._journal.append(END, reason=ended)
        return self.result(ended)

    def _turns(self, counted: int) -> list[tuple[str, frozenset[str] | None]]:
        """The arms of a block in their order, with the cases that each runs; None are all.

        It depends on what was known when the block began, so that a block cut short is gone on with as it was.
        """
        order = order_of(counted + self._schedule.warmup, list(self._arms), self._seed)
        known = self._tally().before(counted)
        # A/A alone has nothing to decide, and the budget is what it takes.
        if not known.trials or not self._candidates:
            return [(name, None) for name in order]
        looks = [look for look in self._schedule.looks if look <= counted]
        planned = len(self._schedule.looks)
        open_cases = {name: known.undecided(name, looks, planned) for name in self._candidates}
        everything = frozenset().union(*open_cases.values())
        wanted = {name: frozenset(open_cases.get(name, everything)) for name in order}
        return [(name, wanted[name]) for name in order if wanted[name]]

    def _run_trial(self, name: str, counted: int, cases: frozenset[str] | None) -> None:
        setting = self._arms[name].setting
        details: dict[str, Any] = {**setting.details, "block": counted, "seed": self._seed}
        if self._spec.vary_hash_seed:
            details["hash_seed"] = hash_seed_of(counted, self._seed)
            setting = replace(setting, inherited={"PYTHONHASHSEED": str(details["hash_seed"])})
        setting = replace(setting, details=details)
        if cases is not None and cases != frozenset(self._trials[0].cases):
            setting = replace(setting, only=tuple(sorted(cases)), exclude=())
        started = time.monotonic()
        records = trials.run_trial(setting, counted + self._schedule.warmup + 1)
        # A trial that ended before we were killed is only read now: its own time counts, not ours.
        ran_s = sum(record.timings_s.get("run", 0.0) for record in records)
        seconds = max(time.monotonic() - started, ran_s)
        for record in records:
            planned = self._cases.get((name, record.case.name))
            if planned is None or not planned.is_same_work(record.case):
                raise PacelineError(
                    f"{record.case.name} has changed while the test ran: begin anew, and leave its script alone"
                )
        data = trial_data(records)
        entry = self._journal.append(TRIAL, arm=name, block=counted, seconds=round(seconds, 3), cases=data)
        self._trials.append(_trial(entry))
        most = f"/{self._spec.max_runs}" if self._spec.max_runs is not None else ""
        where = "warm-up" if counted < 0 else f"block {counted + 1}"
        bad = [f"{case} {one['status']}" for case, one in data.items() if one["status"] != "passed"]
        word = visible("; ".join(bad)) if bad else f"{len(data)} passed"
        self._say(f"run {len(self._trials)}{most}  {where}  {visible(name)}  {word}  {duration(seconds)}")

    def _is_done(self, arm: str, counted: int) -> bool:
        return any(trial.arm == arm and trial.block == counted for trial in self._trials)

    def _ended(self, counted: int) -> str:
        """Why no further block is to begin; an empty text if one is."""
        turns = self._turns(counted)
        if any(self._is_done(name, counted) for name, _ in turns):
            return ""
        runs, most_runs, limit_s = len(self._trials), self._spec.max_runs, self._spec.max_time_s
        if not turns:
            tally = self._tally()
            failed = self._missing(tally, tally.judged())
            return "every metric that can be compared is decided" if failed else "every metric is decided"
        if counted >= self._schedule.max_blocks:
            return f"the budget of {runs} runs is spent"
        if most_runs is not None and runs + len(turns) > most_runs:
            return f"the budget of {most_runs} runs is spent"
        if limit_s is not None and runs:
            seconds: dict[int, float] = {}
            for trial in self._trials:
                seconds[trial.block] = seconds.get(trial.block, 0.0) + trial.seconds
            if sum(seconds.values()) + median(seconds.values()) > limit_s:
                return f"the budget of {duration(limit_s)} is spent"
        return ""

    def _tally(self) -> Tally:
        spec = self._spec
        return Tally(
            baseline=self._baseline,
            trials=tuple(self._trials),
            wanted=spec.metrics,
            margin=spec.margin,
            own_metrics=spec.own_metrics,
        )

    def result(self, ended: str) -> ABResult:
        """What is known now; at the end one looks at all there is."""
        tally = self._tally()
        looks = [look for look in self._schedule.looks if look <= tally.blocks]
        if ended and tally.blocks not in looks:
            looks.append(tally.blocks)
        judged = tally.judged()
        level = tally.level(judged, len(self._schedule.looks))
        others = [name for name in self._arms if name != self._baseline]
        comparisons = [self._compared(tally, name, one, looks, level) for one in judged for name in others]
        return ABResult(
            name=self._spec.name,
            seed=self._seed,
            runs=len(self._trials),
            blocks=tally.blocks,
            elapsed_s=float(sum(trial.seconds for trial in self._trials)),
            level=LEVEL,
            margin=self._spec.margin,
            ended=ended,
            arms=tuple(
                ArmInfo(
                    name=arm.name,
                    null=arm.null,
                    baseline=arm.name == self._baseline,
                    runs=sum(trial.arm == arm.name for trial in self._trials),
                    facts=arm.facts,
                    installed=arm.installed,
                )
                for arm in self._arms.values()
            ),
            comparisons=tuple(comparisons),
            missing=tuple(self._missing(tally, judged)),
            notes=self._notes,
            allow_missing=self._allow_missing,
        )

    def _compared(
        self, tally: Tally, arm: str, one: Judged, looks: Sequence[int], level: float
    ) -> ArmComparison:
        found = tally.comparison(arm, one, looks, level)
        pairs = tally.pairs(arm, one)
        return ArmComparison(
            case=one.case,
            metric=one.metric,
            arm=arm,
            null=self._arms[arm].null,
            verdict=found.verdict if found else "inconclusive",
            ratio=found.ratio if found else None,
            low=found.low if found else None,
            high=found.high if found else None,
            minimum_detectable=found.minimum_detectable if found else None,
            blocks=len(pairs),
            unit=one.unit,
            direction="higher" if one.higher else "lower",
            baseline=median(old for _, old, _ in pairs) if pairs else None,
            candidate=median(new for _, _, new in pairs) if pairs else None,
            reason=tally.disturbance(arm, one),
        )

    def _missing(self, tally: Tally, judged: Sequence[Judged]) -> list[Missing]:
        """Cases that failed in an arm, and metrics that were asked for and not seen."""
        cases = list(dict.fromkeys(case for trial in tally.trials for case in trial.cases))
        missing = [
            Missing(arm=name, case=case, reason="it does not have this case")
            for name, case in self._absent
            if name in self._candidates
        ]
        for case in cases:
            for name in self._arms:
                failed, passed, reason = tally.failures(name, case)
                if failed and (not passed or tally.is_hopeless(name, case)):
                    reason = f"{failed} of {failed + passed} runs failed, {reason}"
                    is_new = name in self._candidates and tally.failures(self._baseline, case)[1] > 0
                    missing.append(Missing(arm=name, case=case, reason=reason, is_new=is_new))
        seen = {(one.case, one.metric) for one in judged}
        passed_cases = [case for case in cases if tally.failures(self._baseline, case)[1]]
        for name in self._spec.metrics:
            if passed_cases and not any((case, name) in seen for case in passed_cases):
                reason = "no run has it, or it has no direction: say which in 'metrics'"
                missing.append(Missing(arm=self._baseline, case=passed_cases[0], metric=name, reason=reason))
        return missing


def _trial(entry: Mapping[str, Any]) -> Trial:
    cases = {one_spelling(name): data for name, data in entry["cases"].items()}
    return Trial(arm=entry["arm"], block=entry["block"], seconds=entry["seconds"], cases=cases)
