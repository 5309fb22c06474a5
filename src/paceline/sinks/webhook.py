"""Any service that takes JSON: one signed POST an event."""

import hashlib
import hmac
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from paceline.model import Plan, Record, Report
from paceline.record.codec import dump_plain, finding_json, to_json
from paceline.sinks import Sink, SinkContext, Undeliverable
from paceline.sinks.http import request


class WebhookOptions(BaseModel):
    """Where to post, and with what to sign."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(min_length=1, description="Where every event is posted.")
    secret_env: str | None = Field(default=None, description="The variable with the key of the signature.")
    headers: dict[str, str] = Field(default={}, description="Further headers, such as `Authorization`.")

    def secrets(self) -> dict[str, str | None]:
        """The variables that hold what it cannot do without, each with a file that may stand in for it."""
        return {self.secret_env: None} if self.secret_env else {}


class WebhookSink(Sink):
    """Posts `open`, `record` and `close` as JSON, each with its `Idempotency-Key`."""

    Options = WebhookOptions

    def __init__(self, options: WebhookOptions, context: SinkContext) -> None:
        super().__init__(options, context)
        self._secret = context.secret(options.secret_env) if options.secret_env else ""
        if any("\n" in text or "\r" in text for pair in options.headers.items() for text in pair):
            raise Undeliverable("a header holds a line break")

    def open(self, plan: Plan) -> None:
        self._post("open", {"cases": [case.name for case in plan.cases]})

    def record(self, record: Record) -> None:
        self._post("record", {"record": to_json(record)})

    def close(self, report: Report) -> None:
        counts = {status.value: count for status, count in report.counts.items()}
        findings = [finding_json(finding) for finding in report.findings]
        self._post("close", {"ok": report.ok, "counts": counts, "findings": findings})

    def _post(self, event: str, data: dict[str, Any]) -> None:
        key = self.context.key
        body = dump_plain({"event": event, "key": key, "session": self.context.session, **data})
        headers = {"Content-Type": "application/json", "Idempotency-Key": key, **self.options.headers}
        if self._secret:
            headers["X-Paceline-Signature"] = f"sha256={sign(body, self._secret)}"
        request("POST", self.options.url, body=body, headers=headers, timeout_s=self.context.timeout_s / 2)


def sign(body: bytes, secret: str) -> str:
    """The signature of a body: its HMAC-SHA256 in hexadecimal digits, as GitHub's webhooks have it."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
