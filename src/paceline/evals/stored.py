"""Executions and results read back from disk."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.evals.attention_config import attention_from_content
from paceline.evals.configs import AdapterConfig, BenchmarkStub
from paceline.evals.interfaces import EvalError
from paceline.evals.results import BenchmarkResult
from paceline.evals.stub_files import PREDICTIONS, read_marker, read_spec
from paceline.record.codec import load
from paceline.record.layout import EVENTS, SUMMARY


def find_execution(place: Path, *, finished: bool = True) -> Path:
    """The execution at a path, or the newest one of the results directory at it."""
    wanted = SUMMARY if finished else EVENTS
    if (place / wanted).is_file():
        return place
    found = sorted(place.glob(f"execution_*/{wanted}"), key=lambda path: path.parent.name)
    if not found:
        what = "execution that has ended" if finished else "execution"
        raise EvalError(f"no {what} in {place}: name a results directory of 'paceline evals run'")
    return found[-1].parent


def read_summary(execution: Path) -> dict[str, Any]:
    """What `execution_summary.json` says."""
    try:
        data = load((execution / SUMMARY).read_bytes())
    except (OSError, ValueError) as error:
        raise EvalError(f"{execution / SUMMARY} cannot be read: {error}") from error
    if not isinstance(data, dict) or "results" not in data:
        raise EvalError(f"{execution / SUMMARY} is not a summary of an execution")
    return data


def read_results(execution: Path) -> list[BenchmarkResult]:
    """The results of an execution, from the directories of its stubs."""
    return [
        read_result(Path(os.path.normpath(execution / entry["directory"])))
        for entry in read_summary(execution)["results"]
    ]


def failed_stubs(execution: Path, baseline: str) -> list[str]:
    """The stubs of other attentions than the baseline that have failed, by their names."""
    failures = [one for one in read_summary(execution).get("failures", ()) if one["attention"] != baseline]
    tasks = (f"{one['benchmark']}_{one['subset']}" if one["subset"] else one["benchmark"] for one in failures)
    return [f"{one['model']}/{one['attention']}/{task}" for one, task in zip(failures, tasks, strict=True)]


def read_result(directory: Path) -> BenchmarkResult:
    """The result in a stub's directory; one that is not whole is an error."""
    spec = read_spec(directory)
    marker = None if spec is None else read_marker(directory, spec["key"])
    if spec is None or marker is None:
        raise EvalError(f"{directory} has no result that is whole: run it again")
    return BenchmarkResult(
        stub=_stub(spec, directory),
        metrics=marker.facts["metrics"],
        execution_time=float(marker.facts.get("execution_time_s") or 0.0),
        result_dir=str(directory),
        state="skipped",
        facts=marker.facts,
    )


def _stub(spec: Mapping[str, Any], directory: Path) -> BenchmarkStub:
    content = spec["content"]
    adapter = AdapterConfig(
        adapter_name=content["adapter"]["name"],
        model_kwargs=content["model"]["model_kwargs"],
        tokenizer_kwargs=content["model"]["tokenizer_kwargs"],
    )
    return BenchmarkStub(
        model_name=content["model"]["name"],
        sparse_config_name=content["attention"]["name"],
        sparse_attention_config=attention_from_content(content["attention"]["maskers"]),
        benchmark_name=content["benchmark"]["name"],
        subset=content["subset"],
        adapter_config=adapter,
        generation_kwargs=content["generation_kwargs"],
        result_dir=str(directory),
        key=spec["key"],
        content=content,
    )


def state_of(stub: BenchmarkStub) -> str:
    """Whether a stub is done, begun or new."""
    directory = Path(stub.result_dir)
    if read_marker(directory, stub.key) is not None:
        return "done"
    return "partial" if (directory / PREDICTIONS).exists() else "new"
