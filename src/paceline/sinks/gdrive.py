"""Google Drive: a folder a session, with the files that the session left; each is uploaded once, in parts."""

import hashlib
import os
import time
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator

from paceline.model import Report
from paceline.record import below
from paceline.record.layout import LOCK, OUTBOX, RESERVE, SENT
from paceline.sinks import Deadline, Sink, SinkContext, TryLater, Undeliverable
from paceline.sinks.gdrive_api import UNIT_BYTES, DriveApi, ServiceAccount, received, refuse
from paceline.sinks.http import Answer, retry_after_s

KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
SCOPE = "https://www.googleapis.com/auth/drive"
_MOST_FAULTS = 4
_LONGEST_PAUSE_S = 5.0
_OURS_ALONE = frozenset({LOCK, RESERVE, SENT, OUTBOX})
_IDS_AT_ONCE = 100


class DriveOptions(BaseModel):
    """Which folder, whose key, which files."""

    model_config = ConfigDict(extra="forbid")

    drive_folder_id: str = Field(
        min_length=1,
        validation_alias=AliasChoices("drive_folder_id", "folder_id"),
        description="The folder to put sessions into.",
    )
    service_account_file: str | None = Field(default=None, description="The service account's key file.")
    credentials_env: str = Field(
        default="GDRIVE_SERVICE_ACCOUNT", description="The variable with that file's content, in its place."
    )
    subject: str | None = Field(default=None, description="The user to act for, with domain-wide delegation.")
    exclude: tuple[str, ...] = Field(
        default=("*/scratch/*", "*/ray_cluster/*"), description="Patterns of paths that are not uploaded."
    )
    chunk_bytes: int = Field(
        default=16 * UNIT_BYTES, gt=0, description="Bytes a request; a multiple of 256 KiB."
    )
    api_url: str = Field(default="https://www.googleapis.com", description="The API's address.")

    @field_validator("chunk_bytes")
    @classmethod
    def _whole_units(cls, value: int) -> int:
        if value % UNIT_BYTES:
            raise ValueError(f"must be a multiple of {UNIT_BYTES} (256 KiB), as Google Drive asks")
        return value

    def secrets(self) -> dict[str, str | None]:
        """The variables that hold what it cannot do without, each with a file that may stand in for it."""
        return {self.credentials_env: self.service_account_file or os.environ.get(KEY_FILE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file as it was when its upload was decided on, with secrets masked."""

    name: str
    data: bytes
    md5: str


class DriveSink(Sink):
    """Uploads when the session has ended, and what changed when it has ended again."""

    Options = DriveOptions
    needs = ("google.auth", "gdrive")
    options: DriveOptions

    def __init__(self, options: DriveOptions, context: SinkContext) -> None:
        super().__init__(options, context)
        file = options.service_account_file or context.environ.get(KEY_FILE)
        key_text = context.find_secret(options.credentials_env, file)
        if key_text is None:
            variable = options.credentials_env
            raise Undeliverable(
                f"set `service_account_file` to the account's key file, or {variable} to its content"
            )
        account = ServiceAccount(key_text, SCOPE, context, subject=options.subject)
        self._api = DriveApi(account, options.api_url, min(context.timeout_s / 3, 30.0))
        self._notebook = context.notes
        self._ids: list[str] = []
        self._found: dict[str, dict[str, Any]] = {}
        self._listed: set[str] = set()

    def close(self, report: Report) -> None:
        deadline = Deadline(self.context.timeout_s)
        folder = self._folder("", self.context.session, self.options.drive_folder_id)
        for name in session_files(self.context):
            if not any(fnmatch(name, pattern) for pattern in self.options.exclude):
                deadline.check("Google Drive")
                parts = self.context.read_masked(name)
                if parts is not None:
                    data = b"".join(parts)
                    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
                    content = Content(name=name, data=data, md5=md5)
                    self._upload(content, self._parent(folder, name), deadline)
        if self._notebook.get("said") is None:
            self.context.say(f"Google Drive: https://drive.google.com/drive/folders/{folder}")
            self._notebook.put("said")

    def _parent(self, folder: str, name: str) -> str:
        """The folder of a file, made with those above it."""
        above = ""
        for part in name.split("/")[:-1]:
            above = f"{above}/{part}" if above else part
            folder = self._folder(above, part, folder)
        return folder

    def _folder(self, path: str, name: str, parent: str) -> str:
        known = self._notebook.get(f"folder {path}")
        if known and known.get("done"):
            if known.get("adopted"):
                self._remember_children(known["id"])
            return str(known["id"])
        key = self._key(f"folder {path}")
        found = None if known else self._look_for(path, parent, key)
        if found:
            self._remember_children(found["id"])
            return str(self._notebook.put(f"folder {path}", id=found["id"], done=True, adopted=True)["id"])
        folder_id = str(known["id"]) if known else self._new_id()
        self._notebook.put(f"folder {path}", id=folder_id)
        self._api.create_folder(folder_id, name, parent, key)
        self._notebook.put(f"folder {path}", id=folder_id, done=True)
        return folder_id

    def _look_for(self, path: str, parent: str, key: str) -> dict[str, Any] | None:
        """What an upload whose notes are lost has left: the session's folder is asked for, the others are in it."""
        return self._found.get(key) if path else self._api.find(parent, key)

    def _remember_children(self, folder_id: str) -> None:
        if folder_id in self._listed:
            return
        self._listed.add(folder_id)
        for child in self._api.children(folder_id):
            key = (child.get("appProperties") or {}).get("paceline")
            if key:
                self._found[key] = child

    def _key(self, what: str) -> str:
        """What a thing of this session is known by in Drive, where 124 bytes are the most that a property holds."""
        return hashlib.sha256(f"{self.context.session_id}\n{what}".encode()).hexdigest()[:40]

    def _new_id(self) -> str:
        self._ids = self._ids or self._api.new_ids(_IDS_AT_ONCE)
        return self._ids.pop()

    def _upload(self, content: Content, parent: str, deadline: Deadline) -> None:
        label = f"file {content.name}"
        known = self._notebook.get(label) or self._adopted(label)
        if known.get("there") == content.md5:
            return
        uri = known.get("uri") if known.get("md5") == content.md5 else None
        file_id = known.get("id") or self._new_id()
        if uri:
            self._send(content, label, file_id, uri, self._api.status(uri, len(content.data)), deadline)
        else:
            self._notebook.put(label, id=file_id, there=known.get("there"))
            uri = self._begin(content, label, file_id, parent, known)
            if uri:
                self._send(content, label, file_id, uri, Answer(status=308), deadline)
        self._notebook.put(label, id=file_id, there=content.md5)

    def _adopted(self, label: str) -> dict[str, Any]:
        found = self._found.get(self._key(label))
        return {"id": found["id"], "there": found.get("md5Checksum") or "unknown"} if found else {}

    def _begin(
        self, content: Content, label: str, file_id: str, parent: str, known: dict[str, Any]
    ) -> str | None:
        """The address of a new upload, noted; None if the content is in Drive already."""
        uri = None
        if not known.get("there"):
            base = content.name.rpartition("/")[2]
            uri = self._api.begin_new(file_id, base, parent, self._key(label), len(content.data))
            if uri is None and self._api.checksum(file_id) == content.md5:
                return None
        uri = uri or self._api.begin_again(file_id, len(content.data))
        if uri is None:
            raise TryLater(f"Google Drive is still busy with {content.name}")
        self._notebook.put(label, id=file_id, there=known.get("there"), md5=content.md5, uri=uri)
        return uri

    def _send(
        self, content: Content, label: str, file_id: str, uri: str, answer: Answer, deadline: Deadline
    ) -> None:
        """Send what has not arrived yet; after a fault Drive is asked how far it came."""
        faults = 0
        while not answer.status < 300:
            if answer.status in (404, 410):
                self._notebook.put(
                    label, id=file_id
                )  # The upload has expired: the next try begins a new one.
                raise TryLater("Google Drive has forgotten an upload", after_s=0.0)
            if answer.status == 308:
                deadline.check("Google Drive")
                answer = self._put_next(content, uri, received(answer))
                continue
            faults += 1
            if faults > _MOST_FAULTS or answer.status < 500:
                refuse(answer)
            _pause(answer, faults)
            answer = self._api.status(uri, len(content.data))
        self._verify(content, label, file_id, answer)

    def _put_next(self, content: Content, uri: str, offset: int) -> Answer:
        chunk = content.data[offset : offset + self.options.chunk_bytes]
        if not chunk and content.data:
            raise TryLater(f"Google Drive has more of {content.name} than there is")
        return self._api.put(uri, chunk, offset, len(content.data))

    def _verify(self, content: Content, label: str, file_id: str, answer: Answer) -> None:
        data = answer.json() if answer.body else {}
        if data.get("md5Checksum") not in (None, content.md5):
            self._notebook.put(label, id=file_id, there=data["md5Checksum"])
            raise TryLater(f"{content.name} did not arrive whole")


def _pause(answer: Answer, faults: int) -> None:
    """Wait as long as Drive asks, or a little longer each time; a long wait is the outbox's."""
    asked_s = retry_after_s(answer.headers.get("retry-after"))
    if asked_s is not None and asked_s > _LONGEST_PAUSE_S:
        refuse(answer)
    time.sleep(min(asked_s if asked_s is not None else 0.25 * 2**faults, _LONGEST_PAUSE_S))


def session_files(context: SinkContext) -> list[str]:
    """The names of a session's files, also of those that are in `artifacts_dir`; what a link shows is not one."""
    names = {entry.name for entry in below.walk(context.session_dir)}
    if context.artifacts_dir:
        above = context.session_dir.name
        names |= {entry.name.removeprefix(f"{above}/") for entry in below.walk(context.artifacts_dir, above)}
    return sorted(
        name
        for name in names
        if _OURS_ALONE.isdisjoint(parts := name.split("/")) and not below.is_temporary(parts[-1])
    )
