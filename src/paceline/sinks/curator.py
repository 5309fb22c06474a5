"""Sinks written for NeMo Curator's benchmarking framework, found and made to look like ours.

Such a class lies in `runner/sinks/NAME_sink.py` beside the configuration and derives from `runner.sinks.sink.Sink`.
Where that module is not there, one takes its place, in the sink's process alone.
"""

import inspect
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from paceline import plugins
from paceline.errors import PacelineError
from paceline.model import Case, Plan, Record, Report, Status
from paceline.record.codec import read_record, result_data, revive
from paceline.record.files import read_lines
from paceline.record.layout import LOGS, RECORD, RESULTS
from paceline.record.repository import git_of_suite
from paceline.sinks import Sink, SinkContext, Undeliverable

PROCESS_RESULT, FINISHED = "process_result", "register_benchmark_entry_finished"
STARTING = "register_benchmark_entry_starting"
_BASE = "runner.sinks.sink"
_PACKAGES = ("runner", "runner.sinks")


class _Runner(MetaPathFinder, Loader):
    """Comes last: finds the framework's base class for sinks where nobody else does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known = fullname in (*_PACKAGES, _BASE)
        return ModuleSpec(fullname, self, is_package=fullname in _PACKAGES) if known else None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == _BASE:
            module.__dict__["Sink"] = type("Sink", (_Base,), {"__module__": _BASE})


class _Base:
    """What the framework's class does itself, which is nothing; which hooks it asks for has changed over time."""

    def __init__(self, sink_config: Mapping[str, Any] | None = None) -> None:
        """A sink calls it with its configuration."""

    def finalize(self) -> None:
        """The session has ended."""


def find_class(kind: str) -> Any:
    """The class of a sink: by its name or import path, or the one in a file of the framework."""
    if not any(isinstance(finder, _Runner) for finder in sys.meta_path):
        sys.meta_path.append(_Runner())
    if not kind.endswith(".py"):
        return plugins.find("sinks", kind)
    file = Path(kind)
    sys.path.insert(0, str(file.parents[2]))
    try:
        module = import_module(f"runner.sinks.{file.stem}")
    except ImportError as error:
        raise PacelineError(f"cannot import the sink {kind!r}: {error}") from error
    classes = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and one.__module__ == module.__name__ and hasattr(one, "initialize")
    ]
    named = [one for one in classes if one.__name__.lower() == file.stem.replace("_", "")]
    if len(named or classes) != 1:
        raise PacelineError(
            f"{kind} has {len(classes)} classes with initialize(): it needs one, for the sink's name"
        )
    return (named or classes)[0]


def is_curator_class(sink_class: Any) -> bool:
    return any(hasattr(sink_class, name) for name in ("initialize", PROCESS_RESULT, FINISHED))


class CuratorAdapter(Sink):
    """For classes with `initialize`, a hook for each result, and `finalize`, as they were and as they are.

    initialize(session_name, env_data), process_result(result), finalize()
    initialize(session_name, session, env_dict), register_benchmark_entry_starting and _finished(result_dict,
    benchmark_entry), finalize()
    """

    def __init__(self, sink_class: Any, options: Mapping[str, Any], context: SinkContext) -> None:
        super().__init__(options, context)
        if not any(hasattr(sink_class, name) for name in (PROCESS_RESULT, FINISHED)):
            raise Undeliverable(f"{sink_class.__name__} has neither {PROCESS_RESULT}() nor {FINISHED}()")
        # It knows itself by the name in the configuration, which it got as a whole.
        self._wrapped = sink_class({"name": context.name, "enabled": True, **options})
        self._plan: Plan | None = None

    def open(self, plan: Plan) -> None:
        self._plan = plan
        environment = _environment(plan, self.context.environment)
        entries = [_entry(case) for case in plan.cases]
        session = SimpleNamespace(
            results_path=plan.directory.parent,
            entries=entries,
            data_setups=[_entry(case) for case in plan.setups],
            viewer_url=self.context.report_url or None,
            run_reason=plan.settings.run_reason,
        )
        name = plan.session
        self._call("initialize", (name, environment), (name, session, environment))

    # What these classes know, they know from this call: a new process has to make it again.
    reopen = open

    def record(self, record: Record) -> None:
        entry_dir = self.context.entry_dir(record.case)
        result = result_data(record, entry_dir, _tasks(record, entry_dir, self.context.session_dir))
        if hasattr(self._wrapped, PROCESS_RESULT):
            self._call(PROCESS_RESULT, (result,))
            return
        entry, begun = _entry(record.case), {"name": record.case.name, "success": False}
        if hasattr(self._wrapped, STARTING):
            self._call(STARTING, (begun, entry))
        self._call(FINISHED, ({**result, **_newer(record, entry_dir)}, entry))

    def close(self, report: Report) -> None:
        self._call("finalize", ())

    def _call(self, name: str, *forms: tuple[Any, ...]) -> None:
        """Call a hook with the arguments that it takes, of those that there are."""
        hook: Callable[..., Any] | None = getattr(self._wrapped, name, None)
        if hook is None:
            raise Undeliverable(f"{type(self._wrapped).__name__} has no {name}(): it fits neither interface")
        signature = inspect.signature(hook)
        for arguments in forms:
            try:
                signature.bind(*arguments)
            except TypeError:
                continue
            hook(*arguments)
            return
        counts = " or ".join(str(len(form)) for form in forms)
        taken = f"{type(self._wrapped).__name__}.{name}({', '.join(signature.parameters)})"
        raise Undeliverable(f"{taken} does not take {counts} arguments")


def _entry(case: Case) -> SimpleNamespace:
    """A case as the framework's `Entry`."""
    return SimpleNamespace(
        name=case.name,
        script=case.script,
        timeout_s=case.timeout_s,
        sink_data=dict(case.sink_data),
        get_sink_data=lambda name: case.sink_data.get(name, {}),
        requirements={one.metric: {f"{one.kind}_value": one.bound} for one in case.requirements},
        ray=dict(case.cluster or {}),
        delete_scratch=case.delete_scratch,
    )


def _environment(plan: Plan, environment: Mapping[str, Any]) -> dict[str, Any]:
    """All that we know, and what the framework has another name for."""
    return {
        **environment,
        "total_system_memory_bytes": environment.get("memory_bytes"),
        "git_commit": git_of_suite(environment).get("revision"),
        "python_version": (environment.get("python") or {}).get("version"),
        "run_reason": plan.settings.run_reason,
        "viewer_url": plan.settings.viewer_url,
    }


def _newer(record: Record, entry_dir: Path) -> dict[str, Any]:
    """A result by the names that the framework has now."""
    return {
        "cmd": list(record.command),
        "exec_started_at": record.started_at,
        "exit_code": record.returncode,
        "timed_out": record.status is Status.TIMEOUT,
        "logs_dir": str(entry_dir / LOGS),
        "warnings": list(record.warnings),
        "metrics": {name: measured.value for name, measured in record.metrics.items()},
        "params": dict(record.params),
        "requirements_not_met": {check.metric: check.reason for check in record.requirements if not check.ok},
        "error": record.reason,
    }


def _tasks(record: Record, entry_dir: Path, session_dir: Path) -> list[Any]:
    """What the run's tasks were, from the line of its latest attempt; none if the record is an earlier one's."""
    latest = read_record(entry_dir / RECORD, session_dir)
    if latest is None or latest.attempt != record.attempt:
        return []
    last = deque(read_lines(entry_dir / RESULTS, session_dir), maxlen=1)
    tasks = revive(last[0].get("tasks")) if last else None
    return tasks if isinstance(tasks, list) else []
