"""A session and the place where it is kept: the directory it runs in, or an object store that gets a copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.errors import SessionError
from paceline.model import Case, Plan
from paceline.record.directory import SessionDir
from paceline.record.layout import LOCK, check_session_name, entry_path, is_session
from paceline.record.remote.address import WORK_DIR, join
from paceline.record.remote.catch_up import CatchUp
from paceline.record.remote.copies import remove_old_copies
from paceline.record.remote.lock import SessionHeld, StoreLock
from paceline.record.remote.mirror import Mirror
from paceline.record.remote.object_store import ObjectStore


class NameTaken(SessionError):
    """An object store has a session of this name."""


class RemoteCopy:
    """A session that runs in a directory of this machine and is kept in an object store."""

    def __init__(self, plan: Plan, store: ObjectStore, lock: StoreLock) -> None:
        self.place: Path | str = join(store.url, plan.session)
        self._plan = plan
        self._store = store
        self._lock = lock
        self.mirror = Mirror(store, lock, plan.directory, plan.artifacts_dir)

    @property
    def fault(self) -> str:
        """Why no further case should begin."""
        if not self._lock.lost:
            return ""
        return (
            f"the session was taken over by {self._lock.lost}; what ran here stays in {self._plan.directory}"
        )

    def catch_up(self, directory: SessionDir, *, rerun_failed: bool) -> None:
        """Fetch what this machine has not, for a session that goes on."""
        caught = CatchUp(self._store, directory, self.mirror.ledger, self._plan.artifacts_dir)
        caught.run(self._plan, rerun_failed=rerun_failed)
        self.mirror.replaced |= caught.ahead

    def start(self) -> None:
        """The session's own files are written, and the first case is about to begin."""
        self.mirror.start()

    def case_ended(self, case: Case) -> None:
        """A case's record and all its files are on disk."""
        entry = entry_path(self._plan.directory, case)
        self.mirror.entry_ended(entry.relative_to(self._plan.directory).as_posix())

    def finish(self) -> str:
        """The report is written: what could not be sent and how to send it, or an empty text."""
        unsent = self.mirror.finish()
        if not unsent:
            remove_old_copies(self._plan.directory.parent)
            return ""
        self.place = self._plan.directory
        return f"{unsent}; all is in {self.place}, and --resume {self._plan.session} sends the rest"


@contextmanager
def keep_copy(plan: Plan, *, resumes: bool) -> Iterator[RemoteCopy | None]:
    """The copy of a plan's session in an object store, which no other runner uses meanwhile; None if it has none."""
    url = plan.settings.results_url
    if not url:
        yield None
        return
    check_session_name(plan.session)
    store = ObjectStore(url)
    lock = StoreLock(store, f"{plan.session}/{LOCK}")
    try:
        lock.take()
    except SessionHeld as held:
        raise held if resumes else NameTaken(str(held)) from held
    try:
        _make_room(plan, is_stored=store.version(f"{plan.session}/plan.json") is not None, resumes=resumes)
        copy = RemoteCopy(plan, store, lock)
        try:
            yield copy
        finally:
            copy.mirror.stop()
    finally:
        lock.release()


def _make_room(plan: Plan, *, is_stored: bool, resumes: bool) -> None:
    """Check that a new session is new and an old one is there; that one gets a directory on this machine."""
    url = plan.settings.results_url
    if is_stored and not resumes:
        hint = "go on with it by --resume, or choose another --session-name"
        raise NameTaken(f"session {plan.session} exists already in {url}: {hint}")
    if resumes and not is_stored and not is_session(plan.directory):
        raise SessionError(f"no session {plan.session} in {url}: 'paceline list' shows those there are")
    try:
        plan.directory.parent.mkdir(parents=True, exist_ok=True)
        if resumes:
            plan.directory.mkdir(exist_ok=True)
            (plan.directory / LOCK).touch()
    except OSError as error:
        why = f"cannot run the session in {plan.directory}: {error.strerror or error}"
        raise SessionError(f"{why}; name another directory by {WORK_DIR}") from error
