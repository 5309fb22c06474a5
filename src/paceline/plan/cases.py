"""Drafts → cases: every text filled in, bounds and resources in the types that flow, a fingerprint for each."""

import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, get_args

from paceline.config.nodes import Location
from paceline.config.schema import DataSetup, Entry, MetricMeaning
from paceline.config.templates import Unset
from paceline.errors import MissingExtra, Problem
from paceline.metrics import AUTOMATIC
from paceline.model import Case, CaseKind, CheckKind, Limits, Metric, Requirement, Resources, Source
from paceline.plan.commands import DEFAULT_RESULTS_PATH, RESULTS_PATH, Command, Filling, Scripts
from paceline.plan.directories import SESSION_DIR
from paceline.plan.expansion import Expansion, Notes
from paceline.plan.fingerprints import FORMULA, FileHashes, Fingerprints, SecretNames, fingerprint
from paceline.plan.selection import Draft
from paceline.plan.suites import Found
from paceline.record.layout import DATA_SETUP, safe_name

_CHECK_KINDS: tuple[CheckKind, ...] = get_args(CheckKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A case with what came up while it was made; `errors` are why it is blocked."""

    case: Case
    notes: Notes
    errors: tuple[Problem, ...] = ()


class CaseBuilder:
    """Makes the cases of one plan; `sentinels` are replaced in their texts once the fingerprint is made."""

    def __init__(self, expansion: Expansion, sentinels: Mapping[str, str], names: SecretNames) -> None:
        self._expansion = expansion
        self._config = expansion.loaded.config
        self._sentinels = sentinels
        self._secret_names = names
        self._scripts: Scripts = {}
        self._hashes = FileHashes()
        self._fingerprints: dict[tuple[CaseKind, str], Fingerprints] = {}
        self._unset: defaultdict[Location, list[Unset]] = defaultdict(list)
        for unset in expansion.loaded.all_unset:
            self._unset[unset.path[:2]].append(unset)

    def build_case(self, draft: Draft) -> Built:
        """The case of a draft."""
        entry, location = draft.work, ("entries", draft.position)
        needs = {name: f"{SESSION_DIR}/{safe_name(name)}" for name in draft.needs}
        needs |= {name: f"{SESSION_DIR}/{DATA_SETUP}/{safe_name(name)}" for name in draft.setups}
        filling = Filling(
            expansion=self._expansion, work=entry, location=location, params=draft.params, needs=needs
        )
        is_script = entry.script is not None
        is_suite = entry.pytest is not None or entry.asv is not None
        command = (
            _suite_command(filling, draft.found)
            if is_suite
            else filling.command(self._scripts, takes_results_flag=is_script)
        )
        fields = {
            **self._shared(entry, command, location),
            "name": draft.name,
            "key": draft.key,
            "params": draft.params,
            "metrics_required": is_script or is_suite,
            "cluster": self._cluster(entry),
            "requirements": tuple(_requirements(entry)),
            "repeat": entry.repeat,
            "warmup": entry.warmup,
            "disturbed": entry.disturbed,
            "tags": draft.tags,
            "watch": tuple(_watched(entry)),
            "metrics": tuple(_meanings(self._config.metrics, entry.metrics)),
            "needs": draft.needs,
            "sink_data": {data.name: data.options for data in entry.sink_data},
            "gpu_mem_use_warning_threshold": self._config.gpu_mem_use_warning_threshold
            if entry.gpu_mem_use_warning_threshold is None
            else entry.gpu_mem_use_warning_threshold,
        }
        if draft.found is not None:
            fields |= _said_by_suite(entry, draft.found)
            fields |= {"process": draft.group, "joins": draft.found.joins} if entry.share_process else {}
        # What it needs was built before, unless there is a problem to report.
        nothing = Fingerprints()
        needed = [self._fingerprints.get(("data_setup", name), nothing) for name in draft.setups]
        needed += [self._fingerprints.get(("entry", name), nothing) for name in draft.needs]
        return self._finish(fields, location, filling.notes, needed, draft.faults)

    def build_setup(self, setup: DataSetup, position: int) -> Built:
        """The case of a data set-up; it makes data, not metrics."""
        location = ("data_setups", position)
        filling = Filling(expansion=self._expansion, work=setup, location=location)
        command = filling.command(self._scripts, takes_results_flag=False)
        fields = {
            **self._shared(setup, command, location),
            "name": setup.name,
            "key": setup.name,
            "kind": "data_setup",
            "metrics_required": False,
        }
        return self._finish(fields, location, filling.notes)

    def _shared(self, work: Entry | DataSetup, command: Command, location: Location) -> dict[str, Any]:
        """What entries and data set-ups have in common."""
        config, resources = self._config, work.resources
        mark = self._expansion.loaded.mark(location)
        return {
            **command._asdict(),
            "entry": work.name,
            "variant": self._expansion.setting.variant,
            "version": work.version,
            "timeout_s": config.default_timeout_s if work.timeout_s is None else work.timeout_s,
            "grace_s": config.grace_s if work.grace_s is None else work.grace_s,
            "resources": Resources(
                cpus=resources.cpus,
                gpus=resources.gpus,
                memory_bytes=resources.memory,
                exclusive=resources.exclusive,
                labels=resources.labels,
            ),
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
        given = {key: getattr(options, key) for key in type(options).model_fields}
        cluster = {
            key: value
            for key, value in given.items()
            if key in options.model_fields_set and value is not None
        }
        size = self._config.object_store_size if entry.object_store_size is None else entry.object_store_size
        if size is not None:
            cluster.setdefault("object_store_memory", size)
        return cluster

    def _finish(
        self,
        fields: dict[str, Any],
        location: Location,
        notes: Notes,
        needed: Sequence[Fingerprints] = (),
        faults: Sequence[Problem] = (),
    ) -> Built:
        """The case of these fields with its fingerprint, and with values in place of sentinels."""
        case = Case(**fields)
        unset = self._expansion.loaded.unset.get(location) or next(iter(notes.unset), None)
        setting = self._expansion.setting
        program = case.script or find_program(case.argv, case.cwd)
        if setting.placeholders and program and program.startswith(setting.path):
            program = None  # of an environment that may not be built yet: what it is made of counts
        found = fingerprint(
            case,
            script_hash=self._hashes.of(program) if program else "",
            variables=notes.variables,
            names=self._secret_names,
            needs=needed,
            placeholders=setting.placeholders,
        )
        self._fingerprints[case.kind, case.name] = found
        env = {name: self._put_in(value, case) for name, value in case.env.items()}
        missing = _find_missing(env.get("PATH")) if case.cluster is not None else None
        fields |= {
            "fingerprint": found.now,
            "formula": FORMULA,
            "former_fingerprint": found.former,
            "argv": tuple([self._put_in(word, case) for word in case.argv]),
            "env": env,
            "cwd": case.cwd and self._put_in(case.cwd, case),
            "results_path": self._put_in(case.results_path, case),
            "blocked": str(unset)
            if unset is not None
            else setting.blocked.get(case.name, missing) or next(map(str, faults), None),
        }
        case = Case(**fields)  # A third of the time of dataclasses.replace.
        errors = (*self._errors(case, location, notes, missing), *faults) if case.blocked else ()
        return Built(case=case, notes=notes, errors=errors)

    def _put_in(self, text: str, case: Case) -> str:
        if "\x00" in text:
            text = text.replace(RESULTS_PATH, case.results_path)
            for sentinel, value in self._sentinels.items():
                text = text.replace(sentinel, value)
        return text

    def _errors(self, case: Case, location: Location, notes: Notes, missing: str | None) -> Iterator[Problem]:
        """The unset variables, each at the key that uses it; one elsewhere, in a data set, with the case's name."""
        loaded = self._expansion.loaded
        for unset in (*self._unset[location], *notes.unset):
            if unset.path[:1] in (("env",), ("script_base_dir",)):
                continue  # reported when the configuration was loaded, once for all cases
            problem = loaded.problem(unset.path or location, str(unset))
            if unset.path[:2] != location:
                problem = replace(problem, path=f"{loaded.label(location)} ({case.name}): {problem.path}")
            yield problem
        if missing:
            yield loaded.problem(location, missing)


def _suite_command(filling: Filling, found: Found | None) -> Command:
    """What runs a test or a benchmark of a suite; nothing where the suite could not say what it has."""
    call = filling.suite()
    if found is None:
        return Command((), call.env, call.cwd, DEFAULT_RESULTS_PATH, None)
    env = {**call.env, **found.env}
    return Command(found.argv, env, call.cwd or found.cwd, DEFAULT_RESULTS_PATH, found.file)


def _said_by_suite(entry: Entry, found: Found) -> dict[str, Any]:
    """What a suite says of a case, where the entry does not."""
    said = {"version": found.version, "timeout_s": found.timeout_s, "repeat": found.rounds}
    given = entry.model_fields_set
    source = Source(file=found.file, line=found.line)
    return {
        "source": source,
        **{name: one for name, one in said.items() if one is not None and name not in given},
    }


def _find_missing(search_path: str | None) -> str | None:
    """What to install for the cluster of a case: Ray may be in our environment, or on the PATH of its own."""
    if find_spec("ray") or shutil.which("ray", path=search_path):
        return None
    return str(MissingExtra("an entry with `ray:`", "ray"))


def _requirements(entry: Entry) -> Iterator[Requirement]:
    for one in entry.requirements:
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


def _meanings(general: Mapping[str, MetricMeaning], own: Mapping[str, MetricMeaning]) -> Iterator[Metric]:
    """What is said about metrics, the entry's word first."""
    for name in dict.fromkeys((*own, *general)):
        said = [one[name] for one in (own, general) if name in one]
        parts = {
            key: next((value for one in said if (value := getattr(one, key)) is not None), None)
            for key in ("unit", "direction", "label")
        }
        yield Metric(name=name, **parts)


def _watched(entry: Entry) -> Iterator[str]:
    """The metrics of every case that somebody wants to hear of: by name, or since a requirement is about them."""
    yield from dict.fromkeys(
        (*entry.watch, *(one.metric for one in entry.requirements if one.metric in AUTOMATIC))
    )


def find_program(argv: Sequence[str], cwd: str | None) -> str | None:
    """The file that a command runs, if it names one by its path; a program found by PATH is the machine's."""
    name = argv[0] if argv else ""
    if "/" not in name or "\x00" in name or "\x00" in (cwd or ""):
        return None
    path = os.path.join(cwd or os.getcwd(), name)  # noqa: PTH109, PTH118 - asked for each case, and Paths cost more
    return path if os.path.isfile(path) else None  # noqa: PTH113
