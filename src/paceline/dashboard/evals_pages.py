"""The file of an execution of evals: what each sample scored under each attention, so that a page can make pairs.

Questions and answers stay in the execution's own files: a page shows scores, and the names of the samples.
"""

import csv
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paceline.dashboard.encoding import pack_bytes, pack_floats
from paceline.evals.comparison import CONDITIONS
from paceline.evals.interfaces import EvalError
from paceline.evals.stored import read_summary
from paceline.evals.stub_files import RAW, read_spec

LONGEST_ID = 60
MOST_LEVELS = 256
"""Of scores with no more different values than this, a byte a sample says which."""

Scores = Mapping[str, float]


def attentions_of(directory: Path) -> list[str]:
    """The attentions that an execution has results of; none if its summary cannot be read."""
    try:
        results = read_summary(directory)["results"]
        return sorted({str(entry["attention"]) for entry in results})
    except (EvalError, KeyError, TypeError):
        return []


def evals_page(directory: Path) -> dict[str, Any]:
    """All results of an execution whose files are there; the samples of a task are named once."""
    tasks: dict[tuple[str, ...], dict[str, Any]] = {}
    stubs: list[dict[str, Any]] = []
    missing = 0
    for entry in read_summary(directory)["results"]:
        try:
            found = _scores(directory / entry["directory"], entry)
            facts = _facts(entry)
        except (KeyError, TypeError):  # a summary that somebody else wrote
            found = None
        if found is None:
            missing += 1
            continue
        scores, conditions = found
        names = sorted(scores)
        key = (str(entry["benchmark"]), str(entry["subset"]), *names)
        if key not in tasks:
            task = {"benchmark": entry["benchmark"], "subset": entry["subset"], "number": len(tasks)}
            tasks[key] = {**task, "samples": [name[:LONGEST_ID] for name in names]}
        packed = pack_scores([scores[name] for name in names])
        stubs.append({**facts, "task": tasks[key]["number"], "conditions": conditions, "scores": packed})
    return {"tasks": list(tasks.values()), "stubs": stubs, "missing": missing}


def _facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    metric = entry["metrics"][entry["primary"]]
    return {
        **{name: entry[name] for name in ("model", "attention", "score", "density")},
        "metric": entry["primary"],
        "seconds": entry["execution_time"],
        **{name: metric[name] for name in ("direction", "low", "high")},
    }


def _scores(directory: Path, entry: Mapping[str, Any]) -> tuple[Scores, str] | None:
    """Each sample's score and a mark of the conditions; None if the directory has not this result any more."""
    spec = read_spec(directory)
    if spec is None or spec["key"] != entry["key"]:
        return None
    conditions = [spec["content"].get(name) for name in CONDITIONS]
    digest = hashlib.blake2b(
        json.dumps([entry["primary"], conditions], sort_keys=True).encode(), digest_size=8
    )
    column = f"score.{entry['primary']}"
    try:
        with (directory / RAW).open(newline="", encoding="utf-8", errors="replace") as file:
            scores = {row["sample_id"]: float(row[column]) for row in csv.DictReader(file)}
    except (OSError, KeyError, ValueError, TypeError, csv.Error):
        return None
    return scores, digest.hexdigest()


def pack_scores(values: list[float]) -> Any:
    """Scores in single precision; as bytes that choose among the values where these are few."""
    array = np.asarray(values, dtype="<f4")
    levels, places = np.unique(array, return_inverse=True)
    if len(levels) <= MOST_LEVELS:
        return {"n": len(array), "k": len(levels), "of": pack_floats(levels), "b": pack_bytes(places)}
    return {"n": len(array), "all": pack_floats(array)}
