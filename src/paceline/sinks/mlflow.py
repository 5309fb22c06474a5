"""MLflow: a parent run for the session, and a child run for each record with metrics, parameters, tags and links."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from ssl import SSLError
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from pydantic import BaseModel, ConfigDict, Field

from paceline.model import Plan, Record, Report, Status, as_float
from paceline.record import below
from paceline.record.codec import dump, plain
from paceline.record.layout import LOGS, OUTPUT, RECORD, entry_name, last_run
from paceline.record.packages import CONDA, PACKAGES
from paceline.record.repository import git_of_suite
from paceline.sinks import Sink, SinkContext, TryLater, Undeliverable, note_answer

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, Run

URI = "MLFLOW_TRACKING_URI"
UNFINISHED = "paceline.unfinished"
METRICS_A_BATCH, PARAMS_A_BATCH = 1000, 100
"""What MLflow takes by one request."""
_SNAPSHOTS = ("environment.json", PACKAGES, CONDA, "config.yaml", "plan.json")
_REPORTS = ("report.md", "report.json", "junit.xml")
_PERMANENT = frozenset(
    {
        *("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "ENDPOINT_NOT_FOUND", "PERMISSION_DENIED"),
        *("UNAUTHENTICATED", "RESOURCE_DOES_NOT_EXIST", "FEATURE_DISABLED", "NOT_IMPLEMENTED"),
    }
)
# MLflow's own patience of minutes would outlast a call's time; ours is kept on disk.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
_QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1", "GIT_PYTHON_REFRESH": "quiet"}

KEY = "paceline.key"
LONGEST_NAME, LONGEST_VALUE = 250, 5000
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_\-. :/]")
# MLflow takes names for paths and refuses those that a path would not keep.
_NOT_A_PATH = re.compile(r"(^[./]+)|((?<=/)[./]+)|([./]+$)")


class MlflowOptions(BaseModel):
    """Which server or store, and what goes there."""

    model_config = ConfigDict(extra="forbid")

    tracking_uri: str | None = Field(
        default=None,
        description="`http://host:5000`, `sqlite:///file.db`, `databricks` …; `MLFLOW_TRACKING_URI` by default, else "
        "`mlflow.db` in the results directory.",
    )
    experiment: str = Field(
        default="paceline", min_length=1, description="The experiment; it is made if need be."
    )
    artifacts: bool = Field(default=True, description="Whether snapshots, logs and the report go with it.")
    largest_artifact_mb: float = Field(
        default=100, ge=0, description="Files that are larger stay where they are."
    )
    tags: dict[str, str] = Field(default={}, description="Further tags of the session's run.")


class MlflowSink(Sink):
    """Finds its runs by a tag with the call's key, so that a repeated call makes no second run."""

    Options = MlflowOptions
    needs = ("mlflow", "mlflow")

    def __init__(self, options: MlflowOptions, context: SinkContext) -> None:
        super().__init__(options, context)
        self.uri = _find_uri(options, context)
        self._may_be_there = True
        os.environ.update({name: os.environ.get(name, value) for name, value in _PATIENCE.items()})
        os.environ.update(_QUIET)
        if self.uri.partition(":")[0] not in ("http", "https", "sqlite", "databricks"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        _ask_for_health(self.uri)
        with _faults():
            self._client = _connect(self.uri)

    def open(self, plan: Plan) -> None:
        with _faults():
            experiment = self._experiment()
            run = self._find(experiment, self.context.session_id) or self._client.create_run(
                experiment,
                run_name=self.context.session,
                tags={**self.options.tags, **session_tags(plan, self.context)},
            )
            self.context.save_state(experiment=experiment, parent=run.info.run_id)
            self._send_files(run.info.run_id, _SNAPSHOTS)
        self.context.say(link_to(self.uri, experiment, run.info.run_id, self.context.environ))

    def record(self, record: Record) -> None:
        with _faults():
            run = self._child(record)
            self._log(run, record)
            entry = entry_name(record.case)
            logs = f"{last_run(self.context.session_dir, entry)}/{LOGS}/{OUTPUT}"
            # A stub of evals has its output in the entry itself.
            output = logs if self.context.find_file(logs) else f"{entry}/{OUTPUT}"
            self._send_files(run.info.run_id, [f"{entry}/{RECORD}", output])
            status = _STATUSES.get(record.status, "FAILED")
            self._client.set_terminated(run.info.run_id, status=status, end_time=ends_at_ms(record))
        self._may_be_there = False

    def close(self, report: Report) -> None:
        with _faults():
            parent = self._state("parent")
            self._client.log_batch(parent, metrics=make_counts(report, self.context))
            self._client.set_tag(parent, "paceline.ok", str(report.ok).lower())
            if report.unfinished:
                self._client.set_tag(parent, UNFINISHED, report.unfinished[:5000])
            elif UNFINISHED in self._client.get_run(parent).data.tags:  # It was cut short, and went on.
                self._client.delete_tag(parent, UNFINISHED)
            self._send_files(parent, _REPORTS)
            ended = "KILLED" if report.interrupted or report.unfinished else "FINISHED"
            self._client.set_terminated(parent, status=ended if ended == "KILLED" or report.ok else "FAILED")

    def _child(self, record: Record) -> "Run":
        experiment, parent = self._state("experiment"), self._state("parent")
        # Only the first record of a process, or one that failed just now, may be there already.
        run = self._find(experiment, self.context.key) if self._may_be_there else None
        self._may_be_there = True
        return run or self._client.create_run(
            experiment,
            start_time=started_at_ms(record),
            run_name=record.case.name,
            tags=record_tags(record, self.context, parent),
        )

    def _log(self, run: "Run", record: Record) -> None:
        """Numbers, parameters and all, in as few requests as MLflow allows; what is there already stays."""
        known = run.data.metrics
        metrics: Sequence[Metric] = [one for one in make_metrics(record) if one.key not in known]
        params = make_params(record)
        count = max(len(metrics) / METRICS_A_BATCH, len(params) / PARAMS_A_BATCH)
        for i in range(int(-(-count // 1))):
            self._client.log_batch(
                run.info.run_id,
                metrics=metrics[i * METRICS_A_BATCH : (i + 1) * METRICS_A_BATCH],
                params=params[i * PARAMS_A_BATCH : (i + 1) * PARAMS_A_BATCH],
            )

    def _send_files(self, run_id: str, names: Sequence[str]) -> None:
        """Upload copies, in which secrets are masked, of what is there."""
        with TemporaryDirectory(dir=self.context.state_dir) as copies:
            for name in names if self.options.artifacts else ():
                parts = self.context.read_masked(name, self.options.largest_artifact_mb * 1e6)
                if parts is not None:
                    copy = Path(copies, name.rpartition("/")[2])
                    below.write(copies, copy.name, parts, durable=False)
                    if copy.stat().st_size:
                        self._client.log_artifact(run_id, str(copy))

    def _experiment(self) -> str:
        found = self._client.get_experiment_by_name(self.options.experiment)
        if found is not None:
            return str(found.experiment_id)
        return str(self._client.create_experiment(self.options.experiment, artifact_location=self._shelf()))

    def _shelf(self) -> str | None:
        """Where artifacts go: beside an SQLite file that is ours; elsewhere the server knows."""
        if not self.uri.startswith("sqlite:///"):
            return None
        database = Path(self.uri.removeprefix("sqlite:///").partition("?")[0])
        return database.absolute().with_suffix(".artifacts").as_uri()

    def _find(self, experiment: str, key: str) -> "Run | None":
        found = self._client.search_runs([experiment], f"tags.`{KEY}` = '{key}'", max_results=1)
        return found[0] if found else None

    def _state(self, name: str) -> str:
        value = self.context.load_state().get(name)
        if value is None:
            raise Undeliverable("the session's run is not known: its state file is gone")
        return str(value)


_STATUSES: Mapping[Status, str] = {Status.PASSED: "FINISHED", Status.INTERRUPTED: "KILLED"}


def _find_uri(options: MlflowOptions, context: SinkContext) -> str:
    uri = options.tracking_uri or context.environ.get(URI)
    if not uri:
        return f"sqlite:///{context.session_dir.parent.absolute()}/mlflow.db"
    password = urlsplit(uri).password if "://" in uri else None
    if password:
        context.keep_secret(password)
    return uri


def _ask_for_health(uri: str) -> None:
    """Whether a server is there at all, before MLflow's import, which takes seconds, and its own patience."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=f"{parts.path.rstrip('/')}/health")
    try:
        with urlopen(address.geturl(), timeout=20):  # noqa: S310 - http only, see above
            note_answer()
    except HTTPError as error:  # Any word is one: who may ask for what is MLflow's business.
        error.close()
        note_answer()
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        if not isinstance(reason, SSLError):  # MLflow has its own settings for certificates.
            raise TryLater(f"{parts.hostname} cannot be reached: {reason}") from None
    except ValueError:  # Not an address for us, and perhaps one for MLflow.
        return


def _connect(uri: str) -> "MlflowClient":
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


@contextmanager
def _faults() -> Iterator[None]:
    """Tells apart what MLflow refuses and what may go better later."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        text = " ".join(str(error).split())[:300]
        if error.error_code in _PERMANENT:
            raise Undeliverable(text) from error
        raise TryLater(text) from error
    except json.JSONDecodeError as error:
        raise TryLater(f"the answer is no JSON: {error}") from error


def make_metrics(record: Record) -> "list[Metric]":
    """Each metric with its samples as steps; where there are several, the record's value comes last."""
    from mlflow.entities import Metric

    at_ms = started_at_ms(record)
    found = []
    for name, measured in record.metrics.items():
        key = safe_name(name)
        values = measured.samples if len(measured.samples) > 1 else ()
        for step, value in enumerate([*values, measured.value]):
            number = as_float(value)
            if number is not None:
                found.append(Metric(key=key, value=number, timestamp=at_ms, step=step))
    return found


def make_counts(report: Report, context: SinkContext) -> "list[Metric]":
    """How many cases ended how; the same at every try, and a step for each time that the session came to an end.

    From the second time on those that there are none of count, too: there may have been some.
    """
    from mlflow.entities import Metric

    at_ms = as_ms(str(context.environment.get("captured_at", "")))
    step = int(context.key.rpartition("-")[2])
    counts = {**(dict.fromkeys(Status, 0) if step > 1 else {}), **report.counts}
    return [
        Metric(key=status.value, value=float(count), timestamp=at_ms, step=step)
        for status, count in counts.items()
    ]


def make_params(record: Record) -> "list[Param]":
    from mlflow.entities import Param

    given = {**record.case.params, **record.params}
    return [Param(safe_name(name), _text(value)) for name, value in given.items()]


def safe_name(name: str) -> str:
    """A name that MLflow takes; one that had to be changed ends with a hash, so that no two become one."""
    kept = _NOT_A_PATH.sub("_", _NOT_IN_NAMES.sub("_", name))[:LONGEST_NAME]
    if kept == name and name:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{kept[: LONGEST_NAME - 7]}-{digest}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else dump(value).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def session_tags(plan: Plan, context: SinkContext) -> dict[str, str]:
    """What is known of a session before it runs: who it is, the repository, the machine."""
    return {
        KEY: context.session_id,
        "paceline.session": context.session,
        "paceline.cases": str(len(plan.cases)),
        **dict(_environment_tags(context.environment)),
        **({"paceline.reason": reason} if (reason := plan.settings.run_reason) else {}),
        **({"paceline.report": context.report_url} if context.report_url else {}),
    }


def _environment_tags(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    git = git_of_suite(environment)
    names = {"revision": "mlflow.source.git.commit", "branch": "mlflow.source.git.branch"}
    for name, tag in names.items():
        if git.get(name):
            yield tag, str(git[name])
    if "dirty" in git:
        yield "paceline.git.dirty", str(git["dirty"]).lower()
    cpu, python = environment.get("cpu") or {}, environment.get("python") or {}
    facts = {
        "hostname": environment.get("hostname"),
        "platform": environment.get("platform"),
        "environment": environment.get("id"),
        "environment_class": environment.get("class_id"),
        "cpu": cpu.get("model"),
        "cpus": cpu.get("count"),
        "memory_bytes": environment.get("memory_bytes"),
        "python": python.get("version"),
    }
    for name, fact in facts.items():
        if fact is not None:
            yield f"paceline.{name}", _text(str(fact))


def record_tags(record: Record, context: SinkContext, parent: str) -> dict[str, str]:
    """What a child run is found by, and what of its record is neither number nor parameter."""
    texts = {
        f"metric.{safe_name(name)}": _text(plain(measured.value))
        for name, measured in record.metrics.items()
        if as_float(measured.value) is None
    }
    facts = {
        "mlflow.parentRunId": parent,
        KEY: context.key,
        "paceline.session": record.session,
        "paceline.case": record.case.name,
        "paceline.case_key": record.case.key,
        "paceline.attempt": str(record.attempt),
        "paceline.status": record.status.value,
        "paceline.reason": record.reason,
        "paceline.environment": record.environment,
        "mlflow.source.git.commit": record.revision,
        "paceline.tags": ",".join(record.case.tags),
        "paceline.warnings": "\n".join(record.warnings),
    }
    return {**texts, **{name: _text(fact) for name, fact in facts.items() if fact}}


def started_at_ms(record: Record) -> int:
    return as_ms(record.started_at)


def as_ms(time: str) -> int:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def ends_at_ms(record: Record) -> int:
    return started_at_ms(record) + round(1000 * record.exec_time_s)


def link_to(uri: str, experiment: str, run: str, environ: Mapping[str, str]) -> str:
    """Where people look at a run: an address, or the command that serves it."""
    page = f"experiments/{experiment}/runs/{run}"
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https"):
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}/#/{page}"
    if uri.startswith("databricks"):
        return f"{environ.get('DATABRICKS_HOST', 'databricks:').rstrip('/')}/#mlflow/{page}"
    return f"run {run}, to be seen by: mlflow ui --backend-store-uri {uri}"
