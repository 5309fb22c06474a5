"""The names in a session's directory: of its files, of its entries and of what is in each of them."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from paceline.errors import SessionError
from paceline.model import RUN_DIR, Case
from paceline.record import below
from paceline.record.packages import CONDA, PACKAGES

LOCK, RESERVE, SENT = ".lock", ".reserve", ".sent"
OUTBOX = ".outbox"
"""What sinks have yet to get: in a session its queue, in a results directory the names of sessions that have one."""
_PLANNED = ("config.yaml", "plan.json", "environment.json", PACKAGES, CONDA)
EVENTS = "events.jsonl"
_REPORTED = (EVENTS, "report.json", "report.md", "junit.xml")
SESSION_FILES = (*_PLANNED, *_REPORTED, LOCK, RESERVE, SENT)
WORKERS, GPU_STATS, SUMMARY = "workers", "gpustats.csv", "execution_summary.json"
SLOTS, SLOT_REQUESTS, RESULTS_TABLE = "slots.json", "slots.requests.jsonl", "results.csv"
EVALS_FILES = (WORKERS, GPU_STATS, SUMMARY, SLOTS, SLOT_REQUESTS, RESULTS_TABLE)
"""What the evals of a session keep beside its entries."""
DATA_SETUP = "data_setup"
SHARED = ".shared"
"""What cases of a session share while it runs; removed at its end."""
RECORD, RESULTS, OUTPUT = "record.json", "results.jsonl", "stdouterr.log"
LOGS, ARTIFACTS, BENCHMARK_RESULTS, SCRATCH = "logs", "artifacts", "benchmark_results", "scratch"
CONSOLE_LOG = f"{LOGS}/console.log"
"""What a session printed."""
RAY_CLUSTER, ATTEMPTS = "ray_cluster", "attempts"
ENTRY_FILES = (RECORD, RESULTS, OUTPUT, "resources.csv", "gpustats.csv")

MAX_NAME_BYTES = 120
RESERVED = frozenset({*SESSION_FILES, *EVALS_FILES, DATA_SETUP, LOGS})
"""What no entry's directory is called, whatever the entry's name is."""
_PLAIN_NAME = re.compile(r"[\w+=,@\[\]-][\w.+=,@\[\]-]*")
_OTHER_CHARACTERS = re.compile(r"[^\w.+=,@\[\]-]")
_MOVED_LABEL = re.compile(r"attempt-(\d{1,9})")


def safe_name(name: str) -> str:
    """A directory name for a case; one that had to be changed ends with a hash. Upper and lower case stay."""
    plain = _PLAIN_NAME.fullmatch(name) and name not in RESERVED and unicodedata.is_normalized("NFC", name)
    if plain and len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    kept = _OTHER_CHARACTERS.sub("_", unicodedata.normalize("NFC", name)).lstrip(".")
    room = MAX_NAME_BYTES - len(digest) - 1
    return f"{kept.encode()[:room].decode('utf-8', 'ignore') or '_'}-{digest}"


def suite_name(config: Path) -> str:
    """What a suite is called by its first file: the file's name, of `paceline.yaml` that of its directory."""
    path = config.absolute()
    return safe_name(path.parent.name if path.name == "paceline.yaml" else path.stem)


def check_session_name(name: str) -> None:
    """Refuse a session name that is no name of a directory inside the results directory."""
    hidden_or_empty = not name.strip() or name.startswith(".")
    if hidden_or_empty or "/" in name or not name.isprintable() or len(name.encode()) > 255:
        raise SessionError(
            f"{name!r} is no session name: give one without '/', control characters or a leading dot, "
            "of at most 255 bytes"
        )


def entry_name(case: Case) -> str:
    """The name of a case's directory below its session's."""
    name = safe_name(case.name)
    return f"{DATA_SETUP}/{name}" if case.kind == "data_setup" else name


def entry_path(session_dir: Path, case: Case) -> Path:
    """The directory of a case inside its session's."""
    return session_dir / entry_name(case)


def other_environment(ident: str) -> tuple[str, str]:
    """The files that describe a machine besides the session's own: a node of a pool, or one it was resumed from."""
    return f"environment-{ident}.json", f"packages-{ident}.txt"


def run_dirs(case: Case) -> tuple[str, ...]:
    """The directories of a run; scratch only for a command that is told where its directory is."""
    inside = case.results_path.startswith(f"{RUN_DIR}/")
    texts = (*case.argv, *case.env.values(), case.cwd or "")
    others = (text.replace(case.results_path, "") if inside else text for text in texts if RUN_DIR in text)
    told = any(RUN_DIR in text for text in others)
    return (LOGS, BENCHMARK_RESULTS, SCRATCH) if told else (LOGS, BENCHMARK_RESULTS)


def is_session(path: Path) -> bool:
    """Whether a directory is one of ours."""
    return below.is_file(path, LOCK) or below.is_file(path, "plan.json")


def names_in(directory: Path) -> list[str]:
    """What a directory holds; nothing if it is not there."""
    return below.names(directory)


def last_label(names: Iterable[str]) -> str:
    """The label of the current attempt's last run, by the names in `attempts`; empty if none has one."""
    return max((name for name in names if not _MOVED_LABEL.fullmatch(name)), key=_run_order, default="")


def run_labels(session_dir: Path, entry: str) -> list[str]:
    """The labels of the current attempt's own runs, not those of attempts moved aside."""
    names = below.names(session_dir, f"{entry}/{ATTEMPTS}")
    return [name for name in names if not _MOVED_LABEL.fullmatch(name)]


def last_run(session_dir: Path, entry: str) -> str:
    """The name of the directory of the current attempt's last run: the entry's own if it has none with a label."""
    label = last_label(below.names(session_dir, f"{entry}/{ATTEMPTS}"))
    return f"{entry}/{ATTEMPTS}/{label}" if label else entry


def _run_order(label: str) -> tuple[bool, int, str]:
    """Warm-ups come before repetitions, and the tenth after the second."""
    kind, _, number = label.rpartition("-")
    return kind == "repeat", int(number) if number.isdecimal() else 0, label


def last_moved(session_dir: Path, entry: str) -> int:
    """The highest number of an attempt that was moved aside; 0 if none was."""
    matches = map(_MOVED_LABEL.fullmatch, below.names(session_dir, f"{entry}/{ATTEMPTS}"))
    return max((int(match[1]) for match in matches if match), default=0)
