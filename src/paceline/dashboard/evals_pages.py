"""The file of an execution of evals: what each sample scored under each attention, so that a page can make pairs.

Questions and answers stay in the execution's own files: a page shows scores, and the names of the samples.
"""

import csv
import hashlib
import io
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paceline.dashboard.artifacts import SafePath
from paceline.dashboard.encoding import pack_bytes, pack_floats
from paceline.evals.comparison import CONDITIONS
from paceline.evals.keys import SPEC
from paceline.evals.stub_files import RAW
from paceline.record import below
from paceline.record.codec import load
from paceline.record.layout import SUMMARY

LONGEST_ID = 60
MOST_LEVELS = 256
"""Of scores with no more different values than this, a byte a sample says which."""

Scores = Mapping[str, float]


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
    missing = 0
    for entry in (_read_json(directory / SUMMARY) or {}).get("results", ()):
        try:
            found = _scores(_inside(directory, entry["directory"]), entry)
            facts = _facts(entry)
            scores, groups, conditions = found or ({}, {}, "")
            names = sorted(scores)
            key = (str(entry["benchmark"]), str(entry["subset"]), *names)
        except (KeyError, TypeError, AttributeError):  # a summary that somebody else wrote
            found = None
        if found is None:
            missing += 1
            continue
        if key not in tasks:
            task = {"benchmark": entry["benchmark"], "subset": entry["subset"], "number": len(tasks)}
            tasks[key] = {**task, "samples": [name[:LONGEST_ID] for name in names], **_groups(groups, names)}
        packed = pack_scores([scores[name] for name in names])
        stubs.append({**facts, "task": tasks[key]["number"], "conditions": conditions, "scores": packed})
    return {"tasks": list(tasks.values()), "stubs": stubs, "missing": missing}


def _facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    metric = entry["metrics"][entry["primary"]]
    return {
        **{name: str(entry[name]) for name in ("model", "attention")},
        **{name: entry[name] for name in ("score", "density")},
        "metric": entry["primary"],
        "seconds": entry["execution_time"],
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


def _scores(directory: SafePath, entry: Mapping[str, Any]) -> tuple[Scores, Mapping[str, str], str] | None:
    """Each sample's score, what it belongs to, and a mark of the conditions; None if the result is not there."""
    spec = _read_json(directory / SPEC)
    if spec is None or spec["key"] != entry["key"]:
        return None
    conditions = [spec["content"].get(name) for name in CONDITIONS]
    digest = hashlib.blake2b(
        json.dumps([entry["primary"], conditions], sort_keys=True).encode(), digest_size=8
    )
    column = f"score.{entry['primary']}"
    try:
        text = io.StringIO(below.read(*directory / RAW).decode("utf-8", "replace"), newline="")
        rows = list(csv.DictReader(text))
        scores = {row["sample_id"]: float(row[column]) for row in rows}
    except (OSError, KeyError, ValueError, TypeError, csv.Error):
        return None
    return scores, {row["sample_id"]: row.get("group") or "" for row in rows}, digest.hexdigest()


def pack_scores(values: list[float]) -> Any:
    """Scores in single precision; as bytes that choose among the values where these are few."""
    array = np.asarray(values, dtype="<f4")
    levels, places = np.unique(array, return_inverse=True)
    if len(levels) <= MOST_LEVELS:
        return {"n": len(array), "k": len(levels), "of": pack_floats(levels), "b": pack_bytes(places)}
    return {"n": len(array), "all": pack_floats(array)}
