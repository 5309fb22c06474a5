"""A stub on its way through the execution: what it needs, what went wrong with it, by class, and how it ended."""

import errno
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from paceline.evals.code import take_file, taken_files
from paceline.evals.configs import (
    BenchmarkStub,
    ModelConfig,
    generation_from_content,
    model_from_content,
    model_spec,
)
from paceline.evals.interfaces import Adapter, TransientFault, Waiting, find, import_path
from paceline.evals.keys import content_key
from paceline.evals.stub_files import read_attempts

if TYPE_CHECKING:
    from paceline.evals.planning import Matrix
    from paceline.evals.scheduling import Costs

State = Literal["completed", "skipped", "failed", "cancelled"]


class FaultClass(StrEnum):
    """Why an attempt ended without a result."""

    OUT_OF_MEMORY = "out_of_memory"
    CRASH = "crash"
    STARTUP = "startup"
    STALL = "stall"
    TIMEOUT = "timeout"
    NETWORK = "network"
    ERROR = "error"
    """An exception that will come again: wrong arguments, missing data, a bug. Not tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How many times a stub is tried again after a fault of each class."""

    out_of_memory: int = 2
    crash: int = 2
    startup: int = 1
    stall: int = 1
    timeout: int = 1
    network: int = 5
    network_pause_s: float = 2.0
    longest_pause_s: float = 300.0

    def allows(self, fault: FaultClass, earlier: int) -> bool:
        """Whether one more try is due after so many earlier faults of the class."""
        return fault is not FaultClass.ERROR and earlier < int(getattr(self, fault.value))

    def pause_s(self, fault: FaultClass, earlier: int, random: Random) -> float:
        """How long to wait before it; twice as long each time for a network, with some chance in it."""
        if fault is not FaultClass.NETWORK:
            return 0.0
        full = min(self.network_pause_s * 2.0**earlier, self.longest_pause_s)
        return full * (0.5 + random.random() / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The three clocks of a stub: until its model is loaded, from one sample to the next, and all in all."""

    startup_timeout_s: float = 900.0
    stall_timeout_s: float = 1800.0
    timeout_per_benchmark_s: float = 86400.0


_NETWORK_ERRNOS = frozenset(
    {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.ECONNRESET}
)


# Of packages that are not imported for this; the errors of a download are wrapped in others by who asked for it.
_NETWORK_TYPES = frozenset(
    {
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "requests.exceptions.ChunkedEncodingError",
        "httpx.TransportError",
        "httpx2.TransportError",
        "aiohttp.client_exceptions.ClientConnectionError",
    }
)
_OFFLINE = "OfflineModeIsEnabled"
"""The hub's error, a `ConnectionError`, for a user who forbids all connections: it will not go away."""
_BUSY_STATUSES = frozenset({408, 425, 429})
_SERVER_FAULT = 500


def classify(error: BaseException) -> FaultClass:
    """The class of an exception by its type and the types of its causes, never by its words."""
    chain = list(_causes(error))
    kinds = [kind for one in chain for kind in type(one).__mro__]
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in kinds):
        return FaultClass.OUT_OF_MEMORY
    if any(kind.__name__ == _OFFLINE for kind in kinds):
        return FaultClass.ERROR
    return FaultClass.NETWORK if any(map(_is_network, chain)) else FaultClass.ERROR


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and what it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _is_network(error: BaseException) -> bool:
    if isinstance(error, TransientFault | ConnectionError | TimeoutError):
        return True
    if isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS:
        return True
    if any(f"{kind.__module__}.{kind.__qualname__}" in _NETWORK_TYPES for kind in type(error).__mro__):
        return True
    status = getattr(getattr(error, "response", None), "status_code", None)
    return isinstance(status, int) and (status >= _SERVER_FAULT or status in _BUSY_STATUSES)


def kernel_oom_kills() -> int:
    """How many processes the kernel has killed for memory so far; by it a SIGKILL is told from somebody's."""
    vmstat = _counter(Path("/proc/vmstat"), "oom_kill")
    return vmstat + _counter(Path("/sys/fs/cgroup/memory.events"), "oom_kill")


def _counter(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    words = (line.split() for line in lines)
    return next((int(word[1]) for word in words if len(word) == 2 and word[0] == name), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why an attempt gave no result."""

    fault_class: FaultClass
    message: str
    phase: str = ""
    error_type: str = ""
    returncode: int | None = None
    log_tail: str = ""
    traceback: str = ""
    device: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a stub ended, for good."""

    state: State
    facts: Mapping[str, Any] = field(default_factory=dict)
    fault: Fault | None = None
    started_at: str = ""
    seconds: float = 0.0
    load_s: float = 0.0


def stored_outcome(facts: Mapping[str, Any], state: State) -> Outcome:
    """How a stub ended earlier, by what its marker tells."""
    return Outcome(
        state=state,
        facts=facts,
        started_at=str(facts.get("started_at") or ""),
        seconds=float(facts.get("execution_time_s") or 0.0),
        load_s=float(facts.get("load_s") or 0.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """The session whose worker made a result; its name may be given again, and its directory be moved."""

    session: str
    started_at: str
    directory: str

    def facts(self) -> dict[str, str]:
        """As the completion marker has it."""
        return {
            "session": self.session,
            "session_started_at": self.started_at,
            "session_dir": self.directory,
        }

    def made(self, facts: Mapping[str, Any]) -> bool:
        """Whether a result is of this session."""
        told = facts.get("session"), facts.get("session_started_at")
        return told == (self.session, self.started_at)


def maker_of(facts: Mapping[str, Any]) -> Maker:
    """Who made a result, as far as its marker tells."""
    names = ("session", "session_started_at", "session_dir")
    session, started_at, directory = (str(facts.get(name) or "") for name in names)
    return Maker(session=session, started_at=started_at, directory=directory)


@dataclass(slots=True, kw_only=True)
class Job:
    """A stub that is to run; the supervisor alone changes it."""

    number: int
    stub: BenchmarkStub
    model_key: str
    payload: Mapping[str, Any]
    """What a worker is told besides the number of the lease."""
    maker: Maker
    expected_s: float | None = None
    memory_key: str = ""
    """What takes the same memory has the same: a model under an attention, with contexts of the same length."""
    memory_bytes: int = 0
    alone: bool = False
    after: int | None = None
    """The number of the job whose result it is held against while it runs, and which goes first."""
    faults: Counter[FaultClass] = field(default_factory=Counter)
    attempt: int = 0
    outcome: Outcome | None = None

    def waiting(self) -> Waiting:
        """The job as a scheduler sees it."""
        return Waiting(
            number=self.number,
            model_key=self.model_key,
            expected_s=self.expected_s,
            memory_bytes=self.memory_bytes,
            alone=self.alone,
        )


_FAULTS = frozenset(fault.value for fault in FaultClass)


def make_jobs(matrix: "Matrix", stubs: Sequence[BenchmarkStub], costs: "Costs", maker: Maker) -> list[Job]:
    """Stubs as the supervisor takes them, with what is known of their length, size and earlier faults."""
    adapter: type[Adapter] = find("eval_adapters", take_file(matrix.adapter.adapter_name))
    # With its name and password, which are not part of what is written down.
    models = (ModelConfig(model) if isinstance(model, str) else model for model in matrix.models)
    urls = {
        model.model_name: model_spec(model, matrix.adapter).model_kwargs.get("base_url") for model in models
    }
    sizes: dict[str, int] = {}
    jobs = []
    for number, stub in enumerate(stubs):
        held = {name: stub.content[name] for name in ("model", "adapter")}
        asked = {name: stub.content[name] for name in ("attention", "generation_kwargs", "request_kwargs")}
        memory_key = content_key({**held, **asked, "batch_size": stub.adapter_config.batch_size})
        if memory_key not in sizes:
            sizes[memory_key] = _memory_bytes(adapter, stub, costs.peak_bytes(memory_key))
        model_key = content_key(held)
        job = Job(
            number=number,
            stub=stub,
            model_key=model_key,
            payload=_payload(stub, model_key, adapter, urls.get(stub.model_name), maker),
            maker=maker,
            expected_s=costs.expected_s(stub),
            memory_key=memory_key,
            memory_bytes=sizes[memory_key],
        )
        for attempt in read_attempts(Path(stub.result_dir)):
            if attempt.get("fault") in _FAULTS:
                job.faults[FaultClass(attempt["fault"])] += 1
        jobs.append(job)
    _hold_against(jobs)
    return jobs


def _hold_against(jobs: Sequence[Job]) -> None:
    """Tell the jobs that may stop early where their baselines are, and how many rows the level is divided among."""
    names = [
        (job, (job.stub.content["request_kwargs"].get("early_stop") or {}).get("baseline")) for job in jobs
    ]
    of_questions = {_questions(job): job for job, name in names if name == job.stub.sparse_config_name}
    others = [job for job, name in names if name not in (None, job.stub.sparse_config_name)]
    for job in others:
        baseline = of_questions.get(_questions(job))
        if baseline is not None:
            job.after = baseline.number
            job.payload = {**job.payload, "baseline_dir": baseline.stub.result_dir, "rows": len(others)}


def _questions(job: Job) -> str:
    """What is the same for all attentions that are asked the same."""
    return content_key({name: part for name, part in job.stub.content.items() if name != "attention"})


def _memory_bytes(adapter: type[Adapter], stub: BenchmarkStub, peak_bytes: int | None) -> int:
    """What a model takes: as the user says, else as was seen, else as its adapter estimates, else nothing."""
    if stub.memory_bytes is not None:
        return stub.memory_bytes
    if peak_bytes is not None:
        return peak_bytes
    config = stub.adapter_config
    generation = generation_from_content(stub.content, config.batch_size, config.attention_bytes)
    return adapter.estimate_memory_bytes(model_from_content(stub.content), generation) or 0


def _payload(
    stub: BenchmarkStub, model_key: str, adapter: type[Adapter], base_url: object, maker: Maker
) -> dict[str, Any]:
    """What a worker is told of a stub besides the number of the lease."""
    return {
        "maker": maker.facts(),
        "base_url": base_url,
        "directory": stub.result_dir,
        "key": stub.key,
        "content": stub.content,
        "model_key": model_key,
        "adapter": import_path(adapter),
        "benchmark": import_path(find("eval_benchmarks", stub.benchmark_name)),
        "data_dir": None if stub.data_dir is None else str(Path(stub.data_dir).absolute()),
        "batch_size": stub.adapter_config.batch_size,
        "attention_bytes": stub.adapter_config.attention_bytes,
        "files": taken_files(),
        "source": stub.source,
    }
