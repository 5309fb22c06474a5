"""Config → Plan: matrix, selection, and every text resolved. Nothing is made, opened or run."""

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from paceline import plugins
from paceline.cases import SESSION_DIR, Built, CaseBuilder
from paceline.commands import RESULTS_PATH
from paceline.config.load import Loaded
from paceline.config.nodes import at
from paceline.drafts import Draft, draft_cases
from paceline.errors import ConfigError, Problem
from paceline.expansion import Expansion, Notes, Place
from paceline.model import RUN_DIR, Case, Plan, SinkSpec, Source
from paceline.placeholders import fill, parse
from paceline.record.layout import check_session_name, entry_path
from paceline.record.redact import is_maskable, is_secret_name, secret_values
from paceline.selection import select, take_shard

_SESSION_NAME = "\x00session_name\x00"
_RESULTS_DIR = "\x00results_dir\x00"
_ARTIFACTS_DIR = "\x00artifacts_dir\x00"
_NAMES = {
    "session": RUN_DIR,
    "session_entry_dir": RUN_DIR,
    "benchmark_results_path": RESULTS_PATH,
    "scratch_dir": f"{RUN_DIR}/scratch",
    "session_dir": SESSION_DIR,
    "session_name": _SESSION_NAME,
    "results_dir": _RESULTS_DIR,
    "artifacts_dir": _ARTIFACTS_DIR,
    "python": sys.executable,
}
_SHOWN_USERS = 3


class Masks(Protocol):
    """What hides secrets in data."""

    def data(self, value: Any) -> Any: ...


def make_plan(
    loaded: Loaded,
    *,
    session: str,
    results_dir: Path | None = None,
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    shard: tuple[int, int] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Plan:
    """All that a session of this name would do; ConfigError holds every problem of the selected cases.

    A case whose variables are not set is in the plan, with the reason in `blocked`.
    """
    environ = os.environ if environ is None else environ
    check_session_name(session)
    expansion = Expansion(loaded, environ, _NAMES)
    layout = _find_layout(expansion, session, results_dir)
    drafts, problems = draft_cases(expansion)
    problems += expansion.check_path_names()
    warnings: list[str] = list(loaded.warnings)
    if not problems:
        drafts = _choose(drafts, only, exclude, shard, warnings)
    built = _build(expansion, layout, drafts, problems)
    cases = [one.case for one in built]
    errors = [one.error for one in built if one.error] + [*_sink_errors(loaded)]
    names, values = _secrets(loaded, environ, built)
    return Plan(
        session=session,
        directory=layout.directory,
        artifacts_dir=layout.artifacts_dir,
        setups=tuple(case for case in cases if case.kind == "data_setup"),
        cases=tuple(case for case in cases if case.kind == "entry"),
        sinks=tuple(_sinks(loaded)),
        secret_names=names,
        secret_values=values,
        settings=_settings(expansion, layout, cases, errors),
        warnings=(*warnings, *_unknown_sinks(loaded), *_missing_files(built)),
    )


def find_results_dir(loaded: Loaded, environ: Mapping[str, str] | None = None) -> Path:
    """Where the configuration has sessions written."""
    return _results_dir(Expansion(loaded, os.environ if environ is None else environ, {}))


def plan_errors(plan: Plan) -> tuple[str, ...]:
    """Why cases and sinks are blocked, a line each: `file:line: entries[3] (name): …`."""
    return tuple(plan.settings.get("errors", ()))


def plan_json(plan: Plan, redactor: Masks) -> dict[str, Any]:
    """The plan as `paceline plan --json` prints it, without secrets."""
    shown: dict[str, Any] = redactor.data(
        {
            "session": plan.session,
            "directory": str(plan.directory),
            "setups": [_case_json(case, plan.directory) for case in plan.setups],
            "cases": [_case_json(case, plan.directory) for case in plan.cases],
            "sinks": [_sink_json(sink) for sink in plan.sinks],
            "warnings": list(plan.warnings),
            "errors": list(plan_errors(plan)),
        }
    )
    return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Where a session's files go."""

    session: str
    results_dir: Path
    artifacts_dir: Path | None

    @property
    def directory(self) -> Path:
        return self.results_dir / self.session

    @property
    def marks(self) -> dict[str, str]:
        artifacts = self.artifacts_dir or self.results_dir / "artifacts"
        return {
            SESSION_DIR: str(self.directory),
            _SESSION_NAME: self.session,
            _RESULTS_DIR: str(self.results_dir),
            _ARTIFACTS_DIR: str(artifacts),
        }


def _find_layout(expansion: Expansion, session: str, results_dir: Path | None) -> _Layout:
    given = expansion.loaded.config.artifacts_dir
    artifacts = None if given is None else _directory(expansion, "artifacts_dir", given)
    results = results_dir.absolute() if results_dir else _results_dir(expansion)
    return _Layout(session=session, results_dir=results, artifacts_dir=artifacts)


def _results_dir(expansion: Expansion) -> Path:
    config = expansion.loaded.config
    return _directory(expansion, "results_dir", config.results_dir)


def _directory(expansion: Expansion, key: str, value: str) -> Path:
    """A directory given at the top; placeholders are filled in, in one pass with its variables."""
    if "{" not in value:
        return Path(value).absolute()
    notes = Notes()
    node = at(expansion.loaded.tree, (key,))
    text = expansion.expand(value if node.raw is None else node.raw, Place(location=(key,)), notes)
    unset = [expansion.problem(one.path, str(one)) for one in notes.unset]
    if notes.problems or unset:
        raise ConfigError([*notes.problems, *unset])
    return Path(text).absolute()


def _choose(
    drafts: Sequence[Draft],
    only: Sequence[str],
    exclude: Sequence[str],
    shard: tuple[int, int] | None,
    warnings: list[str],
) -> list[Draft]:
    by_name = {draft.name: draft for draft in drafts}
    chosen, notes = select([draft.candidate for draft in drafts], only, exclude)
    warnings += notes
    if shard:
        chosen = take_shard(chosen, shard)
        if not chosen:
            warnings.append(f"shard {shard[0]}/{shard[1]} has no case: there are fewer cases than shards")
    return [by_name[candidate.name] for candidate in chosen]


def _build(
    expansion: Expansion, layout: _Layout, drafts: Sequence[Draft], problems: Sequence[Problem]
) -> list[Built]:
    builder = CaseBuilder(expansion, layout.marks)
    setups = expansion.loaded.config.data_setups
    built = [builder.build_setup(setup, i) for i, setup in enumerate(setups)]
    built += [builder.build_case(draft) for draft in drafts]
    found = [*problems, *(problem for one in built for problem in one.notes.problems)]
    if found:
        raise _error(found, expansion.loaded.files)
    return built


def _error(problems: Sequence[Problem], files: Sequence[Path]) -> ConfigError:
    """All problems in the order of the files; a text shared by many entries is wrong once."""
    order = {str(path): i for i, path in enumerate(files)}
    once = {(one.file, one.line, one.message): one for one in reversed(problems)}
    return ConfigError(sorted(once.values(), key=lambda one: (order.get(one.file, len(order)), one)))


def _sinks(loaded: Loaded) -> Iterator[SinkSpec]:
    for i, sink in enumerate(loaded.config.sinks):
        mark = loaded.mark(("sinks", i))
        unset = loaded.unset.get(("sinks", i))
        yield SinkSpec(
            type=sink.type,
            name=sink.name,
            options=sink.options,
            required=sink.required,
            blocked=str(unset) if unset else None,
            source=Source(file=mark.file, line=mark.line),
        )


def _sink_errors(loaded: Loaded) -> Iterator[Problem]:
    for i, sink in enumerate(loaded.config.sinks):
        if unset := loaded.unset.get(("sinks", i)):
            path = f"{loaded.label(('sinks', i))} ({sink.name})"
            mark = unset.mark or loaded.mark(("sinks", i))
            yield Problem(file=mark.file, line=mark.line, path=path, message=str(unset))


def _unknown_sinks(loaded: Loaded) -> Iterator[str]:
    """Sinks that no installed package offers; an import path is only followed when the session starts."""
    named = [sink for sink in loaded.config.sinks if ":" not in sink.type]
    known = plugins.names("sinks") if named else ()
    for sink in named:
        if sink.type not in known:
            yield f"sink {sink.name}: there is no sink {sink.type!r}; known: {', '.join(known) or 'none'}"


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


def _settings(
    expansion: Expansion, layout: _Layout, cases: Sequence[Case], errors: Sequence[Problem]
) -> dict[str, Any]:
    config = expansion.loaded.config
    recorder = config.gpu_stats_recorder
    thresholds = {
        entry.name: entry.gpu_mem_use_warning_threshold
        for entry in config.entries
        if entry.gpu_mem_use_warning_threshold is not None
    }
    return {
        "delete_scratch": config.delete_scratch,
        "gpu_stats_interval_s": recorder.interval_s if recorder.active else 0,
        "run_reason": config.run_reason,
        "viewer_url": _viewer_url(expansion, layout),
        "gpu_mem_use_warning_threshold": config.gpu_mem_use_warning_threshold,
        "gpu_mem_use_warning_threshold_by_entry": thresholds,
        "grace_s": config.grace_s,
        "history_url": config.history.url if config.history else None,
        "config_files": tuple(str(path.absolute()) for path in expansion.loaded.files),
        "errors": tuple(str(error) for error in errors),
    }


def _viewer_url(expansion: Expansion, layout: _Layout) -> str | None:
    """The link to the session; the machine that serves it knows the host's paths."""
    config = expansion.loaded.config
    template = config.viewer_url_template
    if template is None:
        return config.viewer_url
    known = {
        "results_path": _on_host(expansion, str(layout.results_dir)),
        "session_name": layout.session,
        "session_path": _on_host(expansion, str(layout.directory)),
    }
    known |= {f"{name}_url": quote(value, safe="") for name, value in known.items()}
    unknown = [part for part in parse(template) if not isinstance(part, str) and part.name not in known]
    if unknown:
        message = f"{unknown[0].text}: unknown placeholder; known are {', '.join(known)}"
        raise ConfigError([expansion.problem(("viewer_url_template",), message)])
    return fill(parse(template), lambda atom: known[atom.name])


def _on_host(expansion: Expansion, path: str) -> str:
    """A path inside the container as the host sees it; the longest mount wins."""
    if not expansion.inside:
        return path
    mounts = [
        (
            expansion.path(item.name, inside=True, notes=Notes()),
            expansion.path(item.name, inside=False, notes=Notes()),
        )
        for item in expansion.loaded.config.paths
    ]
    for inside, host in sorted(mounts, key=lambda mount: -len(mount[0])):
        if path == inside or path.startswith(f"{inside.rstrip('/')}/"):
            return host + path[len(inside.rstrip("/")) :]
    return path


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


def _case_json(case: Case, directory: Path) -> dict[str, Any]:
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
        },
        "ray": case.cluster,
        "requirements": [asdict(requirement) for requirement in case.requirements],
        "repeat": case.repeat,
        "warmup": case.warmup,
        "tags": list(case.tags),
        "needs": list(case.needs),
        "fingerprint": case.fingerprint,
        "blocked": case.blocked,
    }


def _sink_json(sink: SinkSpec) -> dict[str, Any]:
    return {
        "name": sink.name,
        "type": sink.type,
        "required": sink.required,
        "options": dict(sink.options),
        "blocked": sink.blocked,
    }
