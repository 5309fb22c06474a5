"""A Google service account: signs its name and gets a token for an hour."""

import json
import time
from typing import Any
from urllib.parse import urlencode

from paceline.sinks import SinkContext, TryLater, Undeliverable
from paceline.sinks.http import request

_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFETIME_S = 3600
_SPARE_S = 120
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_FIELDS = ("client_email", "private_key", "token_uri")


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
    if not isinstance(data, dict) or not all(isinstance(data.get(name), str) for name in _FIELDS):
        raise Undeliverable(f"that is no service account's key file: it needs {', '.join(_FIELDS)}")
    return data
