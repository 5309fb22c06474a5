"""A Google Drive that checks what Drive checks: the signature of a token's request, chunks, ids, parents."""

import base64
import hashlib
import json
import re
import threading
import time
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.crypt import RSAVerifier

from loopback import Asked, BreakOff, Loopback, Reply

UNIT = 256 * 1024
ROOT = "folder-of-the-team"
EMAIL = "bench@project.example"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PRIVATE_PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
PUBLIC_PEM = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
FOLDER = "application/vnd.google-apps.folder"


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _error(status: int, reason: str, **headers: str) -> Reply:
    data = {"error": {"code": status, "message": f"because {reason}", "errors": [{"reason": reason}]}}
    return Reply(status, json.dumps(data).encode(), headers)


class FakeDrive(Loopback):
    """`files` by id. `trouble` has what the next chunks meet: a status, `break`, `half`, `forget` or `ok`."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.files: dict[str, dict[str, Any]] = {ROOT: {"id": ROOT, "name": "team", "mimeType": FOLDER}}
        self.ids: set[str] = set()
        self.uploads: dict[str, dict[str, Any]] = {}
        self.tokens = 0
        self.trouble: list[Any] = []
        self.refuse: list[Reply] = []
        self.chunks = 0
        self.received = 0
        self.hold_at_chunk: int | None = None
        self.held = threading.Event()
        self.go_on = threading.Event()
        self._guard = threading.RLock()

    def key_file(self) -> str:
        data = {"type": "service_account", "client_email": EMAIL, "private_key": PRIVATE_PEM}
        return json.dumps({**data, "private_key_id": "k1", "token_uri": f"{self.url}/token"})

    @property
    def paths(self) -> dict[str, bytes]:
        """The content of every file by its path under the team's folder; two of one path would be a fault."""
        found: dict[str, bytes] = {}
        for file in self.files.values():
            if file.get("mimeType") != FOLDER:
                path = self._path(file)
                assert path not in found, f"{path} is there twice"
                found[path] = file["content"]
        return found

    def _path(self, file: dict[str, Any]) -> str:
        (parent,) = file["parents"]
        return file["name"] if parent == ROOT else f"{self._path(self.files[parent])}/{file['name']}"

    def _serve(self, asked: Asked) -> Reply:
        if asked.path == "/token":
            return self._give_token(asked)
        if asked.headers.get("authorization") != f"Bearer planted-access-{self.tokens}":
            return _error(401, "authError")
        if asked.method == "PUT":
            return self._take_chunk(asked)
        with self._guard:
            if self.refuse:
                return self.refuse.pop(0)
            if asked.path == "/drive/v3/files/generateIds":
                return self._new_ids(asked)
            assert asked.query.get("supportsAllDrives") == "true"
            if asked.path.startswith("/upload/"):
                return self._begin(asked)
            if asked.method == "POST":
                return self._create(json.loads(asked.body), FOLDER)
            return self._list(asked) if asked.path.endswith("/files") else self._get(asked)

    def _give_token(self, asked: Asked) -> Reply:
        assert asked.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        head, body, signature = asked.form["assertion"].split(".")
        if not RSAVerifier.from_string(PUBLIC_PEM).verify(f"{head}.{body}".encode(), _decoded(signature)):
            return Reply(400, b'{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}')
        claims = json.loads(_decoded(body))
        assert claims["iss"] == EMAIL and claims["aud"] == f"{self.url}/token"
        assert claims["iat"] <= time.time() + 5 and 0 < claims["exp"] - claims["iat"] <= 3600
        assert claims["scope"] == "https://www.googleapis.com/auth/drive"
        self.tokens += 1
        data = {"access_token": f"planted-access-{self.tokens}", "expires_in": 3599, "token_type": "Bearer"}
        return Reply(200, json.dumps(data).encode())

    def _new_ids(self, asked: Asked) -> Reply:
        new = [f"id-{len(self.ids) + i}" for i in range(int(asked.query["count"]))]
        self.ids.update(new)
        return Reply(200, json.dumps({"ids": new}).encode())

    def _create(self, data: dict[str, Any], kind: str) -> Reply:
        if fault := self._creation_fault(data):
            return fault
        assert data.get("mimeType") == kind
        self.files[data["id"]] = data
        return Reply(200, json.dumps({"id": data["id"]}).encode())

    def _creation_fault(self, data: dict[str, Any]) -> Reply | None:
        if data["id"] in self.files:
            return _error(409, "fileIdInUse")
        if data["id"] not in self.ids or data["parents"][0] not in self.files:
            return _error(404, "notFound")
        for key, value in data["appProperties"].items():
            assert len(f"{key}{value}".encode()) <= 124
        return None

    def _begin(self, asked: Asked) -> Reply:
        assert asked.query["uploadType"] == "resumable"
        data = json.loads(asked.body)
        if asked.method == "POST" and (fault := self._creation_fault(data)):
            return fault
        if asked.method == "PATCH":
            data = self.files[asked.path.rpartition("/")[2]]
        name = f"upload-{len(self.uploads)}"
        size = int(asked.headers["x-upload-content-length"])
        self.uploads[name] = {"data": data, "size": size, "content": bytearray(), "method": asked.method}
        return Reply(200, b"", {"Location": f"{self.url}/session/{name}"})

    def _take_chunk(self, asked: Asked) -> Reply:
        upload = self.uploads.get(asked.path.rpartition("/")[2])
        trouble = self.trouble.pop(0) if self.trouble and asked.body else "ok"
        if asked.body:
            self.chunks += 1
        if trouble == "forget":
            self.uploads.clear()
            return _error(404, "notFound")
        if upload is None:
            return _error(404, "notFound")
        if isinstance(trouble, int):
            return Reply(trouble, b"busy", {"Retry-After": "0"})
        if asked.body and self.chunks == self.hold_at_chunk:
            self.held.set()
            assert self.go_on.wait(30)
            raise BreakOff
        return self._add_chunk(asked, upload, trouble)

    def _add_chunk(self, asked: Asked, upload: dict[str, Any], trouble: str) -> Reply:
        written = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)", asked.headers["content-range"])
        assert written and int(written[3]) == upload["size"]
        if "done" in upload:
            return self._finished(upload["data"])
        if asked.body:
            first, last = int(written[1]), int(written[2])
            assert first == len(upload["content"]) and last - first + 1 == len(asked.body)
            assert len(asked.body) % UNIT == 0 or last + 1 == upload["size"]
            part = asked.body[: len(asked.body) // 2 // UNIT * UNIT] if trouble == "half" else asked.body
            upload["content"] += part
            self.received += len(part)
            if trouble in ("half", "break"):
                raise BreakOff
        if len(upload["content"]) < upload["size"]:
            have = len(upload["content"])
            return Reply(308, b"", {"Range": f"bytes=0-{have - 1}"} if have else {})
        return self._finish(upload)

    def _finish(self, upload: dict[str, Any]) -> Reply:
        data = upload["data"]
        with self._guard:
            if upload["method"] == "POST" and (fault := self._creation_fault(data)):
                return fault
            data["content"] = bytes(upload["content"])
            data["md5Checksum"] = hashlib.md5(data["content"]).hexdigest()
            self.files[data["id"]] = data
            upload["done"] = True
        return self._finished(data)

    def _finished(self, data: dict[str, Any]) -> Reply:
        return Reply(200, json.dumps({"id": data["id"], "md5Checksum": data["md5Checksum"]}).encode())

    def _get(self, asked: Asked) -> Reply:
        file = self.files.get(asked.path.rpartition("/")[2])
        return Reply(200, json.dumps(_shown(file)).encode()) if file else _error(404, "notFound")

    def _list(self, asked: Asked) -> Reply:
        assert asked.query["includeItemsFromAllDrives"] == "true"
        query = asked.query["q"]
        with_key = r"(?:appProperties has { key='paceline' and value='(\w+)' } and )?"
        wanted = re.fullmatch(with_key + r"'([\w-]+)' in parents and trashed = false", query)
        assert wanted, query
        key, parent = wanted.groups()
        found = [
            _shown(file)
            for file in self.files.values()
            if file.get("parents") == [parent] and key in (None, file["appProperties"]["paceline"])
        ]
        start = int(asked.query.get("pageToken") or 0)
        page: dict[str, Any] = {"files": found[start : start + 2]}  # small, so that pages are turned
        if start + 2 < len(found):
            page["nextPageToken"] = str(start + 2)
        return Reply(200, json.dumps(page).encode())


def _shown(file: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in file.items() if name != "content"}
