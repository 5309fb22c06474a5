"""Requests to services: what to try again, and when."""

import hashlib
import hmac
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from hook_server import serving
from paceline.sinks import TryLater, Undeliverable
from paceline.sinks.http import post_json, request, retry_after_s
from paceline.sinks.webhook import sign


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_service_that_is_busy_is_asked_later(status: int) -> None:
    with serving() as server:
        server.answers = [(status, {"Retry-After": "7"})]
        with pytest.raises(TryLater, match=str(status)) as caught:
            post_json(server.url, {})
    assert caught.value.after_s == 7


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 410, 422])
def test_a_refusal_is_final(status: int) -> None:
    with serving() as server:
        server.answers = [(status, {"Location": server.url})]
        with pytest.raises(Undeliverable, match=str(status)):
            post_json(server.url, {})
        assert server.posted == []


def test_an_expected_status_is_an_answer() -> None:
    with serving() as server:
        server.answers = [(308, {"Range": "bytes=0-9"})]
        answer = request("POST", server.url, body=b"", expected=frozenset({308}))
    assert (answer.status, answer.headers["range"]) == (308, "bytes=0-9")


def test_nobody_there_is_later_and_no_address_is_never() -> None:
    with serving() as server:
        url = server.url
    with pytest.raises(TryLater, match=r"127\.0\.0\.1 cannot be reached"):
        post_json(url, {})
    for wrong in ("file:///etc/passwd", "ftp://host/", "nothing", "http://"):
        with pytest.raises(Undeliverable, match="no http"):
            post_json(wrong, {})


def test_a_name_and_password_in_an_address_are_basic_authentication() -> None:
    with serving() as server:
        post_json(server.url.replace("//", "//me:p%40w@"), {})
        post_json(server.url.replace("//", "//token@"), {})
        post_json(server.url.replace("//", "//me:pw@"), {}, headers={"authorization": "Bearer b"})
        sent = [posted.headers["Authorization"] for posted in server.posted]
    assert sent == [
        f"Basic {b64encode(b'me:p@w').decode()}",
        f"Basic {b64encode(b'token:').decode()}",
        "Bearer b",
    ]
    with pytest.raises(TryLater, match=r"127\.0\.0\.1 cannot be reached") as caught:
        post_json(server.url.replace("//", "//me:pw-of-mine@"), {})
    assert "pw-of-mine" not in str(caught.value)


def test_retry_after_may_be_a_date() -> None:
    moment = datetime.now(UTC) + timedelta(seconds=90)
    assert 60 < (retry_after_s(format_datetime(moment, usegmt=True)) or 0) <= 90
    assert retry_after_s("soon") is None and retry_after_s(None) is None
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0


ABSURD = [
    "-5",
    "1e9",
    "9" * 5000,
    "inf",
    "nan",
    "",
    "Fri, 31 Dec 9999 23:59:59 -1200",
    "Mon, 32 Foo 2026",
    "٣",
]


@pytest.mark.parametrize("text", ABSURD)
def test_an_absurd_retry_after_is_bounded(text: str) -> None:
    asked_s = TryLater("later", after_s=retry_after_s(text)).after_s
    assert asked_s is None or 0 <= asked_s <= 3600


@pytest.mark.parametrize("after_s", [-1.0, 1e300, float("inf"), float("nan")])
def test_an_absurd_pause_of_a_sink_is_bounded(after_s: float) -> None:
    asked_s = TryLater("later", after_s=after_s).after_s
    assert asked_s is not None and 0 <= asked_s <= 3600


def test_the_signature_is_the_one_others_compute() -> None:
    expected = hmac.new(b"key", b"body", hashlib.sha256).hexdigest()
    assert sign(b"body", "key") == expected
