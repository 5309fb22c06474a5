"""Drafts → cases: every text filled in, bounds and resources in the types that flow, a fingerprint for each."""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, get_args

from paceline.config.nodes import Location
from paceline.config.schema import DataSetup, Entry
from paceline.config.schema import Requirement as Bounds
from paceline.config.templates import Unset
from paceline.errors import MissingExtra, Problem
from paceline.model import Case, CaseKind, CheckKind, Limits, Requirement, Resources, Source
from paceline.plan.commands import RESULTS_PATH, Command, Filling, Recipe, Scripts, read_recipe
from paceline.plan.directories import SESSION_DIR
from paceline.plan.drafts import Draft
from paceline.plan.expansion import Expansion, Notes
from paceline.plan.fingerprint import FileHashes, find_program, fingerprint
from paceline.record.layout import DATA_SETUP, safe_name
from paceline.record.redact import is_secret_name

_CHECK_KINDS: tuple[CheckKind, ...] = get_args(CheckKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A case with what came up while it was made; `errors` are why it is blocked."""

    case: Case
    notes: Notes
    errors: tuple[Problem, ...] = ()


class CaseBuilder:
    """Makes the cases of one plan; `marks` are replaced in their texts once the fingerprint is made."""

    def __init__(self, expansion: Expansion, marks: Mapping[str, str]) -> None:
        self._expansion = expansion
        self._config = expansion.loaded.config
        self._marks = marks
        self._scripts = Scripts()
        self._hashes = FileHashes()
        self._fingerprints: dict[tuple[CaseKind, str], str] = {}
        self._unset: defaultdict[Location, list[Unset]] = defaultdict(list)
        for unset in expansion.loaded.all_unset:
            self._unset[unset.path[:2]].append(unset)
        self._recipes: dict[Location, tuple[Recipe, Notes]] = {}

    def build_case(self, draft: Draft) -> Built:
        """The case of a draft."""
        entry = draft.entry
        needs = {name: f"{SESSION_DIR}/{safe_name(name)}" for name in draft.needs}
        needs |= {name: f"{SESSION_DIR}/{DATA_SETUP}/{safe_name(name)}" for name in draft.setups}
        filling = self._filling(entry, ("entries", draft.position), params=draft.params, needs=needs)
        is_script = entry.script is not None
        command = filling.command(self._scripts, takes_results_flag=is_script)
        case = Case(
            name=draft.name,
            key=draft.key,
            params=draft.params,
            metrics_required=is_script,
            cluster=self._cluster(entry),
            requirements=tuple(_requirements(entry.requirements)),
            repeat=entry.repeat,
            warmup=entry.warmup,
            tags=tuple(entry.tags),
            needs=draft.needs,
            sink_data={data.name: data.options for data in entry.sink_data},
            **self._shared(entry, command, filling.recipe.location),
        )
        return self._finish(case, command, filling, needed=self._needed(draft))

    def build_setup(self, setup: DataSetup, position: int) -> Built:
        """The case of a data set-up; it makes data, not metrics."""
        filling = self._filling(setup, ("data_setups", position))
        command = filling.command(self._scripts, takes_results_flag=False)
        case = Case(
            name=setup.name,
            key=setup.name,
            kind="data_setup",
            metrics_required=False,
            **self._shared(setup, command, filling.recipe.location),
        )
        return self._finish(case, command, filling)

    def _needed(self, draft: Draft) -> list[str]:
        """The fingerprints of what a case needs; it was built before, unless there is a problem to tell."""
        keys: list[tuple[CaseKind, str]] = [("data_setup", name) for name in draft.setups]
        keys += [("entry", name) for name in draft.needs]
        return [self._fingerprints.get(key, "") for key in keys]

    def _filling(self, work: Entry | DataSetup, location: Location, **names: Any) -> Filling:
        if location not in self._recipes:
            notes = Notes()
            self._recipes[location] = (read_recipe(work, location, self._expansion, notes), notes)
        recipe, notes = self._recipes[location]
        filling = Filling(self._expansion, recipe, **names)
        filling.notes.add(notes)
        return filling

    def _shared(self, work: Entry | DataSetup, command: Command, location: Location) -> dict[str, Any]:
        """What entries and data set-ups have in common."""
        config = self._config
        mark = self._expansion.loaded.mark(location)
        return {
            "entry": work.name,
            "variant": self._expansion.setting.variant,
            "version": work.version,
            "script": command.script,
            "argv": command.argv,
            "env": command.env,
            "cwd": command.cwd,
            "results_path": command.results_path,
            "timeout_s": config.timeout_s_for(work),
            "grace_s": config.grace_s if work.grace_s is None else work.grace_s,
            "resources": _resources(work),
            "limits": Limits(processes=work.limits.processes, memory_bytes=work.limits.memory),
            "retries": work.retries,
            "delete_scratch": config.delete_scratch if work.delete_scratch is None else work.delete_scratch,
            "source": Source(file=mark.file, line=mark.line),
        }

    def _cluster(self, entry: Entry) -> dict[str, Any] | None:
        """The options of the entry's cluster; the size of the object store is kept as given."""
        options = self._config.ray_for(entry)
        if options is None:
            return None
        given = {
            key: getattr(options, key)
            for key in type(options).model_fields
            if key in options.model_fields_set
        }
        cluster = {key: value for key, value in given.items() if value is not None}
        size = self._config.object_store_size if entry.object_store_size is None else entry.object_store_size
        if size is not None:
            cluster.setdefault("object_store_memory", size)
        return cluster

    def _finish(self, case: Case, command: Command, filling: Filling, needed: Iterable[str] = ()) -> Built:
        notes, location = filling.notes, filling.recipe.location
        notes.secrets.update(value for name, value in case.env.items() if is_secret_name(name))
        unset = self._expansion.loaded.unset.get(location) or next(iter(notes.unset), None)
        program = command.script or find_program(command.argv, command.cwd)
        mark = fingerprint(
            case,
            script_hash=self._hashes.of(program) if program else "",
            secrets=notes.secrets,
            needs=needed,
        )
        self._fingerprints[case.kind, case.name] = mark
        case = replace(
            case,
            fingerprint=mark,
            argv=tuple([self._put_in(word, case) for word in case.argv]),
            env={name: self._put_in(value, case) for name, value in case.env.items()},
            cwd=case.cwd and self._put_in(case.cwd, case),
            results_path=self._put_in(case.results_path, case),
            blocked=_find_missing(case) if unset is None else str(unset),
        )
        errors = tuple(self._errors(case, location, notes)) if case.blocked else ()
        return Built(case=case, notes=notes, errors=errors)

    def _put_in(self, text: str, case: Case) -> str:
        if "\x00" in text:
            text = text.replace(RESULTS_PATH, case.results_path)
            for mark, value in self._marks.items():
                text = text.replace(mark, value)
        return text

    def _errors(self, case: Case, location: Location, notes: Notes) -> Iterator[Problem]:
        """The unset variables, each at the key that uses it; one elsewhere, in a data set, with the case's name."""
        loaded = self._expansion.loaded
        for unset in (*self._unset[location], *notes.unset):
            if unset.path[:1] in (("env",), ("script_base_dir",)):
                continue  # told when the configuration was loaded, once for all cases
            mark = unset.mark or loaded.mark(location)
            path = loaded.label(unset.path or location)
            if unset.path[:2] != location:
                path = f"{loaded.label(location)} ({case.name}): {path}"
            yield Problem(file=mark.file, line=mark.line, path=path, message=str(unset))
        missing = _find_missing(case)
        if missing:
            mark = loaded.mark(location)
            yield Problem(file=mark.file, line=mark.line, path=loaded.label(location), message=missing)


def _find_missing(case: Case) -> str | None:
    """What to install for the cluster of a case: Ray may be in our environment, or on the PATH of its own."""
    if case.cluster is None or find_spec("ray") or shutil.which("ray", path=case.env.get("PATH")):
        return None
    return str(MissingExtra("an entry with `ray:`", "ray"))


def _requirements(bounds: Iterable[Bounds]) -> Iterable[Requirement]:
    for one in bounds:
        for kind in _CHECK_KINDS:
            bound = getattr(one, kind)
            if bound is not None:
                yield Requirement(
                    metric=one.metric,
                    kind=kind,
                    bound=bound,
                    tolerance=one.tolerance,
                    severity=one.severity,
                )


def _resources(work: Entry | DataSetup) -> Resources:
    given = work.resources
    return Resources(
        cpus=given.cpus,
        gpus=given.gpus,
        memory_bytes=given.memory,
        exclusive=given.exclusive,
        labels=given.labels,
    )
