"""The files of a stub: its spec first, a line for each prediction as it comes, its scores, and last the marker.

spec.json          what decides the result, and its key
predictions.jsonl  one line a sample, appended; what is there is never asked for again
raw_results.csv    one row a sample: question, references, answer, scores
metrics.json       the benchmark's numbers
DONE.json          written last, with the size and hash of the others: only with it a stub is done
attempts.jsonl     what went wrong on the way, a line for each attempt that did not end well
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.evals.interfaces import EvalError, Prediction, Sample
from paceline.evals.keys import SPEC
from paceline.record.below import write_all
from paceline.record.codec import dump, dump_plain, load, revive
from paceline.record.events import utc_now
from paceline.record.files import JsonLines, append_line, lock_fd, read_lines, write_atomic

PREDICTIONS, RAW, METRICS, DONE, ATTEMPTS = (
    "predictions.jsonl",
    "raw_results.csv",
    "metrics.json",
    "DONE.json",
    "attempts.jsonl",
)
_MARKED = (SPEC, PREDICTIONS, RAW, METRICS)
_TIMES = ("prefill_s", "first_token_s", "token_s")


class Busy(Exception):
    """Another process works in the stub's directory."""


@contextmanager
def owned(directory: Path) -> Iterator[None]:
    """Keep other processes out of a stub's directory; the kernel lets go of it however this one ends."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        try:
            lock_fd(fd, optional=True)
        except BlockingIOError:
            raise Busy from None
        yield
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The completion marker: whose results these are, and what was measured while they were made."""

    key: str
    facts: Mapping[str, Any]


def write_spec(
    directory: Path,
    key: str,
    content: Mapping[str, Any],
    data_dir: str | None = None,
    code_file: str | None = None,
    source: str = "real",
) -> None:
    """Take a directory for a stub; written before anything else, so that every file has an owner."""
    owner = read_spec(directory)
    if owner is None:
        found = {"data_dir": data_dir, "code_file": code_file, "rows": source}
        spec = {"key": key, "created_at": utc_now(), **found, "content": content}
        write_atomic(directory / SPEC, dump_plain(spec, pretty=True))
    elif owner["key"] != key:
        raise EvalError(f"another execution has taken {directory} meanwhile: run this one again")


def read_spec(directory: Path) -> Mapping[str, Any] | None:
    """Key and content of the stub in a directory; None if there is none that can be read."""
    try:
        spec = load((directory / SPEC).read_bytes())
    except (OSError, ValueError):
        return None
    return spec if isinstance(spec, dict) and "key" in spec else None


def write_marked(path: Path, data: bytes) -> None:
    """Write a file that counts by the marker only, so that it need not appear at once; it is on the disk then."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def write_marker(directory: Path, key: str, facts: Mapping[str, Any]) -> None:
    """Say that the stub is done; what it vouches for must be on the disk by now."""
    files = {name: _checksum(directory / name) for name in _MARKED}
    marker = {"key": key, "finished_at": utc_now(), "files": files, "facts": facts}
    write_atomic(directory / DONE, dump(marker, pretty=True))


def add_to_marker(directory: Path, facts: Mapping[str, Any]) -> None:
    """Change what a marker says about the making of a stub; what it vouches for stays."""
    marker = load((directory / DONE).read_bytes())
    write_atomic(directory / DONE, dump({**marker, "facts": {**marker["facts"], **facts}}, pretty=True))


def read_marker(directory: Path, key: str) -> Marker | None:
    """The marker of a stub that is done; None unless it is this stub's and every file is as it was."""
    try:
        marker = load((directory / DONE).read_bytes())
        found = marker["files"].items() if marker["key"] == key else ()
        is_whole = set(marker["files"]) == set(_MARKED) and all(
            _checksum(directory / name) == written for name, written in found
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Marker(key=key, facts=marker.get("facts", {})) if found and is_whole else None


def _checksum(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _asked(sample: Sample) -> "hashlib._Hash":
    text = "\0".join((sample.context, sample.question, sample.answer_prefix, *sample.lead_ins))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass"))


def _digest(asked: "hashlib._Hash", answer: str) -> str:
    """Tells whether a stored line is whole, and belongs to this very question should the data have changed."""
    both = asked.copy()
    both.update(b"\0" + answer.encode("utf-8", "surrogatepass"))
    return both.hexdigest()[:16]


class PredictionLog:
    """The predictions of a stub on disk; opening it reads those that are there and cuts off a torn end."""

    def __init__(self, directory: Path, samples: Sequence[Sample]) -> None:
        self._asked = {sample.id: _asked(sample) for sample in samples}
        self._lines = JsonLines(directory / PREDICTIONS)
        self.known: dict[str, Prediction] = {}
        for digest, prediction in read_predictions(directory):
            asked = self._asked.get(prediction.sample_id)
            if asked is not None and _digest(asked, prediction.text) == digest:
                self.known.setdefault(prediction.sample_id, prediction)

    def append(self, prediction: Prediction) -> None:
        """Keep one; a second one for the same sample, or one for a sample nobody asked about, is a fault."""
        name = prediction.sample_id
        if name in self.known or name not in self._asked:
            what = "a second prediction for" if name in self.known else "a prediction for the unknown"
            raise ValueError(f"the adapter gave {what} sample {name!r}")
        digest = _digest(self._asked[name], prediction.text)
        self._lines.append({"sample_id": name, "digest": digest, **_prediction_json(prediction)})
        self.known[name] = prediction

    def sync(self) -> None:
        self._lines.sync()

    def close(self) -> None:
        self._lines.close()


def _prediction_json(prediction: Prediction) -> dict[str, Any]:
    return {
        "text": prediction.text,
        "density": prediction.density,
        "input_tokens": prediction.input_tokens,
        "output_tokens": prediction.output_tokens,
        "seconds": prediction.seconds,
        **{name: getattr(prediction, name) for name in _TIMES if getattr(prediction, name) is not None},
        "extra": prediction.extra,
    }


def read_predictions(directory: Path) -> Iterator[tuple[str, Prediction]]:
    """The stored predictions, each with the digest of question and answer; lines that are none are left out."""
    for data in read_lines(directory / PREDICTIONS):
        try:
            yield (
                str(data["digest"]),
                Prediction(
                    sample_id=data["sample_id"],
                    text=data["text"],
                    density=revive(data["density"]),
                    input_tokens=data["input_tokens"],
                    output_tokens=data["output_tokens"],
                    seconds=data["seconds"],
                    **{name: data.get(name) for name in _TIMES},
                    extra=data["extra"],
                ),
            )
        except (ValueError, KeyError, TypeError):
            continue


def append_attempt(directory: Path, attempt: Mapping[str, Any]) -> None:
    """Note an attempt that did not end well."""
    directory.mkdir(parents=True, exist_ok=True)
    append_line(directory / ATTEMPTS, {"time": utc_now(), **attempt})


def read_attempts(directory: Path) -> list[Mapping[str, Any]]:
    """The attempts that count against a stub's budget: those since it last failed for good."""
    counted: list[Mapping[str, Any]] = []
    for attempt in read_lines(directory / ATTEMPTS):
        counted.append(attempt)
        if attempt.get("final"):
            counted = []
    return counted
