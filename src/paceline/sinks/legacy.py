"""Sinks written for other interfaces, made to look like ours."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paceline.errors import MissingExtra
from paceline.model import Plan, Record, Report
from paceline.record.layout import entry_name
from paceline.sinks import Sink, SinkContext, Undeliverable
from paceline.sinks.curator import CuratorAdapter, is_curator_class


class _Adapter(Sink):
    def __init__(self, wrapped: Any, options: Mapping[str, Any], context: SinkContext) -> None:
        super().__init__(options, context)
        self._wrapped = wrapped


class RunLoggerAdapter(_Adapter):
    """For classes with start_session, start_run, log_params, log_metrics, log_artifact, end_run, end_session."""

    def open(self, plan: Plan) -> None:
        self._wrapped.start_session(plan.session)

    # What these classes know, they know from this call: a new process has to make it again.
    reopen = open

    def record(self, record: Record) -> None:
        self._wrapped.start_run(record.case.name)
        self._wrapped.log_params({**record.case.params, **record.params})
        self._wrapped.log_metrics({name: measured.value for name, measured in record.metrics.items()})
        for artifact in record.artifacts:
            place = self.context.find_file(f"{entry_name(record.case)}/{artifact}")
            if place is not None:
                self._wrapped.log_artifact(str(Path(*place)))
        self._wrapped.end_run(record.status.ok)

    def close(self, report: Report) -> None:
        self._wrapped.end_session(report.ok)


class DuckAdapter(_Adapter):
    """For classes with our methods, or some of them, that are not derived from `Sink`."""

    def open(self, plan: Plan) -> None:
        self._call("open", plan)

    def reopen(self, plan: Plan) -> None:
        self._call("reopen", plan)

    def record(self, record: Record) -> None:
        self._call("record", record)

    def close(self, report: Report) -> None:
        self._call("close", report)

    def end(self) -> None:
        self._call("end")

    def _call(self, method: str, *arguments: object) -> None:
        made = getattr(self._wrapped, method, None)
        if made is not None:
            made(*arguments)


def adapt(sink_class: Any, options: Mapping[str, Any], context: SinkContext) -> Sink:
    """An object of the class as one of our sinks, whichever interface it was written for."""
    if is_curator_class(sink_class):
        return CuratorAdapter(sink_class, options, context)
    if hasattr(sink_class, "start_session"):
        return RunLoggerAdapter(_construct(sink_class, options), options, context)
    check_extra(sink_class)
    made = sink_class(checked_options(sink_class, options), context)
    return made if isinstance(made, Sink) else DuckAdapter(made, options, context)


def check_extra(sink_class: Any) -> None:
    """Raise MissingExtra if what the class needs is not installed."""
    needs = getattr(sink_class, "needs", None)
    if needs is not None and not _is_installed(needs[0]):
        raise MissingExtra(f"the sink {sink_class.__name__}", needs[1])


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # A part of a package that is not there itself.
        return False


def checked_options(sink_class: Any, options: Mapping[str, Any]) -> Any:
    """The options as the class's own model has them; values are not quoted, for they may be secret."""
    model = getattr(sink_class, "Options", None)
    if model is None:
        return options
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        told = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False))
        raise Undeliverable(f"its options are wrong: {'; '.join(told)}") from None


def _construct(sink_class: Any, options: Mapping[str, Any]) -> Any:
    """The run-logger interface never said what its constructor takes: a config if it takes anything."""
    return sink_class() if sink_class.__init__ is object.__init__ else sink_class(dict(options))
