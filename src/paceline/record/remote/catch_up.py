"""Makes the copy of a session on this machine as good as the one in the object store, before it goes on."""

import hashlib
import heapq
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from paceline.errors import PacelineError
from paceline.model import Case, Plan, Record
from paceline.record import codec
from paceline.record.atomic import write_atomic
from paceline.record.directory import SessionDir
from paceline.record.layout import ATTEMPTS, EVENTS, LOCK, LOGS, OUTPUT, RECORD, RESULTS, run_labels
from paceline.record.remote.files import entry_files, entry_of, is_moved, is_record, restore_links
from paceline.record.remote.ledger import Ledger
from paceline.record.remote.object_store import ObjectStore, Stat
from paceline.record.resumption import is_kept

_LARGEST_OUTPUT_BYTES = 1 << 20


class CatchUp:
    """Fetches what others added to a session; nothing that is only here is overwritten.

    Of cases that are kept only the small files come, of those that run again, or whose results others need, all do.
    """

    def __init__(
        self, store: ObjectStore, directory: SessionDir, ledger: Ledger, artifacts_dir: Path | None = None
    ) -> None:
        self._store = store
        self._directory = directory
        self._path = directory.path
        self._ledger = ledger
        self._artifacts = artifacts_dir / self._path.name if artifacts_dir else None
        self.ahead: set[str] = set()
        """Entries that have a later attempt here than in the store."""

    def run(self, plan: Plan, *, rerun_failed: bool) -> None:
        prefix = len(self._path.name) + 1
        listing = {name[prefix:]: stat for name, stat in self._store.find(self._path.name).items()}
        by_entry: defaultdict[str, dict[str, Stat]] = defaultdict(dict)
        for name, stat in listing.items():
            by_entry[entry_of(name)][name] = stat
        self._fetch_session_files(by_entry.pop("", {}))
        self._fetch_records(by_entry)
        wanted = self._wanted_whole(plan, rerun_failed=rerun_failed)
        for entry in wanted:
            self._complete(entry, by_entry.get(entry, {}))
        for entry in by_entry.keys() - wanted.keys():
            self._fetch_output(entry, by_entry[entry])

    def _fetch_session_files(self, listing: Mapping[str, Stat]) -> None:
        for name, stat in listing.items():
            path = self._path / name
            if name == LOCK or _is_same(path, stat):
                continue
            if name == EVENTS and path.exists():
                self._merge_events(path)
            else:
                self._receive(name)

    def _merge_events(self, path: Path) -> None:
        """Put the store's events and ours in one order; what both have is there once."""
        theirs = (self._store.read(self._key(EVENTS)) or b"").splitlines(keepends=True)
        ours = path.read_bytes().splitlines(keepends=True)
        if ours[: len(theirs)] != theirs:
            known = set(theirs)
            write_atomic(path, b"".join(heapq.merge(theirs, [line for line in ours if line not in known])))

    def _fetch_records(self, by_entry: Mapping[str, Mapping[str, Stat]]) -> None:
        stats = {
            name: stat for listing in by_entry.values() for name, stat in listing.items() if is_record(name)
        }
        changed = [name for name, stat in stats.items() if not _is_same(self._path / name, stat)]
        for name in stats.keys() - set(changed):
            self._ledger.add(name, (self._path / name).stat())
        found = self._store.read_all(map(self._key, changed))
        for name in changed:
            data = found.get(self._key(name))
            record = _parse(data)
            if data is not None and record is not None:
                self._settle(name, data, record, by_entry[entry_of(name)])

    def _settle(self, name: str, data: bytes, theirs: Record, listing: Mapping[str, Stat]) -> None:
        """Decide between the store's record of a case and what is here of it."""
        path = self._path / name
        entry = entry_of(name)
        ours = codec.read_record(path)
        if ours is not None and path.read_bytes() == data:
            self._ledger.add(name, path.stat())
            return
        if ours is not None and ours.attempt > theirs.attempt and not self._ledger.has(name, path.stat()):
            self.ahead.add(entry)
            return
        self._note_attempts(entry, listing)
        self._clear(entry, theirs.case)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
        self._ledger.add(name, path.stat())
        results = f"{entry}/{RESULTS}"
        if results in listing:
            self._receive(results)

    def _note_attempts(self, entry: str, listing: Iterable[str]) -> None:
        """Make empty directories for attempts that only the store has, so that their numbers are not used again."""
        inside = (name[len(entry) + 1 :] for name in listing)
        for number in {name.split("/")[1] for name in inside if is_moved(name)}:
            (self._path / entry / ATTEMPTS / number).mkdir(parents=True, exist_ok=True)

    def _clear(self, entry: str, case: Case) -> None:
        """Make room for the store's record: remove a copy of what it had before, move aside what it never had."""
        directory = self._path / entry
        if not directory.exists():
            return
        files = entry_files(directory, self._artifacts)
        sent = all(self._ledger.has(f"{entry}/{name}", path.stat()) for name, path in files.items())
        if sent and self._ledger.knows(f"{entry}/{RECORD}"):
            runs = [directory / ATTEMPTS / label for label in run_labels(directory)]
            for path in (*runs, *(path for path in directory.iterdir() if path.name != ATTEMPTS)):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        else:
            self._directory.move_aside(case)

    def _wanted_whole(self, plan: Plan, *, rerun_failed: bool) -> dict[str, None]:
        """The entries of which all files are needed here: they run again, or a case that runs uses their results."""
        cases = {case.name: case for case in plan.cases}
        running = [
            case
            for case in (*plan.setups, *plan.cases)
            if not is_kept(self._directory.read_record(case), case, rerun_failed=rerun_failed)
        ]
        needed = [cases[name] for case in running for name in case.needs if name in cases]
        paths = (self._directory.entry_dir(case) for case in (*running, *needed))
        return dict.fromkeys(path.relative_to(self._path).as_posix() for path in paths)

    def _complete(self, entry: str, listing: Mapping[str, Stat]) -> None:
        if not listing or entry in self.ahead:
            return
        for name, stat in listing.items():
            path = self._path / name
            if not path.exists():
                self._receive(name)
            elif not self._ledger.knows(name):
                self._ledger.add(name, path.stat()) if _is_same(path, stat) else self._ledger.note(name)
        restore_links(self._path / entry)

    def _fetch_output(self, entry: str, listing: Mapping[str, Stat]) -> None:
        """What a case that did not pass printed, as the report quotes its end."""
        record = codec.read_record(self._path / entry / RECORD)
        if record is None or record.status.ok or entry in self.ahead:
            return
        for name, stat in listing.items():
            is_output = name.endswith(f"{LOGS}/{OUTPUT}") and not is_moved(name[len(entry) + 1 :])
            if is_output and stat.size <= _LARGEST_OUTPUT_BYTES and not (self._path / name).exists():
                self._receive(name)
        restore_links(self._path / entry)

    def _receive(self, name: str) -> None:
        path = self._path / name
        self._store.receive(self._key(name), path)
        self._ledger.add(name, path.stat())

    def _key(self, name: str) -> str:
        return f"{self._path.name}/{name}"


def _is_same(path: Path, stat: Stat) -> bool:
    """Whether a file certainly is what the store has: S3's version of an object sent in one piece is its MD5."""
    if not path.is_file() or path.stat().st_size != stat.size or not stat.version:
        return False
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() == stat.version


def _parse(data: bytes | None) -> Record | None:
    try:
        return codec.from_json(codec.load(data or b""))
    except codec.NewerSchema:
        raise
    except (ValueError, PacelineError):  # Damaged: counts as missing, as it does on a disk.
        return None
