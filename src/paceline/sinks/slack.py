"""Slack: a message a session that is kept current, a reply an entry in its thread, and the report as a file."""

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from paceline.model import Case, Plan, Record, Report, Status
from paceline.record.directory import SessionDir
from paceline.report.markdown import output_tail
from paceline.sinks import Deadline, Sink, SinkContext
from paceline.sinks.chart import draw_png
from paceline.sinks.digest import Change, make_digest, report_link
from paceline.sinks.http import post_json
from paceline.sinks.slack_api import TOO_LARGE, SlackApi, SlackRefusal
from paceline.sinks.slack_text import (
    MOST_LISTED,
    Block,
    Progress,
    change_blocks,
    environment_lines,
    fallback,
    metrics_line,
    pack,
    progress_blocks,
    record_blocks,
    report_blocks,
    sections,
)

LIVE_INTERVAL_S = 3.0
"""How often the session's message is changed at most; Slack allows some fifty changes a minute."""

CLOCKS_DIFFER_S = 600.0
"""How much earlier than by our clock a message is looked for."""

MOST_CHARTS = 10
MOST_WEBHOOK_MESSAGES = 5
LARGEST_REPORT_BYTES = 10 << 20
LOG_LINES = 10


class SlackOptions(BaseModel):
    """Where to post, and what."""

    model_config = ConfigDict(extra="forbid")

    channel_id: str = Field(
        default="",
        validation_alias=AliasChoices("channel_id", "channel"),
        description="The channel's id, for a bot.",
    )
    token_env: str = Field(default="SLACK_BOT_TOKEN", description="The variable with the bot's token.")
    token_file: str | None = Field(default=None, description="A file with it, in place of the variable.")
    webhook_env: str | None = Field(default=None, description="The variable with an incoming webhook's URL.")
    webhook_url: str | None = Field(default=None, description="That URL; better given as `${VARIABLE}`.")
    default_metrics: tuple[str, ...] = Field(default=(), description="Metrics to show of every entry.")
    live_updates: bool = Field(
        default=True, description="Reply as entries end, not all at the session's end."
    )
    ping_users_on_failure: bool = Field(default=True, description="Mention an entry's `ping_on_failure`.")
    thread_replies_for_failures_or_warnings_only: bool = Field(
        default=False, description="No reply if all is well."
    )
    most_replies: int = Field(default=200, ge=0, description="Past this many replies only failures get one.")
    upload_report: bool = Field(default=True, description="Put `report.md` into the thread.")
    viewer_url: str | None = Field(default=None, description="A link to show; `report_url` by default.")
    api_url: str = Field(default="https://slack.com/api", description="The Web API's address.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if not self.channel_id and not self.webhook_env and not self.webhook_url:
            raise ValueError("give `channel_id` for a bot, or `webhook_env` for an incoming webhook")
        return self

    def secrets(self) -> dict[str, str | None]:
        """The variables that hold what it cannot do without, each with a file that may stand in for it."""
        if self.channel_id:
            return {self.token_env: self.token_file}
        return {} if self.webhook_url else {self.webhook_env or "": None}


class EntryWishes(BaseModel):
    """An entry's `sink_data` for Slack."""

    model_config = ConfigDict(extra="ignore")

    additional_metrics: tuple[str, ...] = ()
    ping_on_failure: tuple[str, ...] = ()


class SlackSink(Sink):
    """Posts as a bot if a channel is given, else through a webhook, which can only say how the session ended."""

    Options = SlackOptions
    options: SlackOptions

    def __init__(self, options: SlackOptions, context: SinkContext) -> None:
        super().__init__(options, context)
        self._notebook = context.notes
        self._wishes: dict[str, Any] = {}
        self._total = 0
        self._shown_at = float("-inf")
        self._deadline = Deadline(context.timeout_s)
        timeout_s = min(context.timeout_s / 3, 20.0)
        if options.channel_id:
            token = context.secret(options.token_env, options.token_file)
            self._api: SlackApi | None = SlackApi(token, options.api_url, timeout_s)
        else:
            self._api = None
            self._webhook = options.webhook_url or context.secret(options.webhook_env or "")
            context.keep_secret(self._webhook)
        self._timeout_s = timeout_s

    def open(self, plan: Plan) -> None:
        self.reopen(plan)
        if self._api and self.options.live_updates:
            self._thread(self._api)

    def reopen(self, plan: Plan) -> None:
        self._wishes = {case.name: self._wish_data(case) for case in (*plan.setups, *plan.cases)}
        self._total = len(self._wishes)

    def record(self, record: Record) -> None:
        self._deadline = Deadline(self.context.timeout_s)
        attempt = {"status": record.status.value, "attempt": record.attempt}
        self._notebook.put(f"case {record.case.name}", **attempt)
        if self._api and self.options.live_updates:
            self._reply(self._api, record)
            self._show_progress(self._api)

    def close(self, report: Report) -> None:
        self._deadline = Deadline(self.context.timeout_s)
        if self._api is None:
            self._post_to_webhook(report)
            return
        if not self.options.live_updates:
            for record in report.records:
                self._reply(self._api, record)
        digest = make_digest(report, self._link)
        blocks = report_blocks(digest, self._mentions(report))
        self._show(self._api, pack(blocks)[0], final=True)
        self._post_all(self._api, self._run_key("more"), pack(blocks)[1:])
        for number, change in enumerate(digest.changes):
            self._post_change(self._api, change, number)
        if self.options.upload_report:
            self._upload_report(self._api)

    @property
    def _link(self) -> str:
        return report_link(self.context, self.options.viewer_url)

    def _wish_data(self, case: Case) -> Mapping[str, Any]:
        given = case.sink_data.get(self.context.name) or case.sink_data.get("slack")
        return given if isinstance(given, Mapping) else {}

    def _wishes_of(self, case: Case) -> EntryWishes:
        data = self._wish_data(case) or self._wishes.get(case.name) or {}
        known = {name: _texts(data.get(name)) for name in EntryWishes.model_fields}
        return EntryWishes(**known)

    def _run_key(self, what: str) -> str:
        """A key for something said at the end: another one when the session was resumed and ended again."""
        return f"{what} {self.context.key}"

    def _mentions(self, report: Report) -> tuple[str, ...]:
        """Whom to tell in the last message: only where no reply did so."""
        if not self.options.ping_users_on_failure or self._api:
            return ()
        return self._pinged(report.records)

    def _pinged(self, records: Sequence[Record]) -> tuple[str, ...]:
        failed = (record for record in records if not record.status.ok)
        return tuple(
            dict.fromkeys(who for record in failed for who in self._wishes_of(record.case).ping_on_failure)
        )

    def _thread(self, api: SlackApi) -> str:
        """The time stamp of the session's message, which is posted first if need be."""
        known = self._notebook.get("session")
        if known and "ts" in known:
            return str(known["ts"])
        return self._post(api, "session", progress_blocks(self._progress()), thread_ts=None)

    @property
    def _channel(self) -> str:
        """The channel's id as Slack gave it: a file cannot be shared with a channel by its name."""
        known = self._notebook.get("session") or {}
        return str(known.get("channel") or self.options.channel_id)

    def _progress(self) -> Progress:
        facts = self._notebook.under("case ").values()
        counts = Counter(Status(fact["status"]) for fact in facts)
        return Progress(session=self.context.session, counts=counts, total=self._total, link=self._link)

    def _show_progress(self, api: SlackApi) -> None:
        if time.monotonic() - self._shown_at >= LIVE_INTERVAL_S:
            self._show(api, progress_blocks(self._progress()))
            self._shown_at = time.monotonic()

    def _show(self, api: SlackApi, blocks: Sequence[Block], *, final: bool = False) -> None:
        """Change the session's message; one that somebody deleted is posted anew at the end."""
        ts = self._thread(api)
        text = fallback(blocks)
        try:
            api.call("chat.update", channel=self._channel, ts=ts, text=text, blocks=list(blocks))
        except SlackRefusal as refusal:
            if refusal.code in TOO_LARGE:
                api.call("chat.update", channel=self._channel, ts=ts, text=text, blocks=[])
            elif refusal.code in ("message_not_found", "cant_update_message", "edit_window_closed"):
                if final:
                    self._post(api, self._run_key("end"), blocks, thread_ts=None)
            else:
                raise

    def _reply(self, api: SlackApi, record: Record) -> None:
        replied = self._notebook.get("replies") or {"count": 0}
        well = record.status.ok and not record.warnings
        enough = replied["count"] >= self.options.most_replies
        if well and (enough or self.options.thread_replies_for_failures_or_warnings_only):
            return
        wishes = self._wishes_of(record.case)
        blocks = record_blocks(
            record,
            (*self.options.default_metrics, *wishes.additional_metrics),
            mentions=wishes.ping_on_failure if self.options.ping_users_on_failure else (),
            log=self._log_tail(record),
        )
        key = f"record {record.case.name} {record.attempt}"
        if self._post_all(api, key, pack(blocks)):
            self._notebook.put("replies", count=replied["count"] + 1)

    def _log_tail(self, record: Record) -> list[str]:
        """The end of a failed entry's output; a number that is out of bounds explains itself."""
        if record.status.ok or record.status is Status.REQUIREMENT_FAILED:
            return []
        return output_tail(SessionDir(self.context.session_dir), record.case, LOG_LINES)

    def _post_change(self, api: SlackApi, change: Change, number: int) -> None:
        key = self._run_key(f"change {change.case} {change.metric}")
        if number < MOST_CHARTS and len(change.values) > 1:
            with suppress(SlackRefusal):  # A bot that may not upload can still say it.
                self._post_chart(api, change, key)
                return
        self._post_all(api, key, pack(change_blocks(change, drawn=False)))

    def _post_chart(self, api: SlackApi, change: Change, key: str) -> None:
        picture = draw_png(change.values, change.index)
        text = fallback(change_blocks(change, drawn=True))
        self._upload(api, key, "chart.png", picture, title=change.title[:200], comment=text)

    def _post_all(self, api: SlackApi, key: str, messages: Sequence[Sequence[Block]]) -> bool:
        """Post what is not posted yet; whether there was anything."""
        thread_ts = self._thread(api)
        new = False
        for number, blocks in enumerate(messages):
            part = f"{key} {number}"
            new = new or "ts" not in (self._notebook.get(part) or {})
            self._post(api, part, blocks, thread_ts=thread_ts)
        return new

    def _post(self, api: SlackApi, key: str, blocks: Sequence[Block], *, thread_ts: str | None) -> str:
        """Post a message once: after a crash in the middle it is looked for by its key before it is posted again."""
        known = self._notebook.get(key)
        if known and "ts" in known:
            return str(known["ts"])
        self._deadline.check("Slack")
        mark = hashlib.sha256(f"{self.context.session_id}\n{self.context.name}\n{key}".encode()).hexdigest()[
            :40
        ]
        channel = self._channel
        if known is None:
            self._notebook.put(key, since_s=time.time() - CLOCKS_DIFFER_S)
        elif found := api.find(channel, mark, float(known["since_s"]), thread_ts):
            return str(self._notebook.put(key, ts=found, channel=channel)["ts"])
        text = fallback(blocks)
        try:
            posted = api.post(channel, mark, text, blocks, thread_ts)
        except SlackRefusal as refusal:
            if refusal.code not in TOO_LARGE:
                raise
            posted = api.post(channel, mark, text, (), thread_ts)
        return str(self._notebook.put(key, ts=posted["ts"], channel=posted.get("channel") or channel)["ts"])

    def _upload_report(self, api: SlackApi) -> None:
        parts = self.context.read_masked("report.md")
        content = b"".join(parts)[:LARGEST_REPORT_BYTES] if parts else b""
        if content:
            name = f"{self.context.session}.md"
            self._upload(api, self._run_key("report"), name, content, title=self.context.session, comment="")

    def _upload(
        self, api: SlackApi, key: str, filename: str, content: bytes, *, title: str, comment: str
    ) -> None:
        """Upload a file into the thread once, as far as Slack lets the bot know."""
        known = self._notebook.get(key) or {}
        if known.get("done"):
            return
        self._deadline.check("Slack")
        if not ("file_id" in known and api.is_shared(known["file_id"])):
            url, file_id = api.begin_upload(filename, len(content))
            api.send_file(url, content)
            self._notebook.put(key, file_id=file_id)
            api.share_file(file_id, title, self._channel, self._thread(api), comment)
        self._notebook.put(key, done=True)

    def _post_to_webhook(self, report: Report) -> None:
        digest = make_digest(report, self._link)
        blocks = report_blocks(digest, self._mentions(report))
        blocks += sections(["*Metrics*", *self._metric_lines(report.records)])
        blocks += sections(environment_lines(self.context.environment))
        for change in digest.changes:
            blocks += change_blocks(change, drawn=False)
        messages = pack(blocks)
        if len(messages) > MOST_WEBHOOK_MESSAGES:
            messages[MOST_WEBHOOK_MESSAGES - 1 :] = [sections(["… the rest is in the session's report."])]
        for number, message in enumerate(messages):
            key = self._run_key(f"webhook {number}")
            if self._notebook.get(key) is None:
                self._send_to_webhook(message)
                self._notebook.put(key, done=True)

    def _metric_lines(self, records: Sequence[Record]) -> list[str]:
        """A line for each of the first records: a webhook has no thread for more."""
        lines = []
        for record in islice(records, MOST_LISTED):
            names = (*self.options.default_metrics, *self._wishes_of(record.case).additional_metrics)
            lines.append(metrics_line(record, names))
        hidden = len(records) - len(lines)
        return [*lines, *([f"… and {hidden:,} more"] if hidden > 0 else [])]

    def _send_to_webhook(self, blocks: Sequence[Block]) -> None:
        post_json(
            self._webhook, {"text": fallback(blocks), "blocks": list(blocks)}, timeout_s=self._timeout_s
        )


def _texts(value: Any) -> tuple[str, ...]:
    """A list of texts, or one that stands alone."""
    if isinstance(value, str):
        return (value,)
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()
