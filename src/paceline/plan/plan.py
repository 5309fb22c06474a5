"""A plan put together: cases drafted, chosen and built; sinks, secrets, settings and warnings beside them."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.config.load import Loaded
from paceline.config.paths import normalise
from paceline.errors import ConfigError, Problem, SelectionError
from paceline.model import Case, Plan, PoolSettings, Setting, Settings
from paceline.plan.cases import Built, CaseBuilder
from paceline.plan.commands import SEARCH_PATH
from paceline.plan.directories import NAMES, Directories, find_directories, viewer_url
from paceline.plan.drafts import Draft, draft_cases
from paceline.plan.expansion import Expansion
from paceline.plan.secret_names import check_names
from paceline.plan.selection import Candidate, select, take_shard
from paceline.plan.sinks import check_sinks, make_sinks, unset_in_sinks
from paceline.record.layout import check_session_name
from paceline.record.redact import is_maskable, is_secret_name, secret_values

_SHOWN_USERS = 3


def make_plan(
    loaded: Loaded,
    *,
    session: str,
    results_dir: Path | str | None = None,
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    shard: tuple[int, int] | None = None,
    environ: Mapping[str, str] | None = None,
    setting: Setting | None = None,
    stubs: Sequence[Case] = (),
) -> Plan:
    """All that a session of this name would do; ConfigError holds every problem of the selected cases.

    A case whose variables are not set is in the plan, with the reason in `blocked`. `stubs` are the cases of the
    suite's evals, which are chosen like its own.
    """
    environ = os.environ if environ is None else environ
    check_session_name(session)
    python = {"python": setting.python} if setting and setting.python else {}
    expansion = Expansion(loaded, environ, {**NAMES, **python}, setting)
    problems = [*loaded.problems]
    directories = find_directories(expansion, session, results_dir, problems)
    drafts, found = draft_cases(expansion)
    problems += [*found, *expansion.check_path_names(), *check_sinks(loaded)]
    notes: list[str] = list(loaded.warnings)
    claimed = {name for draft in drafts for name in draft.setups}
    candidates = [*(draft.candidate for draft in drafts), *map(_candidate, stubs)]
    chosen = _choose(candidates, only, exclude, shard, notes, is_broken=bool(problems))
    drafts = [draft for draft in drafts if draft.name in chosen]
    unneeded = claimed - {name for draft in drafts for name in draft.setups}
    marks = {**directories.marks, SEARCH_PATH: environ.get("PATH", os.defpath)}
    built = _build(expansion, marks, drafts, unneeded)
    problems += [problem for one in built for problem in one.notes.problems]
    errors = [*(error for one in built for error in one.errors), *unset_in_sinks(loaded)]
    names, values = _secrets(loaded, environ, built)
    # A warning only: a short secret may stand in a name by chance, and that must not stop a suite.
    notes += [str(problem) for problem in check_names(loaded, session, drafts, values, environ)]
    cases = [one.case for one in built]
    settings = _make_settings(expansion, directories, errors, problems)
    if problems:
        raise _error([*problems, *errors], loaded.files)
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
        secret_names=names,
        secret_values=values,
        settings=settings,
        warnings=(*notes, *_missing_files(built)),
    )


def _candidate(stub: Case) -> Candidate:
    return Candidate(name=stub.name, entry=stub.entry, tags=stub.tags)


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
    expansion: Expansion, marks: Mapping[str, str], drafts: Sequence[Draft], unneeded: Collection[str]
) -> list[Built]:
    """The set-ups and the cases; a set-up that only cases which were not chosen need is left out."""
    builder = CaseBuilder(expansion, marks)
    setups = expansion.loaded.config.data_setups
    built = [builder.build_setup(setup, i) for i, setup in enumerate(setups) if setup.name not in unneeded]
    return built + [builder.build_case(draft) for draft in drafts]


def _error(problems: Sequence[Problem], files: Sequence[Path]) -> ConfigError:
    """All problems in the order of the files; a text shared by many entries is wrong once."""
    order = {str(path): i for i, path in enumerate(files)}
    once = {(one.file, one.line, one.message): one for one in reversed(problems)}
    return ConfigError(sorted(once.values(), key=lambda one: (order.get(one.file, len(order)), one)))


def _secrets(
    loaded: Loaded, environ: Mapping[str, str], built: Iterable[Built]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the variables that hold secrets, and all values to mask, those written out included."""
    names = tuple(dict.fromkeys((*loaded.used_variables_in_sinks, *loaded.config.secrets)))
    values = list(secret_values(environ, names))
    for one in built:
        values += sorted(one.notes.secrets)
    for sink in loaded.config.sinks:
        values += _written_secrets(sink.options)
    return names, tuple(dict.fromkeys(value for value in values if is_maskable(value)))


def _written_secrets(options: Any, name: str = "") -> Iterator[str]:
    """Texts under keys that name a secret; a key that ends with `_env` holds only the name of a variable."""
    if isinstance(options, str):
        if is_secret_name(name) and not name.endswith(("_env", "_file", "_path")):
            yield options
    elif isinstance(options, Mapping):
        for key, value in options.items():
            yield from _written_secrets(value, key)
    elif isinstance(options, list):
        for value in options:
            yield from _written_secrets(value, name)


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
