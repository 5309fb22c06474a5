"""A Slack that checks what Slack checks: token, limits of blocks and texts, threads, uploads; and is busy at times."""

import json
import threading
from typing import Any

from loopback import Asked, BreakOff, Loopback, Reply

TOKEN = "xoxb-planted-token-4711"
CHANNEL = "C0BENCH"
MOST_CHARACTERS_OF_BLOCKS = 13_200


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def blocks_fault(blocks: list[dict[str, Any]]) -> str | None:
    if len(blocks) > 50:
        return "invalid_blocks"
    if units(json.dumps(blocks, ensure_ascii=False)) > MOST_CHARACTERS_OF_BLOCKS:
        return "msg_blocks_too_long"
    for block in blocks:
        text = block["text"]["text"]
        most = {"section": 3000, "header": 150}[block["type"]]
        wanted = {"section": "mrkdwn", "header": "plain_text"}[block["type"]]
        if not 1 <= units(text) <= most or block["text"]["type"] != wanted:
            return "invalid_blocks"
    return None


class FakeSlack(Loopback):
    """`messages` by time stamp, `files` by id; `busy` more calls are answered with 429, `lost` ones done unanswered."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.messages: dict[str, dict[str, Any]] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.is_away = False
        self.busy = 0
        self.lost: set[str] = set()
        self.forbidden: set[str] = set()
        self.calls: list[str] = []
        self.refusals: list[str] = []
        self._guard = threading.Lock()

    @property
    def parents(self) -> list[dict[str, Any]]:
        return [message for message in self.messages.values() if not message["thread_ts"]]

    @property
    def replies(self) -> list[dict[str, Any]]:
        return [message for message in self.messages.values() if message["thread_ts"]]

    def text_of(self, message: dict[str, Any]) -> str:
        return "\n".join(block["text"]["text"] for block in message["blocks"])

    def _serve(self, asked: Asked) -> Reply:
        if self.is_away:
            raise BreakOff
        with self._guard:
            if asked.path.startswith("/upload/"):
                return self._take_file(asked)
            if asked.path == "/hook/T0/B0/planted-hook-secret":
                return self._take_hook(asked)
            method = asked.path.removeprefix("/api/")
            if self.busy:
                self.busy -= 1
                return Reply(429, b"", {"Retry-After": "0"})
            self.calls.append(method)
            data = self._do(method, asked)
            if not data["ok"]:
                self.refusals.append(data["error"])
            if method in self.lost:
                self.lost.discard(method)
                raise BreakOff
            return Reply(200, json.dumps(data).encode(), {"Content-Type": "application/json"})

    def _do(self, method: str, asked: Asked) -> dict[str, Any]:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return {"ok": False, "error": "invalid_auth"}
        if method in self.forbidden:
            return {"ok": False, "error": "missing_scope", "needed": "channels:history"}
        form = asked.form
        channel = form.get("channel") or form.get("channel_id")
        if channel not in (CHANNEL, "#bench", None):
            return {"ok": False, "error": "channel_not_found"}
        handler = getattr(self, "_" + method.replace(".", "_"))
        result: dict[str, Any] = handler(form)
        return result

    def _chat_postMessage(self, form: dict[str, str]) -> dict[str, Any]:  # noqa: N802
        blocks = json.loads(form.get("blocks", "[]"))
        if fault := blocks_fault(blocks):
            return {"ok": False, "error": fault}
        assert 0 < units(form["text"]) <= 40_000
        thread = form.get("thread_ts")
        if thread and thread not in self.messages:
            return {"ok": False, "error": "thread_not_found"}
        ts = f"{2_000_000_000 + len(self.messages)}.000100"
        metadata = json.loads(form["metadata"])
        message = {
            "ts": ts,
            "text": form["text"],
            "blocks": blocks,
            "thread_ts": thread,
            "metadata": metadata,
        }
        self.messages[ts] = message
        return {"ok": True, "ts": ts, "channel": CHANNEL}

    def _chat_update(self, form: dict[str, str]) -> dict[str, Any]:
        blocks = json.loads(form.get("blocks", "[]"))
        if form["ts"] not in self.messages:
            return {"ok": False, "error": "message_not_found"}
        if fault := blocks_fault(blocks):
            return {"ok": False, "error": fault}
        self.messages[form["ts"]].update(text=form["text"], blocks=blocks)
        return {"ok": True, "ts": form["ts"], "channel": CHANNEL}

    def _conversations_history(self, form: dict[str, str]) -> dict[str, Any]:
        return self._page(form, self.parents)

    def _conversations_replies(self, form: dict[str, str]) -> dict[str, Any]:
        return self._page(form, [one for one in self.replies if one["thread_ts"] == form["ts"]])

    def _page(self, form: dict[str, str], messages: list[dict[str, Any]]) -> dict[str, Any]:
        shown = [one for one in messages if float(one["ts"]) >= float(form["oldest"])]
        start = int(form.get("cursor") or 0)
        page = shown[start : start + 2]  # small, so that pages are turned
        with_metadata = form.get("include_all_metadata") == "true"
        kept = [one if with_metadata else {**one, "metadata": None} for one in page]
        cursor = str(start + 2) if start + 2 < len(shown) else ""
        return {"ok": True, "messages": kept, "response_metadata": {"next_cursor": cursor}}

    def _files_getUploadURLExternal(self, form: dict[str, str]) -> dict[str, Any]:  # noqa: N802
        file_id = f"F{len(self.files):06}"
        self.files[file_id] = {"name": form["filename"], "length": int(form["length"]), "content": None}
        return {"ok": True, "file_id": file_id, "upload_url": f"{self.url}/upload/{file_id}"}

    def _take_file(self, asked: Asked) -> Reply:
        file = self.files[asked.path.rpartition("/")[2]]
        if len(asked.body) != file["length"]:
            return Reply(400, b"length mismatch")
        file["content"] = asked.body
        return Reply(200, b"OK")

    def _files_completeUploadExternal(self, form: dict[str, str]) -> dict[str, Any]:  # noqa: N802
        (given,) = json.loads(form["files"])
        file = self.files.get(given["id"])
        if file is None or file["content"] is None:
            return {"ok": False, "error": "file_not_found"}
        assert form["thread_ts"] in self.messages and form["channel_id"] == CHANNEL
        file.update(shared=form["thread_ts"], comment=form.get("initial_comment", ""), title=given["title"])
        return {"ok": True, "files": [{"id": given["id"]}]}

    def _files_info(self, form: dict[str, str]) -> dict[str, Any]:
        file = self.files[form["file"]]
        return {"ok": True, "file": {"shares": {"public": {CHANNEL: []}} if file.get("shared") else {}}}

    def _take_hook(self, asked: Asked) -> Reply:
        data = json.loads(asked.body)
        if blocks_fault(data["blocks"]):
            return Reply(400, b"invalid_blocks")
        ts = f"hook-{len(self.messages)}"
        self.messages[ts] = {"ts": ts, "text": data["text"], "blocks": data["blocks"], "thread_ts": None}
        return Reply(200, b"ok")
