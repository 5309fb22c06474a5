"""A plan put together: cases drafted, chosen and built; sinks, secrets, settings and warnings; the whole as JSON."""

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paceline.config.load import Loaded, collector_paused, config_error
from paceline.config.paths import normalise
from paceline.config.sinks import check_sinks, make_sinks, unset_in_sinks
from paceline.errors import Problem, SelectionError
from paceline.model import Case, Plan, PoolSettings, Setting, Settings
from paceline.plan.cases import Built, CaseBuilder
from paceline.plan.commands import SEARCH_PATH
from paceline.plan.directories import NAMES, Directories, find_directories, find_results, viewer_url
from paceline.plan.expansion import Expansion
from paceline.plan.fingerprints import SecretNames
from paceline.plan.secrets import all_secret_values, secret_names, secrets_in_names, short_secrets
from paceline.plan.selection import Candidate, Draft, draft_cases, select, take_shard
from paceline.record.layout import check_session_name, entry_path

_SHOWN_USERS = 3


@collector_paused()
def make_plan(
    loaded: Loaded,
    *,
    session: str | Callable[[Path | str], str],
    results_dir: Path | str | None = None,
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    shard: tuple[int, int] | None = None,
    environ: Mapping[str, str] | None = None,
    setting: Setting | None = None,
    stubs: Sequence[Case] = (),
) -> Plan:
    """All that a session of this name would do; ConfigError holds every problem of the selected cases.

    `session` may also be a function that finds the name, given where results are kept: a directory or the URL of an
    object store. A case whose variables are not set is in the plan, with the reason in `blocked`. `stubs` are the cases
    of the suite's evals, which are chosen like its own.
    """
    environ = os.environ if environ is None else environ
    python = {"python": setting.python} if setting and setting.python else {}
    expansion = Expansion(loaded, environ, {**NAMES, **python}, setting)
    problems = [*loaded.problems]
    results = find_results(expansion, results_dir, problems)
    if callable(session):
        session = "unknown" if problems else session(results)
    check_session_name(session)
    directories = find_directories(expansion, session, results, problems)
    drafts, found = draft_cases(expansion)
    problems += [*found, *expansion.check_path_names(), *check_sinks(loaded, environ)]
    problems += short_secrets(loaded, environ)
    notes: list[str] = list(loaded.warnings)
    candidates = [*drafts, *(Candidate(name=stub.name, entry=stub.entry, tags=stub.tags) for stub in stubs)]
    chosen = _choose(candidates, only, exclude, shard, notes, is_broken=bool(problems))
    names = secret_names(loaded)
    built = _build(expansion, directories, names, drafts, chosen)
    problems += [problem for one in built for problem in one.notes.problems]
    errors = [*(error for one in built for error in one.errors), *unset_in_sinks(loaded)]
    cases = [one.case for one in built]
    values = all_secret_values(loaded, environ, names, cases)
    named = [draft for draft in drafts if draft.name in chosen]
    notes += secrets_in_names(loaded, session, named, values, environ)
    settings = _make_settings(expansion, directories, errors, problems)
    if problems:
        raise config_error([*problems, *errors], loaded.files)
    return Plan(
        session=session,
        directory=directories.session_dir,
        artifacts_dir=directories.artifacts_dir,
        setups=tuple(case for case in cases if case.kind == "data_setup"),
        cases=(
            *(case for case in cases if case.kind == "entry"),
            *(stub for stub in stubs if stub.name in chosen),
        ),
        sinks=tuple(make_sinks(loaded)),
        secret_names=tuple(names.now),
        secret_values=values,
        sink_variables=loaded.used_variables_in_sinks,
        settings=settings,
        warnings=(*notes, *expansion.warnings, *_missing_files(built)),
    )


def _choose(
    candidates: Sequence[Candidate],
    only: Sequence[str],
    exclude: Sequence[str],
    shard: tuple[int, int] | None,
    warnings: list[str],
    *,
    is_broken: bool,
) -> frozenset[str]:
    """The names of what is to run; a selection that only fits what was left out for its faults chooses none."""
    unique = list({candidate.name: candidate for candidate in candidates}.values())
    try:
        chosen, notes = select(unique, only, exclude)
    except SelectionError:
        if is_broken:
            return frozenset()
        raise
    warnings += notes
    if shard:
        chosen = take_shard(chosen, shard)
        if not chosen:
            warnings.append(f"shard {shard[0]}/{shard[1]} has no case: there are fewer cases than shards")
    return frozenset(candidate.name for candidate in chosen)


def _build(
    expansion: Expansion,
    directories: Directories,
    names: SecretNames,
    drafts: Sequence[Draft],
    chosen: Collection[str],
) -> list[Built]:
    """The set-ups and the chosen cases; a set-up that only other cases need is left out."""
    search_path = expansion.environ.get("PATH", os.defpath)
    builder = CaseBuilder(expansion, {**directories.sentinels, SEARCH_PATH: search_path}, names)
    unneeded = {name for draft in drafts for name in draft.setups}
    drafts = [draft for draft in drafts if draft.name in chosen]
    unneeded -= {name for draft in drafts for name in draft.setups}
    setups = expansion.loaded.config.data_setups
    built = [builder.build_setup(setup, i) for i, setup in enumerate(setups) if setup.name not in unneeded]
    return built + [builder.build_case(draft) for draft in drafts]


def _make_settings(
    expansion: Expansion, directories: Directories, errors: Iterable[Problem], problems: list[Problem]
) -> Settings:
    config = expansion.loaded.config
    recorder = config.gpu_stats_recorder
    return Settings(
        run_reason=config.run_reason,
        viewer_url=viewer_url(expansion, directories, problems),
        results_url=directories.results_url,
        gpu_stats_interval_s=recorder.interval_s if recorder.active else 0,
        pool=PoolSettings(**config.pool.model_dump(exclude={"type"})) if config.pool else None,
        config_files=tuple(normalise(str(path)) for path in expansion.loaded.files),
        capture_env=tuple(config.capture_env),
        private=config.private,
        errors=tuple(dict.fromkeys(str(error) for error in errors)),
    )


def _missing_files(built: Iterable[Built]) -> Iterator[str]:
    """Data and working directories that cases use and that are not there yet; a data set-up may make them."""
    users: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for one in built:
        for path, label in one.notes.data_paths.items():
            is_relative = one.case.cwd is not None and "://" not in path and not path.startswith("/")
            full = f"{one.case.cwd}/{path}" if is_relative else path
            users[f"data set {label}", full].append(one.case.name)
        if one.case.cwd is not None:
            users["working directory", one.case.cwd].append(one.case.name)
    for (what, path), names in users.items():
        # What is not a path of this machine, or known only when the case runs, cannot be looked for.
        if "\x00" not in path and "://" not in path and not os.path.exists(path):  # noqa: PTH110
            more = f" and {len(names) - _SHOWN_USERS} more" if len(names) > _SHOWN_USERS else ""
            yield f"{what}: {path} does not exist (used by {', '.join(names[:_SHOWN_USERS])}{more})"


def plan_errors(plan: Plan) -> tuple[str, ...]:
    """Why cases and sinks are blocked, a line each: `file:line: entries[3] (name): …`."""
    return plan.settings.errors


def plan_json(masked: Plan) -> dict[str, Any]:
    """A masked plan as `paceline plan --json` prints it."""
    return {
        "session": masked.session,
        "directory": str(masked.directory),
        "setups": [_case_json(case, masked.directory) for case in masked.setups],
        "cases": [_case_json(case, masked.directory) for case in masked.cases],
        "sinks": [
            {
                "name": sink.name,
                "type": sink.type,
                "required": sink.required,
                "options": dict(sink.options),
                "blocked": sink.blocked,
            }
            for sink in masked.sinks
        ],
        "warnings": list(masked.warnings),
        "errors": list(plan_errors(masked)),
    }


def _case_json(case: Case, directory: Path) -> dict[str, Any]:
    """A masked case with the directory put in, which stays as it is: it is found by its name."""
    run_dir = entry_path(directory, case)
    return {
        "name": case.name,
        "key": case.key,
        "params": dict(case.params),
        "argv": [case.at(word, run_dir) for word in case.argv],
        "env": sorted(case.env),
        "cwd": case.at(case.cwd, run_dir) if case.cwd else None,
        "timeout_s": case.timeout_s,
        "resources": {
            "cpus": case.resources.cpus,
            "gpus": case.resources.gpus,
            "memory_bytes": case.resources.memory_bytes,
            "exclusive": case.resources.exclusive,
            **({"labels": dict(case.resources.labels)} if case.resources.labels else {}),
        },
        "ray": case.cluster,
        "requirements": [asdict(requirement) for requirement in case.requirements],
        "repeat": case.repeat,
        "warmup": case.warmup,
        "tags": list(case.tags),
        "needs": list(case.needs),
        "fingerprint": case.fingerprint,
        "formula": case.formula,
        "former_fingerprint": case.former_fingerprint,
        "blocked": case.blocked,
    }
