"""The closed loop: run, record, look for what got worse, run it again, search for its cause, report."""

import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.config.load import Loaded
from paceline.config.sections import Nightly
from paceline.errors import PacelineError
from paceline.experiments.bisect.bisection import place_for
from paceline.experiments.bisect.result import Candidate
from paceline.experiments.bisect.searching import Limits
from paceline.experiments.builds.cache import default_cache_dir
from paceline.experiments.builds.versions import installer_options, resolve_packages
from paceline.experiments.builds.workshop import State, Workshop
from paceline.experiments.builds.worktrees import fetch, resolve
from paceline.experiments.nightly.investigation import Means, Note, investigate, merge_findings
from paceline.experiments.nightly.suspected import find_suspects, is_wanted
from paceline.experiments.trials import Interrupted, setting_in
from paceline.findings.commits import Repository, find_repository
from paceline.history import open_store
from paceline.model import Finding, Report
from paceline.run.context import Listener
from paceline.session.request import Request, load_config
from paceline.session.session import run

_TONIGHT = Candidate(ident="tonight", label="tonight", kind="environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What a night is made of, before its first run."""

    options: Nightly
    workshop: Workshop
    state: State
    repository: Repository | None
    place: Path


def run_nightly(request: Request, listener: Listener, *, bisects: bool = True) -> Report:
    """Run the suite's session; before its report goes to the sinks, what got worse is confirmed and searched."""
    loaded = load_config(request)
    night = plan_night(loaded, request)
    made = night.workshop.make(night.state)
    means = Means(
        request=replace(request, sinks=("none",)),
        workshop=night.workshop,
        tonight=night.state,
        place=night.place,
        limits=_limits(night.options),
        own_environment=bool(night.options.packages or night.options.install),
        bisects=bisects and night.options.bisect,
    )

    def follow_up(report: Report, database: str | None, note: Note) -> Report:
        report = replace(report, findings=_watched(report.findings, night.options.metrics))
        if database is None or not night.options.confirm:
            return report
        ends_at_s = time.monotonic() + night.options.budget
        return _follow_up(report, database, night, replace(means, note=note, ends_at_s=ends_at_s))

    setting = setting_in(made.venv, made.worktree) if made.venv or made.worktree else None
    asked = replace(request, setting=setting, follow_up=follow_up)
    return run(asked, listener)


def plan_night(loaded: Loaded, request: Request) -> Night:
    """The repository, the environment and the working tree of tonight."""
    options = loaded.config.nightly or Nightly()
    if not request.history or (loaded.config.history and not loaded.config.history.enabled):
        raise PacelineError(
            "a night is judged by those before it: 'nightly' needs the history, and it is switched off"
        )
    base = _base_dir(loaded)
    repository = _repository(options, base)
    place = place_for(request)
    installer = installer_options(options.find_links, no_index=options.no_index, base=base)
    workshop = Workshop(
        cache_dir=default_cache_dir(),
        log=place / "nightly-build.log",
        repo=repository.root if repository else None,
        setup=_words(options.setup),
        install=tuple(options.install),
        options=installer,
    )
    packages = resolve_packages(options.packages, installer, base=base) if options.packages else ()
    at = resolve(repository.root, options.ref) if repository and options.ref else ""
    return Night(
        options=options,
        workshop=workshop,
        state=State(candidate=_TONIGHT, revision=at, packages=packages),
        repository=repository,
        place=place,
    )


def _base_dir(loaded: Loaded) -> Path:
    """The directory of the file that says what a night is; paths in it are relative to it."""
    file = loaded.mark(("nightly",)).file or str(loaded.files[0])
    return Path(file).absolute().parent


def _repository(options: Nightly, base: Path) -> Repository | None:
    found = find_repository(base / options.repo if options.repo else base)
    if found is None and (options.repo or options.ref):
        raise PacelineError(f"nightly.repo: {base / (options.repo or '.')} is in no git repository")
    if found is not None and options.fetch:
        fetch(found.root)
    return found


def _words(command: str | list[str] | None) -> tuple[str, ...]:
    if command is None:
        return ()
    return tuple(shlex.split(command)) if isinstance(command, str) else tuple(command)


def _limits(options: Nightly) -> Limits:
    return Limits(
        confidence=options.confidence, max_runs=options.max_runs, end_runs=max(3, options.confirm_runs)
    )


def _watched(findings: Iterable[Finding], metrics: Sequence[str]) -> tuple[Finding, ...]:
    """Those of the metrics that the night is about."""
    return tuple(one for one in findings if is_wanted(one.metric, metrics))


def _follow_up(report: Report, database: str, night: Night, means: Means) -> Report:
    """The report with what was found out about the cases that look worse."""
    found: list[Finding] = []
    cases = tuple(dict.fromkeys(case.key for case in report.plan.cases))
    with open_store(database) as store:
        tonight = store.session(report.plan.session)
        if tonight is None:  # The history could not be written, which was said just now.
            return report
        suspects = find_suspects(store, night.repository, tonight.id, cases, tuple(night.options.metrics))
        chosen = suspects[: night.options.suspects]
        if len(suspects) > len(chosen):
            means.note(f"{len(suspects) - len(chosen)} weaker suspicions are left for another night")
        try:
            for suspected in chosen:
                found.append(investigate(suspected, store, night.repository, means))
        except Interrupted:
            report = replace(report, interrupted=True)
    return replace(report, findings=merge_findings(found, report.findings))
