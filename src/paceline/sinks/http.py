"""One HTTP request, its failures told apart: come back later, or never."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from paceline.sinks import TryLater, Undeliverable, note_answer
from paceline.urls import split_login

_PATIENCE = frozenset({408, 425, 429})
_LARGEST_ANSWER = 16 << 20
_SHOWN_ANSWER = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a service said; header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise TryLater(f"the answer is no JSON: {_excerpt(self.body)}") from error


class _NoRedirects(HTTPRedirectHandler):
    """What is sent carries secrets and signatures, which are for one address only."""

    def redirect_request(self, *_: Any) -> None:
        return None


def request(
    method: str,
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    expected: frozenset[int] = frozenset(),
) -> Answer:
    """The answer to a request, if its status is 2xx or one of `expected`; else `TryLater` or `Undeliverable`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Undeliverable("the address is no http:// or https:// URL")
    address, login = split_login(url)
    asked = Request(address, data=body, headers={**login, **(headers or {})}, method=method)  # noqa: S310 - http only
    try:
        with build_opener(_NoRedirects).open(asked, timeout=timeout_s) as response:
            answer = Answer(
                status=response.status,
                headers=_lowered(response.headers),
                body=response.read(_LARGEST_ANSWER),
            )
        note_answer()
        return answer
    except HTTPError as error:
        with error:
            answer = Answer(
                status=error.code, headers=_lowered(error.headers), body=error.read(_LARGEST_ANSWER)
            )
        if answer.status in expected:
            note_answer()
            return answer
        raise _refusal(parts.hostname, answer) from None
    except (URLError, HTTPException, TimeoutError, OSError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, socket.gaierror):
            reason = "no such host"
        raise TryLater(f"{parts.hostname} cannot be reached: {reason}") from None


def post_json(url: str, data: Any, *, headers: Mapping[str, str] | None = None, **options: Any) -> Answer:
    """Send JSON."""
    body = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
    return request(
        "POST", url, body=body, headers={"Content-Type": "application/json", **(headers or {})}, **options
    )


def _refusal(host: str, answer: Answer) -> Exception:
    said = f"{host} answered {answer.status}: {_excerpt(answer.body)}".rstrip(": ")
    if answer.status in _PATIENCE or answer.status >= 500:
        return TryLater(said, after_s=retry_after_s(answer.headers.get("retry-after")))
    return Undeliverable(said)


def retry_after_s(text: str | None) -> float | None:
    """The seconds of a `Retry-After` header: a number, or a date; None if it is neither."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (zoned - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _excerpt(body: bytes) -> str:
    return " ".join(body[:_SHOWN_ANSWER].decode("utf-8", "replace").split())


def _lowered(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
