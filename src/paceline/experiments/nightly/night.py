"""A suite in, a night's report out: run, record, look for what got worse, run that again, search for its cause."""

import shlex
import time
from dataclasses import replace
from pathlib import Path

from paceline.config.load import Loaded
from paceline.config.sections import Nightly
from paceline.errors import PacelineError
from paceline.experiments.bisect.bisection import results_dir_of
from paceline.experiments.builds.build import Builder, Candidate, fetch, resolve
from paceline.experiments.builds.cache import default_cache_dir
from paceline.experiments.builds.environments import installer_options, resolve_packages
from paceline.experiments.nightly.investigation import FEWEST_RUNS, Night, Note, investigate, merge_findings
from paceline.experiments.nightly.suspicions import Suspected, find_suspicions, is_wanted, split_by_machine
from paceline.experiments.trials import Interrupted, setting_in
from paceline.findings.commits import find_repository
from paceline.findings.telling import tell
from paceline.history import open_store
from paceline.history.session_files import read_environments
from paceline.model import Finding, Report
from paceline.run.context import Listener
from paceline.session.request import Request, load_config
from paceline.session.session import run

SETTLED = frozenset({"bisected", "undecided"})
"""Stages after which no more runs are made for a finding."""


def run_nightly(request: Request, listener: Listener, *, bisects: bool = True) -> Report:
    """Run the suite's session; before its report goes to the sinks, what got worse is confirmed and searched."""
    night = plan_night(load_config(request), request)
    options = night.options
    built = night.builder.build(night.tonight)

    def follow_up(report: Report, database: str | None, note: Note) -> Report:
        watched = tuple(one for one in report.findings if is_wanted(one.metric, options.metrics))
        report = replace(report, findings=watched)
        if database is None or not options.confirm:
            return report
        ends_at_s = time.monotonic() + options.budget
        bisecting = bisects and options.bisect
        return _follow_up(report, database, replace(night, note=note, ends_at_s=ends_at_s, bisects=bisecting))

    setting = setting_in(built.venv, built.worktree) if built.venv or built.worktree else None
    return run(replace(request, setting=setting, follow_up=follow_up), listener)


def plan_night(loaded: Loaded, request: Request) -> Night:
    """The repository, the environment and the working tree of tonight."""
    options, history = loaded.config.nightly or Nightly(), loaded.config.history
    if not request.history or (history and not history.enabled):
        raise PacelineError(
            "a night is judged by those before it: 'nightly' needs the history, and it is switched off"
        )
    # Paths are relative to the file that says what a night is.
    base = Path(loaded.mark(("nightly",)).file or str(loaded.files[0])).absolute().parent
    branch = (history.default_branch if history else None) or ""
    repository = find_repository(base / options.repo if options.repo else base, branch)
    if repository is None and (options.repo or options.ref):
        raise PacelineError(f"nightly.repo: {base / (options.repo or '.')} is in no git repository")
    if repository is not None and options.fetch:
        fetch(repository.root)
    results_dir = results_dir_of(request)
    installer = installer_options(options.find_links, no_index=options.no_index, base=base)
    setup = shlex.split(options.setup) if isinstance(options.setup, str) else options.setup or ()
    return Night(
        request=replace(request, sinks=("none",)),
        options=options,
        builder=Builder(
            cache_dir=default_cache_dir(),
            log=results_dir / "nightly-build.log",
            repo=repository.root if repository else None,
            setup=tuple(setup),
            install=tuple(options.install),
            options=installer,
        ),
        tonight=Candidate(
            ident="tonight",
            label="tonight",
            kind="environment",
            revision=resolve(repository.root, options.ref) if repository and options.ref else "",
            packages=resolve_packages(options.packages, installer, base=base) if options.packages else (),
        ),
        repository=repository,
        results_dir=results_dir,
    )


def _follow_up(report: Report, database: str, night: Night) -> Report:
    """The report with what was found out about the cases that look worse."""
    found: list[tuple[Suspected, Finding]] = []
    cases = tuple(dict.fromkeys(case.key for case in report.plan.cases))
    options = night.options
    with open_store(database) as store:
        tonight = store.session(report.plan.session)
        if tonight is None:  # The history could not be written, which was said just now.
            return report
        machine = _own_class(report)
        found_ones = find_suspicions(store, night.repository, tonight.id, cases, options.metrics, machine)
        suspicions, elsewhere = split_by_machine(found_ones, machine)
        for one in elsewhere:
            night.note(
                f"{one.series.metric} of {one.series.case} looks worse on a machine of another class: not run again"
            )
        # What an earlier night has found the cause of, or gave up, is reported again; nothing is run for it.
        settled = [one for one in suspicions if one.finding and one.finding.stage in SETTLED]
        known = tell(store, [one.finding for one in settled if one.finding])
        found += zip(settled, known, strict=True)
        others = [
            one
            for one in suspicions
            if one not in settled and (one.is_certain or one.runs_left(options.max_runs) >= FEWEST_RUNS)
        ]
        # A change that the history shows fails the session if it is not refuted, so that all such are run again.
        certain = sum(one.is_certain for one in others)
        chosen = others[: max(certain, options.suspects)]
        if len(others) > len(chosen):
            night.note(f"{len(others) - len(chosen)} weaker suspicions are left for another night")
        try:
            for suspected in chosen:
                found.append((suspected, investigate(suspected, store, night)))
        except Interrupted:
            report = replace(report, interrupted=True)
    return replace(report, findings=merge_findings(found, report.findings))


def _own_class(report: Report) -> str:
    """The class of the machine that runs again what looks worse."""
    return str(read_environments(report.plan.directory)[0].get("class_id") or "")
