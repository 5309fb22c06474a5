"""An execution of evals for the demo's history: two models under five attentions, with a score for each sample."""

import csv
import random
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from paceline.history import SessionInfo, Store
from paceline.history.session_info import session_id
from paceline.model import Case, Measurement, Plan, Record, Status
from paceline.record.codec import dump
from paceline.record.directory import SessionDir

SAMPLES = 160
TASKS = {"longbench": ("qasper", "hotpotqa", "triviaqa"), "ruler": ("niah_single", "variable_tracking")}
MODELS = {"invented-1b": 0.58, "invented-8b": 0.81}
ATTENTIONS = {  # the share of keys it looks at, and of what the dense one knows that it loses
    "dense": (1.0, 0.0),
    "oracle_top_k": (0.11, 0.01),
    "hash_attention": (0.12, 0.05),
    "streaming": (0.06, 0.31),
    "random_sampling": (0.15, 0.22),
}


def add_evals(store: Store, directory: Path, start: datetime, environment: Mapping[str, Any]) -> None:
    """Write an execution's files as `paceline evals run` leaves them, and remember it."""
    began = start.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    name = f"execution_{start:%Y%m%d_%H%M%S}"
    path = directory / name
    info = SessionInfo(id=session_id(name, began), name=name, started_at=began, directory=str(path))
    results = list(_results(directory))
    records = [_record(result, info, str(environment["id"])) for result in results]
    session = SessionDir.create(
        Plan(session=name, directory=path, cases=tuple(record.case for record in records))
    )
    for record in records:
        session.prepare(record.case)
        session.write_record(record)
    summary = {"session": name, "total": len(results), "results": results, "failures": []}
    (path / "execution_summary.json").write_bytes(dump(summary, pretty=True))
    store.add(info, environment, records)


def _results(directory: Path) -> Iterator[dict[str, Any]]:
    for model, skill in MODELS.items():
        for benchmark, subsets in TASKS.items():
            for subset in subsets:
                # The same questions are hard for each attention, as they are in life.
                chance = random.Random(f"{model}/{subset}")  # noqa: S311 - made-up numbers
                ease = [chance.random() for _ in range(SAMPLES)]
                for attention in ATTENTIONS:
                    yield _result(directory, (model, attention, benchmark, subset), skill, ease)


def _result(
    directory: Path, names: tuple[str, str, str, str], skill: float, ease: list[float]
) -> dict[str, Any]:
    model, attention, benchmark, subset = names
    density, loss = ATTENTIONS[attention]
    chance = random.Random("/".join(names))  # noqa: S311 - made-up numbers
    far = 0.4 if subset == "triviaqa" else 1.0
    scores = [float(one < skill and chance.random() >= loss * far) for one in ease]
    place = Path(model, attention, f"{benchmark}_{subset}")
    key = "/".join(names)
    (directory / place).mkdir(parents=True)
    with (directory / place / "raw_results.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("sample_id", "score.accuracy"))
        writer.writerows((f"{subset}-{number:03d}", score) for number, score in enumerate(scores))
    content = {"model": {"name": model}, "benchmark": {"name": benchmark}, "subset": subset, "seed": 0}
    (directory / place / "spec.json").write_bytes(dump({"key": key, "content": content}))
    mean = sum(scores) / len(scores)
    told = {"value": mean, "low": 0.0, "high": 1.0, "direction": "higher"}
    seconds = SAMPLES * (0.4 if "1b" in model else 1.7) * (1.0 + 0.35 * (attention != "dense"))
    spent = seconds * (0.95 + 0.1 * chance.random())
    return {
        **{"model": model, "attention": attention, "benchmark": benchmark, "subset": subset, "key": key},
        **{"state": "completed", "score": mean, "primary": "accuracy", "metrics": {"accuracy": told}},
        **{"density": density, "execution_time": spent, "generate_s": 0.97 * spent, "num_samples": SAMPLES},
        "directory": f"../{place}",
    }


def _record(result: Mapping[str, Any], info: SessionInfo, environment: str) -> Record:
    task = f"{result['benchmark']}_{result['subset']}"
    params = {"attention": result["attention"], "model": result["model"]}
    key = f"{task}[attention={result['attention']},model={result['model']}]"
    seconds = float(result["execution_time"])
    return Record(
        session=info.name,
        case=Case(name=key, entry=task, key=key, params=params, tags=("evals", result["benchmark"])),
        attempt=1,
        status=Status.PASSED,
        started_at=info.started_at,
        exec_time_s=seconds,
        metrics={
            "accuracy": Measurement(value=result["score"], direction="higher"),
            "density": Measurement(value=result["density"]),
            "exec_time_s": Measurement(value=seconds, unit="s", direction="lower"),
        },
        environment=environment,
    )
