"""Google Drive's API as far as a folder of files needs it: sign in, ids, folders, listings and resumable uploads."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from paceline.sinks import SinkContext, TryLater, Undeliverable
from paceline.sinks.http import Answer, request, retry_after_s

_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFETIME_S = 3600
_SPARE_S = 120
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_KEY_FIELDS = ("client_email", "private_key", "token_uri")

UNIT_BYTES = 256 * 1024
"""Chunks of an upload, all but the last, are multiples of this."""

FOLDER = "application/vnd.google-apps.folder"
PROPERTY = "paceline"
_FIELDS = "id,name,md5Checksum,size,appProperties"
_BUSY = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "sharingRateLimitExceeded", "backendError"})
_REMEDIES: Mapping[str, str] = {
    "storageQuotaExceeded": "a service account has no storage of its own: use a folder of a shared drive",
    "insufficientFilePermissions": "share the folder with the service account as a contributor",
    "notFound": "check `drive_folder_id`, and share the folder with the service account",
    "accessNotConfigured": "enable the Google Drive API in the account's project",
}
_EVERY_STATUS = frozenset(range(300, 600))
_JSON = {"Content-Type": "application/json; charset=UTF-8"}


class ServiceAccount:
    """Tokens for one scope; each is kept until shortly before it expires."""

    def __init__(
        self, key_text: str, scope: str, context: SinkContext, *, subject: str | None = None
    ) -> None:
        self._key = _parse(key_text)
        self._scope = scope
        self._subject = subject
        self._context = context
        self._token, self._expires_s = "", 0.0
        context.keep_secret(self._key["private_key"])

    def token(self) -> str:
        """A token that is good for the next request."""
        if time.time() >= self._expires_s - _SPARE_S:
            self._sign_in()
        return self._token

    def forget(self) -> None:
        """Get a new token the next time: the service did not take this one."""
        self._expires_s = 0.0

    def _sign_in(self) -> None:
        body = urlencode({"grant_type": _GRANT, "assertion": self._assertion()}).encode()
        uri = self._key["token_uri"]
        answer = request(
            "POST", uri, body=body, headers=_FORM, timeout_s=20, expected=frozenset({400, 401, 403})
        )
        data = answer.json()
        if answer.status != 200:
            why = data.get("error_description") or data.get("error") if isinstance(data, dict) else None
            raise Undeliverable(f"Google does not take the service account's key: {why or answer.status}")
        if not isinstance(data, dict) or not data.get("access_token"):
            raise TryLater("Google gave no token")
        self._token = str(data["access_token"])
        self._expires_s = time.time() + float(data.get("expires_in") or _LIFETIME_S)
        self._context.keep_secret(self._token)

    def _assertion(self) -> str:
        from google.auth import crypt, jwt

        now = int(time.time())
        claims = {
            "iss": self._key["client_email"],
            "scope": self._scope,
            "aud": self._key["token_uri"],
            "iat": now,
            "exp": now + _LIFETIME_S,
            **({"sub": self._subject} if self._subject else {}),
        }
        try:
            signer = crypt.RSASigner.from_service_account_info(self._key)  # type: ignore[no-untyped-call]
        except ValueError:
            raise Undeliverable("the private key of the service account's file cannot be read") from None
        signed: bytes = jwt.encode(signer, claims)  # type: ignore[no-untyped-call]
        return signed.decode()


def _parse(text: str) -> dict[str, Any]:
    """The key file's content; its text is a secret, so an error says nothing of it."""
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if not isinstance(data, dict) or not all(isinstance(data.get(name), str) for name in _KEY_FIELDS):
        raise Undeliverable(f"that is no service account's key file: it needs {', '.join(_KEY_FIELDS)}")
    return data


class DriveApi:
    """Requests with the account's token; a token that has expired is renewed once."""

    def __init__(self, account: ServiceAccount, base_url: str, timeout_s: float) -> None:
        self._account = account
        self._files = f"{base_url.rstrip('/')}/drive/v3/files"
        self._upload = f"{base_url.rstrip('/')}/upload/drive/v3/files"
        self._timeout_s = timeout_s

    def _send(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        for _ in range(2):
            answer = request(
                method,
                url,
                body=body,
                headers={"Authorization": f"Bearer {self._account.token()}", **headers},
                timeout_s=self._timeout_s,
                expected=_EVERY_STATUS,
            )
            if answer.status != 401:
                break
            self._account.forget()
        return answer

    def _ask(
        self, method: str, url: str, query: Mapping[str, Any], data: Any = None, *, also: tuple[int, ...] = ()
    ) -> Answer:
        """An answer that says all went well, or one of `also`."""
        body = None if data is None else json.dumps(data).encode()
        answer = self._send(method, f"{url}?{urlencode(query)}", body, _JSON if body is not None else {})
        return answer if answer.status < 300 or answer.status in also else refuse(answer)

    def new_ids(self, count: int) -> list[str]:
        """Ids that nothing has yet: a thing created with one twice is there once."""
        answer = self._ask("GET", f"{self._files}/generateIds", {"count": min(count, 1000), "space": "drive"})
        return [str(one) for one in answer.json()["ids"]]

    def create_folder(self, folder_id: str, name: str, parent: str, key: str) -> None:
        """Make a folder; that it is there already is well."""
        data = {"mimeType": FOLDER, **_metadata(folder_id, name, parent, key)}
        self._ask("POST", self._files, {"supportsAllDrives": "true", "fields": "id"}, data, also=(409,))

    def children(self, parent: str) -> Iterator[dict[str, Any]]:
        """What lies in a folder and was put there by us."""
        query = {
            "q": f"'{parent}' in parents and trashed = false",
            "fields": f"nextPageToken,files({_FIELDS})",
            "pageSize": "1000",
            "supportsAllDrives": "true",
            "includeItemsFromAllDrives": "true",
        }
        yield from self._listed(query)

    def find(self, parent: str, key: str) -> dict[str, Any] | None:
        """The thing in a folder that carries our key."""
        has_key = f"appProperties has {{ key='{PROPERTY}' and value='{key}' }}"
        query = {
            "q": f"{has_key} and '{parent}' in parents and trashed = false",
            "fields": f"nextPageToken,files({_FIELDS})",
            "supportsAllDrives": "true",
            "includeItemsFromAllDrives": "true",
        }
        return next(self._listed(query), None)

    def _listed(self, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        while True:
            page = self._ask("GET", self._files, query).json()
            yield from page.get("files") or ()
            if not page.get("nextPageToken"):
                return
            query = {**query, "pageToken": page["nextPageToken"]}

    def checksum(self, file_id: str) -> str | None:
        """The MD5 of a file's content; None if there is no such file."""
        query = {"fields": _FIELDS, "supportsAllDrives": "true"}
        answer = self._ask("GET", f"{self._files}/{file_id}", query, also=(404,))
        return None if answer.status == 404 else str(answer.json().get("md5Checksum") or "")

    def begin_new(self, file_id: str, name: str, parent: str, key: str, size_bytes: int) -> str | None:
        """The address of the upload of a new file; None if a file of this id is there already."""
        return self._begin("POST", self._upload, _metadata(file_id, name, parent, key), size_bytes)

    def begin_again(self, file_id: str, size_bytes: int) -> str | None:
        """The address of the upload of a file's new content."""
        return self._begin("PATCH", f"{self._upload}/{file_id}", {}, size_bytes)

    def _begin(self, method: str, url: str, metadata: Mapping[str, Any], size_bytes: int) -> str | None:
        query = {"uploadType": "resumable", "supportsAllDrives": "true", "fields": _FIELDS}
        headers = {
            **_JSON,
            "X-Upload-Content-Type": "application/octet-stream",
            "X-Upload-Content-Length": str(size_bytes),
        }
        answer = self._send(method, f"{url}?{urlencode(query)}", json.dumps(metadata).encode(), headers)
        if answer.status == 409:
            return None
        if answer.status >= 300:
            refuse(answer)
        location = answer.headers.get("location")
        if not location:
            raise TryLater("Google Drive gave no address for an upload")
        return location

    def put(self, uri: str, chunk: bytes, offset: int, size_bytes: int) -> Answer:
        """Send a chunk; any status is an answer."""
        sent = f"{offset}-{offset + len(chunk) - 1}" if chunk else "*"
        return self._send("PUT", uri, chunk, {"Content-Range": f"bytes {sent}/{size_bytes}"})

    def status(self, uri: str, size_bytes: int) -> Answer:
        """How far an upload has come."""
        return self.put(uri, b"", 0, size_bytes)


def received(answer: Answer) -> int:
    """How many bytes of an upload have arrived; a 308 without a range says: none."""
    found = re.fullmatch(r"bytes=0-(\d+)", answer.headers.get("range", ""))
    return int(found[1]) + 1 if found else 0


def refuse(answer: Answer) -> Answer:
    """Say why Drive did not do it: later, or never."""
    data = answer.json() if answer.body.lstrip().startswith(b"{") else {}
    given = data.get("error")
    error: dict[str, Any] = given if isinstance(given, dict) else {}
    reason = next((str(one.get("reason")) for one in error.get("errors") or ()), "")
    said = f"Google Drive answered {answer.status}: {str(error.get('message') or reason)[:200]}".rstrip(": ")
    if answer.status in (408, 429) or answer.status >= 500 or reason in _BUSY:
        raise TryLater(said, after_s=retry_after_s(answer.headers.get("retry-after")))
    remedy = _REMEDIES.get(reason)
    raise Undeliverable(f"{said}; {remedy}" if remedy else said)


def _metadata(file_id: str, name: str, parent: str, key: str) -> dict[str, Any]:
    return {"id": file_id, "name": name, "parents": [parent], "appProperties": {PROPERTY: key}}
