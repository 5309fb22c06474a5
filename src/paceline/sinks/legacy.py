"""Sinks written for the two older interfaces, made to look like ours."""

from collections.abc import Mapping
from typing import Any

from paceline.model import Plan, Record, Report
from paceline.record.codec import result_data
from paceline.record.layout import entry_path
from paceline.sinks import Sink, SinkContext


class RunLoggerAdapter(Sink):
    """For classes with start_session, start_run, log_params, log_metrics, log_artifact, end_run, end_session."""

    def __init__(self, wrapped: Any, options: Mapping[str, Any], context: SinkContext) -> None:
        super().__init__(options, context)
        self._wrapped = wrapped

    def open(self, plan: Plan) -> None:
        self._wrapped.start_session(plan.session)

    def record(self, record: Record) -> None:
        entry_dir = entry_path(self.context.session_dir, record.case)
        self._wrapped.start_run(record.case.name)
        self._wrapped.log_params({**record.case.params, **record.params})
        self._wrapped.log_metrics({name: measured.value for name, measured in record.metrics.items()})
        for artifact in record.artifacts:
            self._wrapped.log_artifact(str(entry_dir / artifact))
        self._wrapped.end_run(record.status.ok)

    def close(self, report: Report) -> None:
        self._wrapped.end_session(report.ok)


class ResultDictAdapter(Sink):
    """For classes with initialize(session_name, env), process_result(result) and finalize()."""

    def __init__(self, wrapped: Any, options: Mapping[str, Any], context: SinkContext) -> None:
        super().__init__(options, context)
        self._wrapped = wrapped

    def open(self, plan: Plan) -> None:
        self._wrapped.initialize(plan.session, dict(self.context.environment))

    def record(self, record: Record) -> None:
        entry_dir = entry_path(self.context.session_dir, record.case)
        self._wrapped.process_result(result_data(record, entry_dir))

    def close(self, report: Report) -> None:
        self._wrapped.finalize()


def adapt(sink_class: Any, options: Mapping[str, Any], context: SinkContext) -> Sink:
    """An object of the class as one of our sinks, whichever interface it was written for."""
    if hasattr(sink_class, "process_result"):
        return ResultDictAdapter(sink_class(dict(options)), options, context)
    if hasattr(sink_class, "start_session"):
        return RunLoggerAdapter(_construct(sink_class, options), options, context)
    sink: Sink = sink_class(options, context)
    return sink


def _construct(sink_class: Any, options: Mapping[str, Any]) -> Any:
    """The run-logger interface never said what its constructor takes: a config if it takes anything."""
    return sink_class() if sink_class.__init__ is object.__init__ else sink_class(dict(options))
