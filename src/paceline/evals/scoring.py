"""Predictions → scores: apart from generating, without a GPU, and as often as one likes."""

import csv
import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from paceline.evals.code import remember_files
from paceline.evals.interfaces import (
    EvalBenchmark,
    EvalError,
    Prediction,
    Sample,
    Scores,
    find,
    make_benchmark,
)
from paceline.evals.planning import data_sha256
from paceline.evals.repeats import REPEAT_OF, repeated, score_repeats
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
    if _is_repeated(samples):
        scores = score_repeats(benchmark, samples, predictions)
    else:
        scores = benchmark.score(samples, predictions)
    if scores.primary not in scores.metrics:
        raise ScoringError(
            f"{benchmark.name}: its primary metric {scores.primary!r} is not among its metrics"
        )
    for name, value in scores.metrics.items():
        if not math.isfinite(value.value):
            raise ScoringError(f"{benchmark.name}: {name} is {value.value}")
    return scores


def _is_repeated(samples: Sequence[Sample]) -> bool:
    return any(REPEAT_OF in sample.extra for sample in samples)


def write_scores(
    directory: Path,
    samples: Sequence[Sample],
    predictions: Mapping[str, Prediction],
    scores: Scores,
    stopped: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write `raw_results.csv` and `metrics.json`; hands back what the latter holds.

    `stopped` says after how many samples it was decided that the others need not be asked.
    """
    write_marked(directory / RAW, _table(samples, predictions, scores).encode("utf-8", "surrogatepass"))
    metrics = metrics_json(samples, predictions, scores) | ({} if stopped is None else {"stopped": stopped})
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
        **_endings([predictions[sample.id] for sample in samples]),
        **_layers([predictions[sample.id] for sample in samples]),
    }


def _endings(predictions: Sequence[Prediction]) -> dict[str, dict[str, int]]:
    """Why answers ended, by how many of them; `length` had their budget used up. Nothing where nobody says."""
    told = Counter(
        str(one.extra["finish_reason"])[:40] for one in predictions if "finish_reason" in one.extra
    )
    return {"finish_reasons": dict(sorted(told.items()))} if told else {}


def _layers(predictions: Sequence[Prediction]) -> dict[str, list[float]]:
    """The mean density, and the mean error if it was measured, of each layer that a sparse attention computed."""
    found = {}
    for name in ("layer_density", "layer_error"):
        rows = [one.extra[name] for one in predictions if name in one.extra]
        if rows and len(rows) == len(predictions) and len({len(row) for row in rows}) == 1:
            found[name] = [sum(layer) / len(rows) for layer in zip(*rows, strict=True)]
    return found


def times(predictions: Iterable[Prediction]) -> dict[str, float | int | None]:
    """What generating took, by what was measured with each answer; None for what an adapter does not tell."""
    found = list(predictions)

    def total(name: str) -> Any:
        values = [getattr(one, name) for one in found]
        return None if any(value is None for value in values) else sum(values)

    first = sorted(one.first_token_s for one in found if one.first_token_s is not None)
    later = [(one.token_s, (one.output_tokens or 2) - 1) for one in found if one.token_s is not None]
    steps = sum(count for _, count in later)
    generate_s, prefill_s = total("seconds"), total("prefill_s")
    return {
        "generate_s": generate_s,
        "prefill_s": prefill_s,
        "decode_s": None if prefill_s is None else generate_s - prefill_s,
        "first_token_s": median(first) if first else None,
        "token_s": sum(token_s * count for token_s, count in later) / steps if steps else None,
        "input_tokens": total("input_tokens"),
        "output_tokens": total("output_tokens"),
    }


def _table(samples: Sequence[Sample], predictions: Mapping[str, Prediction], scores: Scores) -> str:
    names = sorted({name for found in scores.per_sample.values() for name in found})
    more = [
        name
        for name, is_there in (("weight", scores.weights), (REPEAT_OF, _is_repeated(samples)))
        if is_there
    ]
    measures = (*_MEASURED, *more)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*_COLUMNS, *(f"score.{name}" for name in names), *measures])
    for sample in samples:
        prediction, found = predictions[sample.id], scores.per_sample.get(sample.id, {})
        references = json.dumps(list(sample.references), ensure_ascii=False)
        asked = (sample.id, sample.task, sample.question, sample.answer_prefix, references)
        tokens = prediction.input_tokens, prediction.output_tokens
        told = {"weight": scores.weights.get(sample.id, ""), REPEAT_OF: sample.extra.get(REPEAT_OF, "")}
        measured = (prediction.density, *tokens, sample_group(sample), *(told[name] for name in more))
        writer.writerow([*asked, prediction.text, *(found.get(name) for name in names), *measured])
    return text.getvalue()


def sample_group(sample: Sample) -> str:
    """What samples that belong together have in common: what the benchmark says, else the document they ask about."""
    said = sample.extra.get("group")
    if said is None and sample.context:
        return hashlib.sha256(sample.context.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return "" if said is None else str(said)


def in_parts(samples: Sequence[Sample], count: int, seed: int) -> Iterator[list[Sample]]:
    """All samples in so many parts of about equally many documents, which are drawn by chance, but always the same."""
    documents: dict[str, list[Sample]] = {}
    for sample in samples:
        documents.setdefault(sample_group(sample) or sample.id, []).append(sample)
    order = sorted(documents, key=lambda name: hashlib.sha256(f"{seed}\0{name}".encode()).digest())
    ends = [math.ceil(len(order) * (part + 1) / count) for part in range(count)]
    for start, end in zip([0, *ends], ends, strict=False):
        yield [sample for name in order[start:end] for sample in documents[name]]


def load_samples(benchmark: EvalBenchmark, content: Mapping[str, Any], data_dir: str | None) -> list[Sample]:
    """The samples that a stub asks; ids that are not unique would mix up its answers."""
    data = content["benchmark"]["data"]
    revision = data.get("commit") or data["revision"]
    place = None if data_dir is None else Path(data_dir)
    samples = list(benchmark.load(content["subset"], data_dir=place, revision=revision))
    limit = content["request_kwargs"].get("max_requests")
    samples = samples if limit is None else samples[: int(limit)]
    turns = int(content["request_kwargs"].get("repeat") or 1)
    samples = repeated(samples, turns) if turns > 1 else samples
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
            return _score_again(directory, spec, data_dir)
    except Busy:
        raise EvalError(f"{directory} is being worked on: wait until that has ended") from None


def _same_data(
    directory: Path, spec: Mapping[str, Any], benchmark: EvalBenchmark, given: str | None
) -> str | None:
    """Where the local files are that the stub asked about: answers to other questions are not to be scored."""
    content = spec["content"]
    wanted = content["benchmark"]["data"]["files_sha256"]
    stored = spec.get("data_dir")
    if stored is None and given is not None:
        raise EvalError(f"{directory} was made without local data: leave out --data-dir")
    place = given or stored
    if place is not None and not Path(place).exists():
        raise EvalError(f"the data of {directory} is not at {place}: tell by --data-dir where it is now")
    if data_sha256(benchmark, content["subset"], None if place is None else Path(place)) != wanted:
        raise EvalError(f"{place} is not the data that {directory} was made of: run it again")
    return place


def _score_again(directory: Path, spec: Mapping[str, Any], given: str | None) -> dict[str, Any]:
    content = spec["content"]
    name = content["benchmark"]["name"]
    remember_files({} if spec.get("code_file") is None else {name.rpartition(":")[0]: spec["code_file"]})
    kind = find("eval_benchmarks", name)
    benchmark: EvalBenchmark = make_benchmark(kind, name, content["benchmark"]["params"])
    if benchmark.version != content["benchmark"]["version"]:
        was = content["benchmark"]["version"]
        raise EvalError(
            f"{directory} was made by version {was} of {name}, this is {benchmark.version}: run it again"
        )
    data_dir = _same_data(directory, spec, benchmark, given)
    samples = load_samples(benchmark, content, data_dir)
    log = PredictionLog(directory, samples)
    log.close()
    facts = _facts(directory) or {**times(log.known.values()), "num_samples": len(samples)}
    stopped = (facts.get("metrics") or {}).get("stopped")
    if stopped is not None:
        asked = islice(in_parts(samples, stopped["looks"], content["seed"]), stopped["look"])
        samples = [sample for part in asked for sample in part]
    scores = score(benchmark, samples, log.known)  # if this fails, all stays as it was
    (directory / DONE).unlink(missing_ok=True)
    metrics = write_scores(directory, samples, log.known, scores, stopped)
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
