"""Records in the form they are stored in: what is equal from run to run apart from what is not, numbers as numbers."""

import hashlib
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from paceline.history.session_info import SessionInfo, record_id
from paceline.model import Case, Check, Measurement, Record, Scalar, Status
from paceline.record.codec import dump_plain, from_json, load, plain, revive, to_json

Number = tuple[float | None, str | None]
"""A value: a finite number, or else its text; both for an integer that no float holds exactly."""

# Details that a test has from run to run; they are kept once.
_LASTING = frozenset({"nodeid", "path", "test_name", "original_name"})
_APART = frozenset({"source", "source_hash"})
_SESSION_DIR = "\ue000session\ue000"
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_EXACT_INT = 1 << 53
UNKNOWN = "unknown"
"""The environment of records that say nothing of theirs."""
_SETUP_PREFIX = "data_setup/"
_NOTHING = "{}"


class StoredMetric(NamedTuple):
    """A metric of a record; a single sample that equals the value is not repeated in `samples`."""

    name: str
    unit: str
    direction: str
    value: float | None
    text: str | None
    sample_count: int
    samples: tuple[Number, ...]


class StoredCase(NamedTuple):
    """A case as its row has it; the first four are its identity."""

    key: str
    variant: str
    version: str
    kind: str
    name: str
    entry: str
    params: str | None


class Entry(NamedTuple):
    """A record as its rows have it, with names in place of the numbers of other rows."""

    ident: bytes
    case: StoredCase
    environment: str
    attempt: int
    status: str
    started_at: str
    exec_time_s: float | None
    revision: str | None
    reason: str | None
    setting: str
    outcome: str | None
    disturbed: str | None
    source: tuple[str, str | None] | None
    metrics: tuple[StoredMetric, ...]
    digest: int


def to_entry(record: Record, session: SessionInfo) -> Entry:
    """A record as it is stored; `environment` is empty if the record does not say."""
    case = _stored_case(record.case)
    setting = _setting(record)
    outcome = _outcome(record)
    source = _source(record.details) if record.details else None
    started_at = utc(record.started_at) or utc(session.started_at)
    status, exec_time_s = record.status.value, _finite(record.exec_time_s)
    environment, reason, revision = map(clean, (record.environment, record.reason, record.revision))
    named = {clean_word(name): value for name, value in record.metrics.items()}
    metrics = tuple([_stored_metric(name, value) for name, value in named.items()])
    told = [
        case,
        environment,
        status,
        started_at,
        reason,
        revision,
        setting,
        outcome,
        source,
        exec_time_s,
        metrics,
    ]
    return Entry(
        ident=record_id(session.id, case.key, case.variant, case.version, record.attempt),
        case=case,
        environment=environment,
        attempt=record.attempt,
        status=status,
        started_at=started_at,
        exec_time_s=exec_time_s,
        revision=None if record.revision in ("", session.revision) else revision,
        reason=reason or None,
        setting=_without_directory(setting, session.directory) if setting != _NOTHING else setting,
        outcome=outcome,
        disturbed=clean(record.disturbance) or None,
        source=source,
        metrics=metrics,
        digest=_digest(told),
    )


def to_record(entry: Entry, session: SessionInfo) -> Record:
    """The record that was stored."""
    setting = load(_with_directory(entry.setting, session.directory).encode()) if entry.setting else {}
    outcome = load(entry.outcome.encode()) if entry.outcome else {}
    details = {**setting.get("details", {}), **outcome.get("details", {})}
    if entry.source:
        hash_, text = entry.source
        details |= {"source_hash": hash_} | ({"source": text} if text is not None else {})
    labels = setting.get("labels", {})
    default_code = 0 if setting.get("command") else None
    return Record(
        session=session.name,
        case=to_case(entry.case, setting),
        attempt=entry.attempt,
        status=Status(entry.status),
        reason=entry.reason or "",
        started_at=entry.started_at,
        exec_time_s=math.nan if entry.exec_time_s is None else entry.exec_time_s,
        timings_s=revive(outcome.get("timings_s", {})),
        returncode=outcome.get("returncode", default_code),
        command=tuple(setting.get("command", ())),
        metrics={metric.name: measurement(metric, labels.get(metric.name)) for metric in entry.metrics},
        params=revive(setting.get("params", {})),
        requirements=_checks(outcome.get("requirements", [])),
        environment="" if entry.environment == UNKNOWN else entry.environment,
        revision=session.revision if entry.revision is None else entry.revision,
        warnings=tuple(outcome.get("warnings", ())),
        artifacts=tuple(setting.get("artifacts", ())),
        disturbed=tuple(outcome.get("disturbed", ())),
        details=revive(details),
    )


def to_case(stored: StoredCase, setting: Mapping[str, Any]) -> Case:
    return Case(
        name=stored.name,
        entry=stored.entry,
        key=stored.key.removeprefix(_SETUP_PREFIX) if stored.kind == "data_setup" else stored.key,
        variant=stored.variant or None,
        version=stored.version,
        kind="data_setup" if stored.kind == "data_setup" else "entry",
        params=revive(load(stored.params.encode())) if stored.params else {},
        fingerprint=setting.get("fingerprint", ""),
        formula=setting.get("formula", 1),
        tags=tuple(setting.get("tags", ())),
        watch=tuple(setting.get("watch", ())),
    )


def measurement(metric: StoredMetric, label: str | None = None) -> Measurement:
    value = to_scalar(metric.value, metric.text)
    only = (value,) if metric.sample_count else ()
    samples = tuple(to_scalar(*sample) for sample in metric.samples)
    direction: Any = metric.direction or None
    return Measurement(
        value=value,
        unit=metric.unit or None,
        direction=direction,
        samples=samples if samples else only,
        label=label,
    )


def to_scalar(value: float | None, text: str | None) -> Scalar:
    if text is None:
        return value
    if value is not None:
        return int(text)
    return _NON_FINITE.get(text, text)


def to_number(value: Scalar) -> Number:
    """A value as its columns have it."""
    if value is None:
        return None, None
    if isinstance(value, str):
        return None, clean(value)
    if isinstance(value, float):
        return (value, None) if math.isfinite(value) else (None, plain(value))
    if -_EXACT_INT <= value <= _EXACT_INT:
        return float(value), None
    try:
        return float(value), str(int(value))
    except (OverflowError, ValueError):  # more digits than a float, or than Python prints
        return None, plain(value) if isinstance(plain(value), str) else hex(value)


def clean(text: str) -> str:
    """Text that every database takes: no NUL, no half of a character."""
    if text.isascii():
        return text.replace("\0", "\ufffd") if "\0" in text else text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


clean_word = lru_cache(maxsize=8192)(clean)
"""The same for words that come again with every record, such as the names of metrics."""

_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@lru_cache(maxsize=1024)
def utc(time: str) -> str:
    """A time in the form that all are stored in, so that they sort as text; empty if it is none."""
    if _ISO.fullmatch(time):
        return time
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return ""
    aware = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return aware.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def since_text(since: str | None) -> str:
    """A lower bound of times; a date begins at midnight, UTC."""
    return utc(since) if since else ""


def json_text(value: Any) -> str:
    """JSON that PostgreSQL takes, too: it refuses the escaped NUL."""
    return _plain_text(plain(value))


def _plain_text(data: Any) -> str:
    text = dump_plain(data).decode()
    return dump_plain(_cleaned(data)).decode() if "\\u0000" in text else text


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list | tuple) else value


def _stored_case(case: Case) -> StoredCase:
    """A case as its row has it, remembered because an import has the same ones in each of its sessions."""
    known = _CASES.get(id(case))
    if known is None or known[0] is not case:
        if len(_CASES) >= _MOST_CASES:
            _CASES.clear()
        known = _CASES[id(case)] = case, _to_stored_case(case)
    return known[1]


_CASES: dict[int, tuple[Case, StoredCase]] = {}
_MOST_CASES = 10_000


def _to_stored_case(case: Case) -> StoredCase:
    key = f"{_SETUP_PREFIX}{case.key}" if case.kind == "data_setup" else case.key
    return StoredCase(
        key=clean(key),
        variant=clean(case.variant or ""),
        version=clean(case.version),
        kind=case.kind,
        name=clean(case.name),
        entry=clean(case.entry),
        params=json_text(case.params) if case.params else None,
    )


def _setting(record: Record) -> str:
    """What is mostly the same in each run of a case, so that it is stored once."""
    case = record.case
    labels = {name: one.label for name, one in record.metrics.items() if one.label}
    formula = case.formula if case.formula > 1 else None
    facts = (
        ("command", record.command),
        ("params", record.params and plain(record.params)),
        ("artifacts", record.artifacts),
        ("tags", case.tags),
        ("watch", case.watch),
        ("labels", labels),
        ("fingerprint", case.fingerprint),
        ("formula", formula),
        ("details", record.details and _details(record, lasting=True)),
    )
    written = {name: fact for name, fact in facts if fact}
    return _plain_text(written) if written else _NOTHING


def _outcome(record: Record) -> str | None:
    """What only this run has, besides its numbers."""
    facts = (
        ("timings_s", record.timings_s and plain(record.timings_s)),
        ("warnings", record.warnings),
        ("disturbed", record.disturbed),
        ("requirements", record.requirements and to_json(record)["requirements"]),
        ("details", record.details and _details(record, lasting=False)),
    )
    written: dict[str, Any] = {name: fact for name, fact in facts if fact}
    if record.returncode != (0 if record.command else None):
        written["returncode"] = record.returncode
    return _plain_text(written) if written else None


def _details(record: Record, *, lasting: bool) -> dict[str, Any]:
    return {
        name: plain(value)
        for name, value in record.details.items()
        if (name in _LASTING) is lasting and not (name in _APART and isinstance(value, str))
    }


def _source(details: Mapping[str, Any]) -> tuple[str, str | None] | None:
    hash_, text = details.get("source_hash"), details.get("source")
    source = clean(text) if isinstance(text, str) else None
    if isinstance(hash_, str) and hash_:
        return clean(hash_), source
    return None if source is None else (hashlib.sha256(source.encode()).hexdigest()[:16], source)


def _stored_metric(name: str, told: Measurement) -> StoredMetric:
    unit = clean_word(told.unit) if told.unit else ""
    value, samples = told.value, told.samples
    if type(value) is float and samples == (value,) and math.isfinite(value):
        return StoredMetric(name, unit, told.direction or "", value, None, 1, ())  # what nearly all are
    number = to_number(value)
    numbers = tuple(map(to_number, samples))
    count = len(numbers)
    kept = () if numbers == (number,) else numbers
    return StoredMetric(name, unit, told.direction or "", *number, count, kept)


def _checks(data: list[Any]) -> tuple[Check, ...]:
    shell = {"case": {"name": ""}, "status": Status.PASSED.value, "requirements": data}
    return from_json(shell).requirements if data else ()


def _without_directory(text: str, directory: str) -> str:
    return text.replace(_quoted(directory), _SESSION_DIR) if directory else text


def _with_directory(text: str, directory: str) -> str:
    return text.replace(_SESSION_DIR, _quoted(directory))


def _quoted(text: str) -> str:
    """The text as it stands inside a JSON string."""
    return json_text(text)[1:-1]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _digest(told: list[Any]) -> int:
    """A number that changes with anything that is stored of a record."""
    data = orjson.dumps(told, default=tuple)  # it takes no named tuples by itself
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)


def digest_of(data: str) -> bytes:
    return hashlib.blake2b(data.encode(), digest_size=16).digest()
