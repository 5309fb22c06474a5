"""Executions and results read back from disk."""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from paceline.evals.configs import AdapterConfig, BenchmarkStub, task_name
from paceline.evals.interfaces import EvalError, Source
from paceline.evals.results import BenchmarkResult
from paceline.evals.stub_files import DONE, PREDICTIONS, read_marker, read_spec
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
    return [f"{one['model']}/{one['attention']}/{entry_task(one)}" for one in failures]


def entry_task(entry: Mapping[str, Any]) -> str:
    """What the task of a summary's entry is called."""
    return str(entry.get("task") or task_name(entry["benchmark"], entry["subset"], "real"))


def toy_note(entries: Iterable[Mapping[str, Any]]) -> str:
    """What is to be known of results that are not of a benchmark's own rows; empty if all are."""
    kinds = Counter(entry.get("rows", "real") for entry in entries)
    said = {
        "toy": "toy rows of ours, which say nothing about a model",
        "generated": "rows made here, which compare with no published number",
    }
    return "; ".join(f"{kinds[kind]} of {text}" for kind, text in said.items() if kinds[kind])


def read_result(directory: Path) -> BenchmarkResult:
    """The result in a stub's directory; one that is not whole is an error."""
    spec = read_spec(directory)
    marker = None if spec is None else read_marker(directory, spec["key"])
    if spec is None or marker is None:
        raise EvalError(f"{directory} has no result that is whole: run it again")
    return BenchmarkResult(
        stub=_stub(spec, directory, marker.facts["metrics"]),
        metrics=marker.facts["metrics"],
        execution_time=float(marker.facts.get("execution_time_s") or 0.0),
        result_dir=str(directory),
        state="skipped",
        facts=marker.facts,
    )


def _stub(spec: Mapping[str, Any], directory: Path, metrics: Mapping[str, Any]) -> BenchmarkStub:
    """The stub of a result. What its attention was is in `content`: code of others' is not run to read results."""
    content = spec["content"]
    adapter = AdapterConfig(
        adapter_name=content["adapter"]["name"],
        model_kwargs=content["model"]["model_kwargs"],
        tokenizer_kwargs=content["model"]["tokenizer_kwargs"],
    )
    return BenchmarkStub(
        model_name=content["model"]["name"],
        sparse_config_name=content["attention"]["name"],
        sparse_attention_config=None,
        benchmark_name=content["benchmark"]["name"],
        subset=content["subset"],
        adapter_config=adapter,
        generation_kwargs=content["generation_kwargs"],
        result_dir=str(directory),
        key=spec["key"],
        content=content,
        source=_source(spec, metrics),
    )


def _source(spec: Mapping[str, Any], metrics: Mapping[str, Any]) -> Source:
    """Whether questions were the benchmark's own; results of before that was kept tell by what they have."""
    known: Source | None = spec.get("rows")
    if known is not None:
        return known
    benchmark = spec["content"]["benchmark"]
    has_data = any((benchmark.get("data") or {}).values())
    if "shipped_sample" in metrics.get("metrics", {}) or (
        benchmark["name"] == "mock_benchmark" and not has_data
    ):
        return "toy"
    return "generated" if benchmark["name"] == "ruler" and not has_data else "real"


def why_again(stub: BenchmarkStub) -> str:
    """What has changed since an earlier result of the same name, so that it does not count; empty if there is none."""
    directory = Path(stub.result_dir)
    plain = directory.with_name(directory.name.removesuffix(f"-{stub.key[:8]}"))
    for place in (plain, *sorted(plain.parent.glob(f"{glob.escape(plain.name)}-????????"))):
        spec = read_spec(place)
        if spec is not None and spec["key"] != stub.key and (place / DONE).exists():
            return ", ".join(differences(spec.get("content") or {}, stub.content))
    return ""


def differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    """Where two contents differ, leaf by leaf."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from differences(old.get(key), new.get(key), f"{name}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{name}[{number}]")
    elif old != new:
        is_hash = name.endswith("_sha256")
        yield f"{name} differs" if is_hash else f"{name} was {_shown(old)}, is {_shown(new)}"


def _shown(value: Any) -> str:
    text = "not there" if value is None else str(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


_LONGEST_SHOWN = 40


def state_of(stub: BenchmarkStub) -> str:
    """Whether a stub is done, begun or new."""
    directory = Path(stub.result_dir)
    if read_marker(directory, stub.key) is not None:
        return "done"
    return "partial" if (directory / PREDICTIONS).exists() else "new"
