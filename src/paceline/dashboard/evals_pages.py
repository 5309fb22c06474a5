"""The file of an execution of evals: what each sample scored under each attention, so that a page can make pairs.

Questions and answers stay in the execution's own files: a page shows scores, and the names of the samples.
"""

import csv
import hashlib
import io
import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from paceline.dashboard.artifacts import SafePath
from paceline.dashboard.encoding import pack_bytes, pack_floats
from paceline.evals.comparison import CONDITIONS
from paceline.evals.keys import SPEC
from paceline.evals.quality import Subset, points_of, subset_of
from paceline.evals.samples import SampleScores, sample_scores
from paceline.evals.stored import entry_task
from paceline.evals.stub_files import RAW
from paceline.record import below
from paceline.record.codec import load
from paceline.record.layout import SUMMARY

LONGEST_ID = 60
MOST_LEVELS = 256
"""Of scores with no more different values than this, a byte a sample says which."""


def attentions_of(directory: SafePath) -> list[str]:
    """The attentions that an execution has results of; none if its summary cannot be read."""
    try:
        return sorted({str(entry["attention"]) for entry in _read_json(directory / SUMMARY)["results"]})
    except (KeyError, TypeError):
        return []


def _read_json(path: SafePath) -> Any:
    """What a file holds; nothing if it cannot be read."""
    try:
        return load(below.read(*path))
    except (OSError, ValueError, RecursionError):
        return None


def evals_page(directory: SafePath) -> dict[str, Any]:
    """All results of an execution whose files are there; the samples of a task are named once."""
    tasks: dict[tuple[str, ...], dict[str, Any]] = {}
    stubs: list[dict[str, Any]] = []
    cells: dict[tuple[str, ...], dict[str, Subset]] = {}
    missing = 0
    for entry in (_read_json(directory / SUMMARY) or {}).get("results", ()):
        try:
            found = _scores(_inside(directory, entry["directory"]), entry)
            facts = _facts(entry)
            scores, conditions = found or (SampleScores(scores={}), "")
            names = sorted(scores.scores)
            key = (str(entry["benchmark"]), str(entry["subset"]), *names)
            subset = subset_of(entry, scores, entry.get("generate_s"), facts["rows"]) if names else None
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            ZeroDivisionError,
        ):  # somebody else's summary
            found = None
        if found is None or subset is None:
            missing += 1
            continue
        if key not in tasks:
            task = {"name": facts["task"], "benchmark": entry["benchmark"], "subset": entry["subset"]}
            known = {"number": len(tasks), "samples": [name[:LONGEST_ID] for name in names]}
            tasks[key] = {**task, **known, **_groups(scores.groups, names)}
        packed = pack_scores([scores.scores[name] for name in names])
        number = tasks[key]["number"]
        stubs.append({**facts, "task": number, "conditions": conditions, "scores": packed})
        cells.setdefault((facts["model"], str(number)), {})[facts["attention"]] = subset
    points, refused = points_of(cells)
    return {
        "tasks": list(tasks.values()),
        "stubs": stubs,
        "points": [asdict(point) for point in points],
        "refused": refused,
        "missing": missing,
    }


def _facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    metric = entry["metrics"][entry["primary"]]
    return {
        **{name: str(entry[name]) for name in ("model", "attention")},
        **{name: entry[name] for name in ("score", "density")},
        "task": entry_task(entry),
        "rows": str(entry.get("rows") or "real"),
        "metric": entry["primary"],
        **{name: metric[name] for name in ("direction", "low", "high")},
    }


def _inside(directory: SafePath, name: str) -> SafePath:
    """The directory of a result, beside its execution's; what leads out of the results directory is refused later."""
    return SafePath(directory.root, posixpath.normpath(f"{directory.name}/{name}"))


def _groups(groups: Mapping[str, str], names: Sequence[str]) -> dict[str, list[int]]:
    """Which samples belong together; nothing where none do, or all."""
    told = [groups.get(name) or f"sample {name}" for name in names]
    known = {one: number for number, one in enumerate(dict.fromkeys(told))}
    return {"groups": [known[one] for one in told]} if 1 < len(known) < len(names) else {}


def _scores(directory: SafePath, entry: Mapping[str, Any]) -> tuple[SampleScores, str] | None:
    """What each sample scored, and a mark of the conditions; None if the result is not there."""
    spec = _read_json(directory / SPEC)
    if spec is None or spec["key"] != entry["key"]:
        return None
    conditions = [spec["content"].get(name) for name in CONDITIONS]
    digest = hashlib.blake2b(
        json.dumps([entry["primary"], conditions], sort_keys=True).encode(), digest_size=8
    )
    try:
        text = io.StringIO(below.read(*directory / RAW).decode("utf-8", "replace"), newline="")
        return sample_scores(csv.DictReader(text), f"score.{entry['primary']}"), digest.hexdigest()
    except (OSError, KeyError, ValueError, TypeError, csv.Error):
        return None


def pack_scores(values: list[float]) -> Any:
    """Scores in single precision; as bytes that choose among the values where these are few."""
    array = np.asarray(values, dtype="<f4")
    levels, places = np.unique(array, return_inverse=True)
    if len(levels) <= MOST_LEVELS:
        return {"n": len(array), "k": len(levels), "of": pack_floats(levels), "b": pack_bytes(places)}
    return {"n": len(array), "all": pack_floats(array)}
