"""One execution on disk: a session like any other, with a record for each stub that ran, and its summary."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, get_args

from paceline.evals.configs import BenchmarkStub
from paceline.evals.jobs import Fault, Job, Maker, Outcome, State, maker_of
from paceline.evals.results import BenchmarkFailure, BenchmarkResult
from paceline.evals.stub_files import Busy, Marker, add_to_marker, owned, read_marker
from paceline.model import Case, Measurement, Plan, Record, Status, name_case
from paceline.record.codec import dump, load
from paceline.record.directory import SessionDir
from paceline.record.environment import Environment, capture
from paceline.record.events import (
    SESSION_FINISHED,
    SESSION_STARTED,
    EventLog,
    first_start,
    session_events,
    utc_now,
)
from paceline.record.files import write_atomic
from paceline.record.layout import EVENTS, RECORD, RESERVED, SUMMARY, other_environment
from paceline.record.lock import is_running
from paceline.record.redact import Redactor, secret_values
from paceline.run.context import Context, SilentListener

_STATUS = {"completed": Status.PASSED, "failed": Status.FAILED, "cancelled": Status.INTERRUPTED}
STATES: tuple[State, ...] = get_args(State)
TIMES = ("load_s", "generate_s", "prefill_s", "decode_s", "first_token_s", "token_s", "peak_memory_bytes")
_TIMEOUTS = frozenset({"timeout", "stall", "startup"})


@contextmanager
def open_session(root: Path, cases: Sequence[Case]) -> Iterator[Context]:
    """A new session for one execution, locked for as long as it is open."""
    redactor = Redactor(secret_values(os.environ))
    name, environment = new_name(root), capture(redactor=redactor)
    directory = SessionDir.create(Plan(session=name, directory=root / name), redactor)
    directory.lock()
    try:
        listed = [{"name": case.name, "key": case.key, "params": case.params} for case in cases]
        files = {
            "plan.json": {"session": name, "cases": listed, "setups": []},
            "environment.json": environment.data,
        }
        for file, data in files.items():
            write_atomic(directory.path / file, dump(data, pretty=True), durable=False)
        with EventLog(directory.path / EVENTS, redactor) as events:
            events.write(SESSION_STARTED, session=name, total=len(cases))
            yield Context(
                session=name,
                directory=directory,
                redactor=redactor,
                events=events,
                listener=SilentListener(),
                environ=os.environ,
                environment=environment,
            )
    finally:
        directory.unlock()


def new_name(root: Path) -> str:
    """The name of an execution that begins now; a number follows the time if two begin in one second."""
    name = f"execution_{datetime.now(UTC):%Y%m%d_%H%M%S}"
    number = 1
    while (root / name).exists():
        number += 1
        name = f"{name.partition('-')[0]}-{number}"
    return name


def stub_case(stub: BenchmarkStub) -> Case:
    """The case that a stub is in history: the benchmark's subset, with the model and the attention as parameters."""
    params = {"model": stub.model_name, "attention": stub.sparse_config_name}
    if stub.has_namesake:
        params["content"] = stub.key[:8]
    name = name_case(stub.task, params)
    return Case(
        name=name,
        entry=stub.task,
        key=name,
        fingerprint=stub.key,
        former_fingerprint=stub.key,
        params=params,
        version=str(stub.content["benchmark"]["version"]),
        tags=("evals", stub.benchmark_name),
    )


def stub_record(session: str, job: Job, outcome: Outcome, environment: Environment) -> Record:
    """What happened to a stub, as a record."""
    facts, fault = outcome.facts, outcome.fault
    status = _STATUS[outcome.state]
    if fault is not None and fault.fault_class in _TIMEOUTS:
        status = Status.TIMEOUT
    details = {"result_dir": job.stub.result_dir, "key": job.stub.key, "state": outcome.state}
    if "recovered_from" in facts:
        details["recovered_from"] = facts["recovered_from"]
    timings = {"load": outcome.load_s, "generate": float(facts.get("generate_s") or 0.0)}
    timings |= {name: float(facts[f"{name}_s"]) for name in ("prefill", "decode") if facts.get(f"{name}_s")}
    return Record(
        session=session,
        case=stub_case(job.stub),
        attempt=max(1, job.attempt),
        status=status,
        reason=_reason(outcome),
        started_at=outcome.started_at or utc_now(),
        exec_time_s=float(facts.get("execution_time_s") or outcome.seconds),
        timings_s=timings,
        returncode=fault.returncode if fault else None,
        metrics=_measurements(facts),
        params={"generation": dict(job.stub.generation_kwargs), "attention": job.stub.content["attention"]},
        environment=environment.id,
        revision=environment.revision,
        details={"evals": details},
    )


def _reason(outcome: Outcome) -> str:
    if outcome.fault is not None:
        return f"{outcome.fault.fault_class.value}: {outcome.fault.message}"
    return "interrupted before it was done" if outcome.state == "cancelled" else ""


def _measurements(facts: Mapping[str, Any]) -> dict[str, Measurement]:
    """The benchmark's numbers, and times of stubs that ran from beginning to end: parts cannot be compared."""
    metrics = facts.get("metrics") or {}
    found = {
        name: Measurement(value=value["value"], direction=value["direction"])
        for name, value in metrics.get("metrics", {}).items()
    }
    if metrics.get("density") is not None:
        found["density"] = Measurement(value=metrics["density"], direction="lower")
    if facts.get("asked") and facts["asked"] == facts.get("num_samples"):
        found["exec_time_s"] = Measurement(value=facts["execution_time_s"], unit="s", direction="lower")
        for name in ("generate_s", "prefill_s", "decode_s", "first_token_s", "token_s"):
            if facts.get(name) is not None:
                found[name] = Measurement(value=facts[name], unit="s", direction="lower")
    if facts.get("peak_memory_bytes"):
        peak = facts["peak_memory_bytes"]
        found["peak_memory_bytes"] = Measurement(value=peak, unit="bytes", direction="lower")
    return found


def result_of(stub: BenchmarkStub, outcome: Outcome) -> BenchmarkResult:
    return BenchmarkResult(
        stub=stub,
        metrics=outcome.facts["metrics"],
        execution_time=float(outcome.facts.get("execution_time_s") or outcome.seconds),
        result_dir=stub.result_dir,
        state="skipped" if outcome.state == "skipped" else "completed",
        facts=outcome.facts,
    )


def failure_of(job: Job, fault: Fault) -> BenchmarkFailure:
    return BenchmarkFailure(
        stub=job.stub,
        error_type=fault.error_type or fault.fault_class.value,
        error_message=fault.message,
        execution_time=fault.seconds,
        attempts=job.attempt,
        log_tail=fault.log_tail,
        traceback=fault.traceback,
    )


class Summary:
    """Counts outcomes, and writes them down when all is over."""

    def __init__(self, session: str, directory: Path, total: int) -> None:
        self._session, self._directory = session, directory
        self._total = total
        self.started = monotonic()
        self.counts: Counter[str] = Counter()
        self.results: dict[int, BenchmarkResult] = {}
        self.failures: dict[int, BenchmarkFailure] = {}

    def add(self, job: Job, outcome: Outcome) -> None:
        self.counts[outcome.state] += 1
        if outcome.state in ("completed", "skipped"):
            self.results[job.number] = result_of(job.stub, outcome)
        elif outcome.fault is not None:
            self.failures[job.number] = failure_of(job, outcome.fault)

    def data(self, **more: Any) -> dict[str, Any]:
        """What `execution_summary.json` holds."""
        counts: dict[str, int] = {state: self.counts[state] for state in STATES}
        assert sum(counts.values()) == self._total, counts
        return {
            "session": self._session,
            "total": self._total,
            **counts,
            "execution_time": monotonic() - self.started,
            **more,
            "results": [self._result(self.results[number]) for number in sorted(self.results)],
            "failures": [self._failure(self.failures[number]) for number in sorted(self.failures)],
        }

    def write(self, data: Mapping[str, Any]) -> None:
        write_atomic(self._directory / SUMMARY, dump(data, pretty=True))

    def _result(self, result: BenchmarkResult) -> dict[str, Any]:
        return {
            **_names(result.stub),
            "state": result.state,
            "score": result.score,
            "primary": result.metrics["primary"],
            "metrics": result.metrics["metrics"],
            "density": result.density,
            "execution_time": result.execution_time,
            **{name: result.facts.get(name) for name in TIMES},
            "num_samples": result.metrics["num_samples"],
            "directory": self._relative(Path(result.result_dir)),
        }

    def _failure(self, failure: BenchmarkFailure) -> dict[str, Any]:
        return {
            **_names(failure.stub),
            "error_type": failure.error_type,
            "error_message": failure.error_message,
            "attempts": failure.attempts,
            "execution_time": failure.execution_time,
            "log_tail": failure.log_tail,
            "directory": self._relative(Path(failure.stub.result_dir)),
        }

    def _relative(self, directory: Path) -> str:
        return os.path.relpath(directory, self._directory)


class ResultLinks:
    """Shows results in the directory of the execution too, in the same tree."""

    def __init__(self, directory: Path, root: Path) -> None:
        self._directory, self._root = directory, root
        self._tops: dict[str, str] = {}
        self._parents: dict[Path, str] = {}

    def add(self, result_dir: Path) -> None:
        model, *rest = result_dir.relative_to(self._root).parts
        if model not in self._tops:
            self._tops[model] = self._free(model)
        link = self._directory.joinpath(self._tops[model], *rest)
        if link.parent not in self._parents:
            link.parent.mkdir(parents=True, exist_ok=True)
            self._parents[link.parent] = os.path.relpath(result_dir.parent, link.parent)
        with suppress(FileExistsError):
            link.symlink_to(f"{self._parents[link.parent]}/{result_dir.name}")

    def _free(self, name: str) -> str:
        """A model's name, or one like it if the session has something of its own under that name."""
        while self._is_taken(name):
            name = f"_{name}"
        return name

    def _is_taken(self, name: str) -> bool:
        path = self._directory / name
        return name in RESERVED or name in self._tops.values() or path.is_file() or (path / RECORD).exists()


def _names(stub: BenchmarkStub) -> dict[str, Any]:
    return {
        "model": stub.model_name,
        "attention": stub.sparse_config_name,
        "benchmark": stub.benchmark_name,
        "subset": stub.subset,
        "rows": stub.source,
        "task": stub.task,
        "key": stub.key,
    }


class _Killed(NamedTuple):
    """A session whose runner was killed: where it is, and the keys of the stubs that it recorded."""

    directory: Path
    recorded: frozenset[str]


class Recovered(NamedTuple):
    """A stub of a killed session that this one records: what its marker says, and where it ran."""

    facts: Mapping[str, Any]
    environment: Environment


class UnrecordedStubs:
    """Finds them among the stubs that sessions before `maker` have done."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._directory = Path(maker.directory)
        self._sessions: dict[Maker, _Killed | None] = {}

    def take_over(self, job: Job, marker: Marker) -> Recovered | None:
        """A done stub that this session is to record; None if it is recorded, or is not ours to record.

        The session becomes its maker first: should this runner be killed too, the next one finds it by that.
        """
        directory = Path(job.stub.result_dir)
        if self._killed_maker(marker) is None:
            return None
        try:
            with owned(directory):
                now = read_marker(directory, job.stub.key)
                killed = None if now is None else self._killed_maker(now)
                if now is None or killed is None:
                    return None  # another session was faster
                environment = self._copy_environment(killed.directory)
                changed = {**self._maker.facts(), "recovered_from": maker_of(now.facts).session}
                add_to_marker(directory, changed)
                return Recovered({**now.facts, **changed}, environment)
        except (Busy, OSError, ValueError, KeyError, TypeError):  # a later session tries again
            return None

    def _killed_maker(self, marker: Marker) -> _Killed | None:
        """The killed session that made a stub and did not record it."""
        maker = maker_of(marker.facts)
        if maker not in self._sessions:
            self._sessions[maker] = self._find_killed(maker)
        killed = self._sessions[maker]
        return None if killed is None or marker.key in killed.recorded else killed

    def _find_killed(self, maker: Maker) -> _Killed | None:
        if not maker.started_at:
            return None
        # Beside us first: what was copied elsewhere goes on where it is now.
        for place in (self._directory.parent / maker.session, Path(maker.directory)):
            if first_start(place / EVENTS).get("time") == maker.started_at:
                last = session_events(place / EVENTS)[-1]["event"]
                if last == SESSION_FINISHED or is_running(place):
                    return None
                records = SessionDir.open(place).stored_records()
                passed = (record.case.fingerprint for _, record in records if record.status.ok)
                return _Killed(place, frozenset(passed))
        return None

    def _copy_environment(self, session_dir: Path) -> Environment:
        """Where the killed session ran, kept with ours as the nodes of a pool are."""
        data = (session_dir / "environment.json").read_bytes()
        facts = load(data)
        found = Environment(id=str(facts["id"]), class_id=str(facts["class_id"]), data=facts, packages=())
        write_atomic(self._directory / other_environment(found.id)[0], data, durable=False)
        return found
