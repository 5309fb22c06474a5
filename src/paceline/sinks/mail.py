"""E-mail: one mail when a session has ended, by SMTP with TLS; plain text, and HTML for those who want it."""

import hashlib
import html
import smtplib
import ssl
from collections.abc import Iterator
from email.message import EmailMessage
from email.utils import formatdate, parseaddr
from ipaddress import ip_address
from typing import Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from paceline.model import Report
from paceline.sinks import Sink, SinkContext, TryLater, Undeliverable
from paceline.sinks.chart import sparkline
from paceline.sinks.digest import Change, Digest, inert, make_digest, mark, report_link, words

LARGEST_ATTACHMENT_BYTES = 1 << 20
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_LONGEST_SUBJECT = 200

_CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:top"


class MailOptions(BaseModel):
    """Which server, from whom, to whom."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    host: str = Field(min_length=1, description="The SMTP server.")
    port: int | None = Field(default=None, gt=0, le=65535, description="587, 465 with `tls`, 25 with `none`.")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="How the connection is protected."
    )
    ca_file: str | None = Field(default=None, description="Certificates to trust besides the system's.")
    username: str | None = Field(default=None, description="The name to log in with, if the server asks.")
    password_env: str = Field(default="SMTP_PASSWORD", description="The variable with the password.")
    password_file: str | None = Field(default=None, description="A file with it, in place of the variable.")
    sender: str = Field(alias="from", description="The address that the mail is from.")
    to: tuple[str, ...] = Field(min_length=1, description="The addresses that it goes to.")
    subject: str = Field(default="[paceline]", description="What the subject begins with.")
    attach_report: bool = Field(default=True, description="Attach `report.md` if it is at most 1 MiB.")
    viewer_url: str | None = Field(default=None, description="A link to show; `report_url` by default.")

    @field_validator("to", mode="before")
    @classmethod
    def _one_or_more(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("sender", "to")
    @classmethod
    def _addresses(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for address in (value,) if isinstance(value, str) else value:
            if "@" not in parseaddr(address)[1] or "\n" in address or "\r" in address:
                raise ValueError(f"{address!r} is no mail address")
        return value

    @model_validator(mode="after")
    def _password_needs_protection(self) -> Self:
        if self.username and self.security == "none" and not _is_loopback(self.host):
            raise ValueError("a password is not sent without TLS: set `security` to starttls or tls")
        return self

    def secrets(self) -> dict[str, str | None]:
        """The variables that hold what it cannot do without, each with a file that may stand in for it."""
        return {self.password_env: self.password_file} if self.username else {}


class MailSink(Sink):
    """Sends when the session has ended; when a resumed one has ended anew, in reply to the first mail."""

    Options = MailOptions
    options: MailOptions

    def __init__(self, options: MailOptions, context: SinkContext) -> None:
        super().__init__(options, context)
        self._notebook = context.notes

    def close(self, report: Report) -> None:
        message_id = self._message_id(self.context.key)
        if self._notebook.get(message_id):
            return
        digest = make_digest(report, report_link(self.context, self.options.viewer_url))
        self._send(self._compose(digest, message_id))
        first = self._notebook.get("first")
        if first is None:
            self._notebook.put("first", id=message_id)
        self._notebook.put(message_id)

    def _message_id(self, key: str) -> str:
        """The same for every try, so that mail programs show a mail that was sent twice once."""
        mark = hashlib.sha256(f"{self.context.session_id}\n{self.context.name}\n{key}".encode()).hexdigest()[
            :40
        ]
        domain = parseaddr(self.options.sender)[1].rpartition("@")[2] or "localhost"
        return f"<{mark}@{domain}>"

    def _compose(self, digest: Digest, message_id: str) -> EmailMessage:
        message = EmailMessage()
        title = (
            f"{self.options.subject} {'ok' if digest.ok else 'failed'}: {digest.summary} ({digest.session})"
        )
        message["Subject"] = _one_line(title)[:_LONGEST_SUBJECT]
        message["From"] = self.options.sender
        message["To"] = ", ".join(self.options.to)
        message["Date"] = formatdate(localtime=False)
        message["Message-ID"] = message_id
        message["Auto-Submitted"] = "auto-generated"
        first = self._notebook.get("first")
        if first:
            message["In-Reply-To"] = message["References"] = str(first["id"])
        message.set_content(_encodable(plain_text(digest)))
        message.add_alternative(_encodable(html_page(digest)), subtype="html")
        self._attach_report(message)
        return message

    def _attach_report(self, message: EmailMessage) -> None:
        wanted = self.options.attach_report
        parts = self.context.read_masked("report.md", LARGEST_ATTACHMENT_BYTES) if wanted else None
        content = b"".join(parts) if parts else b""
        if content:
            message.add_attachment(content, maintype="text", subtype="markdown", filename="report.md")

    def _send(self, message: EmailMessage) -> None:
        server = self.options.host
        try:
            with self._connect() as connection:
                self._log_in(connection)
                refused = connection.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            _refuse(server, max(code for code, _ in error.recipients.values()), "no recipient is taken")
        except smtplib.SMTPResponseException as error:
            _refuse(server, error.smtp_code, type(error).__name__.removeprefix("SMTP"))
        except smtplib.SMTPNotSupportedError as error:
            raise Undeliverable(f"the mail server {server} cannot do what is asked: {error}") from None
        except ssl.SSLError as error:
            raise Undeliverable(
                f"no safe connection to {server}: {error.reason or type(error).__name__}"
            ) from None
        except (OSError, smtplib.SMTPException) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            raise TryLater(f"the mail server {server} cannot be reached: {why}") from None
        if refused:
            self.context.say(
                f"mail: {len(refused)} of {len(self.options.to)} recipients were refused by {server}"
            )

    def _connect(self) -> smtplib.SMTP:
        options = self.options
        port = options.port or _PORTS[options.security]
        timeout_s = min(self.context.timeout_s / 3, 20.0)
        if options.security == "tls":
            return smtplib.SMTP_SSL(options.host, port, timeout=timeout_s, context=self._trust())
        connection = smtplib.SMTP(options.host, port, timeout=timeout_s)
        if options.security == "starttls":
            try:
                connection.starttls(context=self._trust())
            except BaseException:
                connection.close()
                raise
        return connection

    def _trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self.options.ca_file:
            context.load_verify_locations(self.options.ca_file)
        return context

    def _log_in(self, connection: smtplib.SMTP) -> None:
        if self.options.username:
            password = self.context.secret(self.options.password_env, self.options.password_file)
            connection.login(self.options.username, password)


def _refuse(server: str, code: int, what: str) -> NoReturn:
    """What the server said is left out: some repeat what they were sent."""
    text = f"the mail server {server} answered {code}: {what}"
    if 400 <= code < 500 or code < 0:
        raise TryLater(text)
    raise Undeliverable(text)


def _one_line(text: str) -> str:
    return _encodable(" ".join(text.split()))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def plain_text(digest: Digest) -> str:
    """The mail for readers without HTML; of foreign text their programs make no links."""
    links = {digest.link}
    lines = (line if line.rpartition(" ")[2] in links else inert(line) for line in _plain_lines(digest))
    return "\n".join(lines) + "\n"


def _plain_lines(digest: Digest) -> Iterator[str]:
    yield from (f"{digest.summary}.", "", digest.session)
    yield from ("", digest.unfinished) if digest.unfinished else ()
    yield from ("", f"Report: {digest.link}") if digest.link else ()
    if digest.failed:
        yield from ("", "Failed")
    for row in digest.failed:
        yield f"- {row.case}: {words(row.status)}"
        yield from (f"    {line}" for line in row.complaints)
    for title, changes in (("Got worse", digest.worse), ("Got better", digest.better)):
        yield from ("", title) if changes else ()
        for change in changes:
            yield from _plain_change(change)
    if digest.table.rows:
        yield from ("", "Entries")
    for row in digest.table.rows:
        yield "  ".join(filter(None, (f"- {row.case}: {words(row.status)}", row.time, *row.metrics)))
    yield from digest.table.footnotes


def _plain_change(change: Change) -> Iterator[str]:
    yield f"- {change.title}"
    yield from (f"    {line}" for line in (change.message, sparkline(change.values)) if line)


def html_page(digest: Digest) -> str:
    """The mail in HTML; all foreign text is escaped, nothing is loaded from anywhere."""
    return "\n".join(_html_lines(digest)) + "\n"


def _html_lines(digest: Digest) -> Iterator[str]:
    yield '<!DOCTYPE html><html><body style="font-family:sans-serif">'
    about = " · ".join(map(escape, filter(None, (digest.session, digest.rest))))
    yield f"<h2>{'✅' if digest.ok else '❌'} {escape(digest.sentence)}</h2><p>{about}</p>"
    yield from [f"<p><b>{escape(digest.unfinished)}</b></p>"] if digest.unfinished else []
    yield from [_link(digest.link, "Open the report")] if digest.link else []
    if digest.failed:
        yield "<h3>Failed</h3><ul>"
        for row in digest.failed:
            why = "".join(f"<br>{escape(line)}" for line in row.complaints)
            yield f"<li><b>{escape(row.case)}</b>: {words(row.status)}{why}</li>"
        yield "</ul>"
    for title, changes in (("Got worse", digest.worse), ("Got better", digest.better)):
        if changes:
            yield f"<h3>{title}</h3><ul>{''.join(map(_html_change, changes))}</ul>"
    yield from _html_table(digest)
    yield "</body></html>"


def _html_change(change: Change) -> str:
    parts = [escape(change.title), escape(change.message), sparkline(change.values)]
    return f"<li>{'<br>'.join(filter(None, parts))}</li>"


def _html_table(digest: Digest) -> Iterator[str]:
    if not digest.table.rows:
        return
    yield "<h3>Entries</h3><table>"
    for row in digest.table.rows:
        outcome = f"{mark(row.status)} {words(row.status)}"
        cells = (escape(row.case), outcome, row.time, "<br>".join(map(escape, row.metrics)))
        yield "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells) + "</tr>"
    yield "</table>"
    yield from (f"<p>{escape(note)}</p>" for note in digest.table.footnotes)


def _link(url: str, label: str) -> str:
    """A link of the web; any other address is shown only."""
    if not url.startswith(("https://", "http://")):
        return f"<p>{escape(url)}</p>"
    return f'<p><a href="{html.escape(url)}">{escape(label)}</a></p>'


def escape(text: str) -> str:
    """Foreign text, shown as it is."""
    return inert(html.escape(text))
