"""The sessions that an object store keeps, listed and read without running them."""

import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError
from paceline.record import codec
from paceline.record.layout import DATA_SETUP, LOCK, LOGS, OUTPUT, RECORD, safe_name
from paceline.record.remote.address import split
from paceline.record.remote.files import entry_of, is_record, restore_links
from paceline.record.remote.object_store import ObjectStore, Stat

_AT_ONCE = 16
_SMALL = ("config.yaml", "plan.json", "environment.json")
_REPORT = "report.json"
_LARGEST_OUTPUT_BYTES = 64 << 20


def stored_names(url: str) -> list[str]:
    """The names of the sessions at an address, the one started or resumed last first."""
    store = ObjectStore(url)
    names = store.children()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        times = list(pool.map(lambda name: _last_started_s(store, name), names))
    found = [(time_s, name) for time_s, name in zip(times, names, strict=True) if time_s is not None]
    return [name for _, name in sorted(found, reverse=True)]


def newest_stored(url: str) -> str | None:
    """The session at an address that was started or resumed last."""
    return next(iter(stored_names(url)), None)


def is_stored_session(url: str) -> bool:
    """Whether this is the address of a session."""
    try:
        parent, name = split(url)
    except PacelineError:  # A whole bucket.
        return False
    return _last_started_s(ObjectStore(parent), name) is not None


def _last_started_s(store: ObjectStore, session: str) -> float | None:
    """When a session's plan was written, by the store's clock; None if this is no session."""
    for name in (LOCK, "plan.json"):
        modified_s = store.modified_s(f"{session}/{name}")
        if modified_s is not None:
            return modified_s
    return None


@contextmanager
def fetched_session(url: str, *, case: str | None = None) -> Iterator[Path]:
    """A directory with a session's plan, environment and records, for as long as it is looked at.

    The output of one case comes with them if it is asked for.
    """
    parent, name = split(url)
    with tempfile.TemporaryDirectory(prefix="paceline-") as temporary:
        directory = Path(temporary) / name
        directory.mkdir()
        _fetch(ObjectStore(parent), name, directory, case)
        yield directory


def _fetch(store: ObjectStore, session: str, directory: Path, case: str | None) -> None:
    prefix = len(session) + 1
    listing = {name[prefix:]: stat for name, stat in store.find(session).items()}
    (directory / LOCK).touch()
    wanted = [name for name in _SMALL if name in listing]
    records = [name for name in listing if is_record(name)]
    if not _report_is_last(listing, records) or not _unpack_report(store, session, directory, records):
        wanted += records
    found = store.read_all(f"{session}/{name}" for name in wanted)
    for name, data in found.items():
        _write(directory / name[prefix:], data)
    if case is not None:
        _fetch_output(store, directory, safe_name(case), listing)


def _fetch_output(store: ObjectStore, directory: Path, case: str, listing: Mapping[str, Stat]) -> None:
    entries = {case, f"{DATA_SETUP}/{case}"}
    for name, stat in listing.items():
        is_output = entry_of(name) in entries and name.endswith(f"{LOGS}/{OUTPUT}")
        if is_output and stat.size <= _LARGEST_OUTPUT_BYTES:
            store.receive(f"{directory.name}/{name}", directory / name)
            restore_links(directory / entry_of(name))


def _report_is_last(listing: Mapping[str, Stat], records: list[str]) -> bool:
    """Whether the report was written after all records; a store's times are whole seconds."""
    if _REPORT not in listing:
        return False
    return all(listing[name].modified_s < listing[_REPORT].modified_s for name in records)


def _unpack_report(store: ObjectStore, session: str, directory: Path, records: list[str]) -> bool:
    """Take the records out of the report, one object instead of thousands; False if they are not all in it."""
    data = store.read(f"{session}/{_REPORT}")
    try:
        reported: list[Any] = codec.load(data or b"")["records"]
        found = {_record_name(record["case"]): codec.dump_plain(record) for record in reported}
    except (ValueError, KeyError, TypeError):
        return False
    if found.keys() != set(records):
        return False
    for name, record in found.items():
        _write(directory / name, record)
    return True


def _record_name(case: Mapping[str, Any]) -> str:
    parent = f"{DATA_SETUP}/" if case.get("kind") == "data_setup" else ""
    return f"{parent}{safe_name(str(case['name']))}/{RECORD}"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
