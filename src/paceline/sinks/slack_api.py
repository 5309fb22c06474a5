"""Slack's Web API: the few methods that a session needs, and what its errors ask of a user."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from paceline.sinks import TryLater, Undeliverable
from paceline.sinks.http import request
from paceline.sinks.slack_text import Block

EVENT_TYPE = "paceline_delivery"
_PAGES = 5
_PAGE_SIZE = 200
_PASSING = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
        "accesslimited",
    }
)
_REMEDIES: Mapping[str, str] = {
    "invalid_auth": "give a valid bot token (xoxb-…)",
    "not_authed": "give a bot token (xoxb-…)",
    "token_revoked": "the bot token was revoked: give a new one",
    "token_expired": "the bot token has expired: give a new one",
    "account_inactive": "the bot's account is inactive: install the app again",
    "channel_not_found": "check `channel_id`, and invite the bot if the channel is private",
    "not_in_channel": "invite the bot to the channel",
    "is_archived": "the channel is archived: choose another one",
    "restricted_action": "the workspace does not let the bot post there",
}
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
TOO_LARGE = frozenset({"msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format"})


class SlackRefusal(Undeliverable):
    """Slack understood and said no; `code` is its word for why."""

    def __init__(self, method: str, code: str, needed: str = "") -> None:
        self.code = code
        remedy = _REMEDIES.get(code) or (f"give the bot the scope {needed}" if needed else "")
        super().__init__(f"Slack refused {method}: {code}{f'; {remedy}' if remedy else ''}")


class SlackApi:
    """A bot's calls. All arguments go as a form, the one encoding that every method takes."""

    def __init__(self, token: str, base_url: str, timeout_s: float) -> None:
        self._token = token
        self._base_url = base_url.rstrip("/")
        self._timeout_s = timeout_s

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """What a method answers."""
        given = {name: _form_value(value) for name, value in arguments.items() if value is not None}
        answer = request(
            "POST",
            f"{self._base_url}/{method}",
            body=urlencode(given).encode(),
            headers={**_FORM, "Authorization": f"Bearer {self._token}"},
            timeout_s=self._timeout_s,
        )
        data = answer.json()
        if not isinstance(data, dict):
            raise TryLater(f"Slack's answer to {method} is no object")
        if data.get("ok") is True:
            return data
        code = str(data.get("error") or "no reason given")
        if code in _PASSING:
            raise TryLater(f"Slack cannot do {method} now: {code}")
        raise SlackRefusal(method, code, str(data.get("needed") or ""))

    def post(
        self, channel: str, key: str, text: str, blocks: Sequence[Block], thread_ts: str | None = None
    ) -> dict[str, Any]:
        """A new message that carries the key by which `find` knows it."""
        metadata = {"event_type": EVENT_TYPE, "event_payload": {"key": key}}
        return self.call(
            "chat.postMessage",
            channel=channel,
            text=text,
            blocks=blocks or None,
            metadata=metadata,
            thread_ts=thread_ts,
            unfurl_links=False,
            unfurl_media=False,
        )

    def find(self, channel: str, key: str, since_s: float, thread_ts: str | None) -> str | None:
        """The time stamp of a message posted with this key, if it can be seen."""
        try:
            for message in self._messages(channel, since_s, thread_ts):
                metadata = message.get("metadata") or {}
                if metadata.get("event_type") == EVENT_TYPE and metadata["event_payload"].get("key") == key:
                    return str(message["ts"])
        except SlackRefusal:  # A bot that may not read the channel cannot know.
            return None
        return None

    def _messages(self, channel: str, since_s: float, thread_ts: str | None) -> Iterator[dict[str, Any]]:
        method = "conversations.replies" if thread_ts else "conversations.history"
        cursor = None
        for _ in range(_PAGES):
            page = self.call(
                method,
                channel=channel,
                ts=thread_ts,
                oldest=f"{since_s:.6f}",
                include_all_metadata=True,
                limit=_PAGE_SIZE,
                cursor=cursor,
            )
            yield from page.get("messages") or ()
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                return

    def begin_upload(self, filename: str, size_bytes: int) -> tuple[str, str]:
        """The address to send a file to, and the file's id."""
        data = self.call("files.getUploadURLExternal", filename=filename, length=size_bytes)
        return str(data["upload_url"]), str(data["file_id"])

    def send_file(self, url: str, content: bytes) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        request("POST", url, body=content, headers=headers, timeout_s=self._timeout_s)

    def share_file(self, file_id: str, title: str, channel: str, thread_ts: str | None, comment: str) -> None:
        self.call(
            "files.completeUploadExternal",
            files=[{"id": file_id, "title": title}],
            channel_id=channel,
            thread_ts=thread_ts,
            initial_comment=comment or None,
        )

    def is_shared(self, file_id: str) -> bool:
        """Whether an upload was brought to its end; False also if the bot may not know."""
        try:
            data = self.call("files.info", file=file_id)
        except SlackRefusal:
            return False
        return bool((data.get("file") or {}).get("shares"))


def _form_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
