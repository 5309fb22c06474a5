"""Predictions → scores: apart from generating, without a GPU, and as often as one likes."""

import csv
import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.evals.interfaces import (
    EvalBenchmark,
    EvalError,
    Prediction,
    Sample,
    Scores,
    find,
    make_benchmark,
)
from paceline.evals.keys import files_sha256
from paceline.evals.stub_files import (
    DONE,
    METRICS,
    RAW,
    Busy,
    PredictionLog,
    owned,
    read_spec,
    write_marked,
    write_marker,
)
from paceline.record.codec import dump, load

_COLUMNS = ("sample_id", "task", "question", "answer_prefix", "references", "predicted_answer")
_MEASURED = ("density", "input_tokens", "output_tokens", "group")


class ScoringError(EvalError):
    """A benchmark's scores are not what they must be."""


def score(
    benchmark: EvalBenchmark, samples: Sequence[Sample], predictions: Mapping[str, Prediction]
) -> Scores:
    """The scores of a whole stub; one that is missing or no number is an error, never a zero."""
    missing = [sample.id for sample in samples if sample.id not in predictions]
    if missing:
        raise ScoringError(f"{len(missing)} samples have no prediction, the first is {missing[0]!r}")
    scores = benchmark.score(samples, predictions)
    if scores.primary not in scores.metrics:
        raise ScoringError(
            f"{benchmark.name}: its primary metric {scores.primary!r} is not among its metrics"
        )
    for name, value in scores.metrics.items():
        if not math.isfinite(value.value):
            raise ScoringError(f"{benchmark.name}: {name} is {value.value}")
    return scores


def write_scores(
    directory: Path, samples: Sequence[Sample], predictions: Mapping[str, Prediction], scores: Scores
) -> dict[str, Any]:
    """Write `raw_results.csv` and `metrics.json`; hands back what the latter holds."""
    write_marked(directory / RAW, _table(samples, predictions, scores).encode("utf-8", "surrogatepass"))
    metrics = metrics_json(samples, predictions, scores)
    write_marked(directory / METRICS, dump(metrics, pretty=True))
    return metrics


def metrics_json(
    samples: Sequence[Sample], predictions: Mapping[str, Prediction], scores: Scores
) -> dict[str, Any]:
    """The numbers of a stub; nothing in it depends on time or place, so that equal results are equal bytes."""
    densities = [predictions[sample.id].density for sample in samples]
    known = [density for density in densities if density is not None]
    return {
        "primary": scores.primary,
        "overall_score": scores.metrics[scores.primary].value,
        "metrics": {
            name: {"value": v.value, "low": v.low, "high": v.high, "direction": v.direction, "n": v.n}
            for name, v in scores.metrics.items()
        },
        "density": sum(known) / len(known) if known and len(known) == len(densities) else None,
        "num_samples": len(samples),
    }


def _table(samples: Sequence[Sample], predictions: Mapping[str, Prediction], scores: Scores) -> str:
    names = sorted({name for found in scores.per_sample.values() for name in found})
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*_COLUMNS, *(f"score.{name}" for name in names), *_MEASURED])
    for sample in samples:
        prediction, found = predictions[sample.id], scores.per_sample.get(sample.id, {})
        references = json.dumps(list(sample.references), ensure_ascii=False)
        asked = (sample.id, sample.task, sample.question, sample.answer_prefix, references)
        measured = (prediction.density, prediction.input_tokens, prediction.output_tokens, _group(sample))
        writer.writerow([*asked, prediction.text, *(found.get(name) for name in names), *measured])
    return text.getvalue()


def _group(sample: Sample) -> str:
    """What samples that belong together have in common: what the benchmark says, else the document they ask about."""
    said = sample.extra.get("group")
    if said is None and sample.context:
        return hashlib.sha256(sample.context.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return "" if said is None else str(said)


def load_samples(benchmark: EvalBenchmark, content: Mapping[str, Any], data_dir: str | None) -> list[Sample]:
    """The samples that a stub asks; ids that are not unique would mix up its answers."""
    revision = content["benchmark"]["data"]["revision"]
    place = None if data_dir is None else Path(data_dir)
    samples = list(benchmark.load(content["subset"], data_dir=place, revision=revision))
    limit = content["request_kwargs"].get("max_requests")
    samples = samples if limit is None else samples[: int(limit)]
    if not samples:
        raise EvalError(f"benchmark {benchmark.name}: subset {content['subset']} has no samples")
    if len({sample.id for sample in samples}) != len(samples):
        raise EvalError(f"benchmark {benchmark.name}: subset {content['subset']} has an id twice")
    return samples


def score_again(directory: Path, *, data_dir: str | None = None) -> dict[str, Any]:
    """Score a stub's stored predictions once more, with the benchmark as it is now; needs no GPU and no model."""
    spec = read_spec(directory)
    if spec is None:
        raise EvalError(f"no stub in {directory}: give a directory with a spec.json")
    try:
        with owned(directory):
            return _score_again(directory, spec, _same_data(directory, spec, data_dir))
    except Busy:
        raise EvalError(f"{directory} is being worked on: wait until that has ended") from None


def _same_data(directory: Path, spec: Mapping[str, Any], given: str | None) -> str | None:
    """Where the local files are that the stub asked about: answers to other questions are not to be scored."""
    wanted = spec["content"]["benchmark"]["data"]["files_sha256"]
    if wanted is None:
        if given is not None:
            raise EvalError(f"{directory} was made without local data: leave out --data-dir")
        return None
    place = given or spec.get("data_dir")
    if place is None or not Path(place).exists():
        raise EvalError(f"the data of {directory} is not at {place}: tell by --data-dir where it is now")
    if files_sha256(Path(place)) != wanted:
        raise EvalError(f"{place} is not the data that {directory} was made of: run it again")
    return place


def _score_again(directory: Path, spec: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
    content = spec["content"]
    name = content["benchmark"]["name"]
    kind = find("eval_benchmarks", name)
    benchmark: EvalBenchmark = make_benchmark(kind, name, content["benchmark"]["params"])
    if benchmark.version != content["benchmark"]["version"]:
        was = content["benchmark"]["version"]
        raise EvalError(
            f"{directory} was made by version {was} of {name}, this is {benchmark.version}: run it again"
        )
    samples = load_samples(benchmark, content, data_dir)
    log = PredictionLog(directory, samples)
    log.close()
    facts = _facts(directory)
    scores = score(benchmark, samples, log.known)  # if this fails, all stays as it was
    (directory / DONE).unlink(missing_ok=True)
    metrics = write_scores(directory, samples, log.known, scores)
    write_marker(directory, spec["key"], {**facts, "metrics": metrics})
    return metrics


def _facts(directory: Path) -> Mapping[str, Any]:
    """What was measured while the stub ran, which scoring does not change."""
    try:
        marker = load((directory / DONE).read_bytes())
    except (OSError, ValueError):
        return {}
    facts = marker.get("facts") if isinstance(marker, dict) else None
    return facts if isinstance(facts, dict) else {}
