"""What the history keeps of a session besides its records, and how much of it was new."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from paceline.model import Record

NAMESPACE = UUID("6f1c7f0e-6b0f-5c4e-9d53-3a1f0c9a7d11")
"""All ids of the history are made in it from what they stand for, so that the same thing has one id everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session, a pytest run, an arm of an experiment or a file of another tool."""

    id: str
    name: str
    kind: str = "session"
    started_at: str = ""
    revision: str = ""
    branch: str = ""
    commit_time: str = ""
    directory: str = ""
    ci_run_url: str = ""
    tool: str = "paceline"
    merge_base: str = ""
    """Where the branch of its revision left the default one; the revision itself if it is on that."""
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The records of one session; those made elsewhere than in its environment name one of the others.

    `notes` say what was left out of the file it came from, and other things that are no problem and worth a line.
    """

    session: SessionInfo
    environment: Mapping[str, Any]
    records: Iterable[Record]
    others: Sequence[Mapping[str, Any]] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What a call of `Store.add` did: `known` records were there already, exactly as given."""

    records: int = 0
    samples: int = 0
    known: int = 0

    def __add__(self, other: "Added") -> "Added":
        return Added(
            records=self.records + other.records,
            samples=self.samples + other.samples,
            known=self.known + other.known,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A reset of a case: its numbers mean something else from then on."""

    case_key: str
    at: str
    why: str


def session_id(name: str, started_at: str) -> str:
    """The id of the session of that name that began then."""
    return uuid5(NAMESPACE, f"session\0{name}\0{started_at}").hex


def record_id(session: str, key: str, variant: str, version: str, attempt: int) -> bytes:
    """The id of one attempt at a case in a session: `uuid5(session, …)`, without the cost of its objects."""
    name = f"{key}\0{variant}\0{version}\0{attempt}"
    digest = bytearray(
        hashlib.sha1(bytes.fromhex(session) + name.encode(), usedforsecurity=False).digest()[:16]
    )
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)
