"""The process that runs stubs, one after the other, on one device; what it knows is on disk or told to the parent."""

import os
import select
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.evals.attention_config import attention_from_content
from paceline.evals.code import remember_files
from paceline.evals.configs import generation_from_content, model_from_content
from paceline.evals.early_stop import find_early_stop
from paceline.evals.interfaces import (
    Adapter,
    ContextGroup,
    Device,
    EvalBenchmark,
    Sample,
    find,
    group_by_context,
    make_benchmark,
)
from paceline.evals.jobs import classify
from paceline.evals.launch import Wire
from paceline.evals.scoring import in_parts, load_samples, score, times, write_scores
from paceline.evals.stub_files import Busy, PredictionLog, owned, read_marker, write_marker, write_spec
from paceline.record.events import utc_now

PROGRESS_EVERY_S = 0.05
"""Often enough for clocks and views; a message for each sample could cost more than the sample."""
_KEPT_SUBSETS = 64


class Paused(Exception):
    """The parent asked to stop after the current sample."""


class Worker:
    """Holds at most one model; takes leases from the parent until it says stop or goes away."""

    def __init__(self, wire: Wire, settle_log: Callable[[], None] = lambda: None) -> None:
        self._wire = wire
        self._settle_log = settle_log
        self._adapter: Adapter | None = None
        self._resident = ""
        self._attention: Any = ()
        self._benchmarks: dict[str, EvalBenchmark] = {}
        self._samples: dict[str, list[Sample]] = {}
        self._load_s = 0.0
        self._told_at = 0.0
        self._phase = ""

    def serve(self) -> int:
        """Until the parent has no more for us."""
        self._wire.send({"t": "ready", "pid": os.getpid()})
        while not self._wire.closed:
            for message in self._wire.receive():
                if message["do"] == "stop":
                    self._unload()
                    return 0
                if message["do"] == "lease":
                    answer = {"lease": message["lease"], **self._answer(message)}
                    self._wire.send({**answer, "resident": self._resident})
                    if answer["t"] == "paused":
                        return 0
        return 0

    def _answer(self, lease: Mapping[str, Any]) -> dict[str, Any]:
        """Run one lease; whatever is raised on the way is this attempt's fault, and told."""
        self._phase = "data"
        try:
            return self._run(lease)
        except Busy:
            return {"t": "busy"}
        except Paused:
            return {"t": "paused"}
        except Exception as error:  # noqa: BLE001 - one stub's fault must not end the others
            traceback.print_exc()
            sys.stdout.flush()
            self._settle_log()  # the parent shows its last lines
            return {
                "t": "fault",
                "class": classify(error).value,
                "phase": self._phase,
                "error_type": type(error).__name__,
                "message": _first_line(error),
                "traceback": traceback.format_exc()[-8000:],
            }

    def _run(self, lease: Mapping[str, Any]) -> dict[str, Any]:
        directory, key, content = Path(lease["directory"]), lease["key"], lease["content"]
        remember_files(lease["files"])
        started, started_at = time.monotonic(), utc_now()
        directory.mkdir(parents=True, exist_ok=True)
        with owned(directory):
            if (done := read_marker(directory, key)) is not None:
                return {"t": "done", "facts": done.facts}
            files = lease["files"]
            code_file = files.get(content["benchmark"]["name"].rpartition(":")[0])
            write_spec(directory, key, content, lease["data_dir"], code_file, lease["source"])
            benchmark, samples = self._load_samples(lease)
            log = PredictionLog(directory, samples)
            try:
                asked, counted, stopped = self._ask(lease, benchmark, samples, log)
                self._phase = "score"
                self._tell(lease["lease"], "scoring")
                log.sync()
            finally:
                log.close()
            scores = score(benchmark, counted, log.known)
            metrics = write_scores(directory, counted, log.known, scores, stopped)
            wall_s = time.monotonic() - started - self._load_s
            facts = self._facts(lease, counted, log, asked, wall_s)
            facts |= {"metrics": metrics, "started_at": started_at, "load_s": self._load_s}
            write_marker(directory, key, facts)
        if asked and (end_stub := getattr(self._adapter, "end_stub", None)) is not None:
            end_stub()
        return {"t": "done", "facts": facts}

    def _facts(
        self,
        lease: Mapping[str, Any],
        samples: Sequence[Sample],
        log: PredictionLog,
        asked: int,
        wall_s: float,
    ) -> dict[str, Any]:
        peak = self._adapter.peak_memory_bytes() if self._adapter and asked else None
        return {
            "execution_time_s": wall_s,
            **times(log.known[sample.id] for sample in samples),
            "num_samples": len(samples),
            "asked": asked,
            "peak_memory_bytes": peak,
            "attempt": lease["attempt"],
            "device": lease["device"],
            **lease["maker"],
        }

    def _load_samples(self, lease: Mapping[str, Any]) -> tuple[EvalBenchmark, list[Sample]]:
        """Benchmark and samples; kept, since the same subset is asked under every attention."""
        content = lease["content"]
        benchmark = self._benchmark(lease["benchmark"], content["benchmark"])
        name = repr((lease["benchmark"], content["benchmark"], content["subset"], content["request_kwargs"]))
        if name not in self._samples:
            while len(self._samples) >= _KEPT_SUBSETS:
                self._samples.pop(next(iter(self._samples)))
            self._samples[name] = load_samples(benchmark, content, lease["data_dir"])
        return benchmark, self._samples[name]

    def _benchmark(self, path: str, content: Mapping[str, Any]) -> EvalBenchmark:
        name = repr((path, content))
        if name not in self._benchmarks:
            kind = find("eval_benchmarks", path)
            self._benchmarks[name] = make_benchmark(kind, content["name"], content["params"])
        return self._benchmarks[name]

    def _ask(
        self,
        lease: Mapping[str, Any],
        benchmark: EvalBenchmark,
        samples: Sequence[Sample],
        log: PredictionLog,
    ) -> tuple[int, Sequence[Sample], Mapping[str, Any] | None]:
        """Ask what has no answer yet: how many that was, which samples count, and what was decided before the end."""
        missing = sum(sample.id not in log.known for sample in samples)
        self._load_s = self._prepare(lease) if missing else 0.0
        begun = {"t": "begun", "lease": lease["lease"], "load_s": self._load_s}
        self._wire.send({**begun, "total": len(samples), "known": len(samples) - missing})
        self._told_at = time.monotonic()
        content = lease["content"]
        rule = content["request_kwargs"].get("early_stop")
        stop = find_early_stop(rule, lease.get("baseline_dir"), lease.get("rows", 1))
        if stop is None:
            return self._generate(lease, samples, log), samples, None
        asked, so_far = 0, list[Sample]()
        for look, part in enumerate(in_parts(samples, stop.looks, content["seed"]), start=1):
            asked += self._generate(lease, part, log)
            so_far += part
            if len(so_far) == len(samples):
                break
            p_value = stop.p_value(benchmark, so_far, log.known)
            if p_value is not None and p_value <= stop.level:
                told = {"after": len(so_far), "of": len(samples), "look": look, "looks": stop.looks}
                return asked, so_far, {**told, "p_value": p_value}
        return asked, samples, None

    def _generate(self, lease: Mapping[str, Any], samples: Sequence[Sample], log: PredictionLog) -> int:
        """Ask those of some samples that have no answer yet; how many they were."""
        missing = [sample for sample in samples if sample.id not in log.known]
        if not missing:
            return 0
        adapter = self._adapter
        generation = generation_from_content(lease["content"], lease["batch_size"], lease["attention_bytes"])
        assert adapter is not None
        self._phase = "generate"
        groups = group_by_context(missing)
        together = len(groups) if getattr(adapter, "takes_all", False) else lease["batch_size"]
        for batch in _batches(groups, together):
            for prediction in adapter.generate(batch, generation):
                log.append(prediction)
                self._tell_progress(lease["lease"], len(log.known))
        return len(missing)

    def _prepare(self, lease: Mapping[str, Any]) -> float:
        """Have the lease's model resident with its attention; seconds that loading took."""
        self._phase = "load"
        load_s = 0.0
        if self._resident != lease["model_key"] or self._adapter is None:
            self._unload()
            started = time.monotonic()
            adapter = _make_adapter(lease)
            adapter.load()
            self._adapter, self._resident, self._attention = adapter, lease["model_key"], ()
            load_s = time.monotonic() - started
        attention = lease["content"]["attention"]
        if self._attention == () or self._attention != attention:
            self._attention = ()
            self._adapter.set_attention(attention_from_content(attention))
            self._attention = attention
        return load_s

    def _unload(self) -> None:
        adapter, self._adapter, self._resident = self._adapter, None, ""
        if adapter is not None:
            adapter.close()

    def _tell_progress(self, lease: int, known: int) -> None:
        if self._tell(lease, "sample", known=known) and select.select([self._wire], [], [], 0)[0]:
            asked = {message["do"] for message in self._wire.receive()}
            if self._wire.closed or asked & {"pause", "stop"}:
                raise Paused

    def _tell(self, lease: int, what: str, **fields: Any) -> bool:
        """Show that the work goes on, unless that was shown a moment ago."""
        now = time.monotonic()
        if now - self._told_at < PROGRESS_EVERY_S:
            return False
        self._told_at = now
        return self._wire.send({"t": what, "lease": lease, **fields})


def _make_adapter(lease: Mapping[str, Any]) -> Adapter:
    spec = model_from_content(lease["content"])
    if lease.get("base_url") is not None:
        spec = replace(spec, model_kwargs={**spec.model_kwargs, "base_url": lease["base_url"]})
    ident = lease["device"]
    kind = "cpu" if ident.startswith("cpu") else "cuda"
    device = Device(name=kind, id=ident, count=ident.count(",") + 1)
    adapter: Adapter = find("eval_adapters", lease["adapter"])(spec, device)
    return adapter


def _batches(groups: Sequence[ContextGroup], size: int) -> Iterator[Sequence[ContextGroup]]:
    return (groups[start : start + size] for start in range(0, len(groups), size))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


def main(fd: int, paths: Sequence[str], settle_log: Callable[[], None]) -> int:
    """The worker's side of the socket; `paths` is where the parent imports from."""
    sys.path.extend(path for path in paths if path not in sys.path)
    os.set_inheritable(fd, False)
    wire = Wire(socket.socket(fileno=fd))
    try:
        return Worker(wire, settle_log).serve()
    finally:
        sys.stdout.flush()
