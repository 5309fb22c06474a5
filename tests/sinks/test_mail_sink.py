"""Mail against a real SMTP server with TLS and a login."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from paceline.model import Status
from paceline.sinks import TryLater, Undeliverable
from paceline.sinks.digest import make_digest
from paceline.sinks.mail import MailSink, html_page, plain_text
from service_sessions import REGRESSION, build, make_record, make_report, run_session, too_slow

PASSWORD = "planted-mail-password"


class Mailbox:
    """What the server took; `refuse` has what it says to the next mails or recipients."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.refuse: list[str] = []
        self.refused_recipients: dict[str, str] = {}

    @property
    def mails(self) -> list[EmailMessage]:
        found = [message_from_bytes(one.content or b"", policy=policy.default) for one in self.envelopes]
        return [mail for mail in found if isinstance(mail, EmailMessage)]

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Envelope, address: str, options: Any
    ) -> str:
        if address in self.refused_recipients:
            return self.refused_recipients[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:  # noqa: N802
        if self.refuse:
            return self.refuse.pop(0)
        self.envelopes.append(envelope)
        return "250 OK"


def _authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    return AuthResult(success=(data.login, data.password) == (b"bench", PASSWORD.encode()), handled=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate for loopback, and its key beside it."""
    place = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (place / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (place / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return place / "cert.pem"


class Server(Controller):
    """Listens on a free port, which is known once it runs."""

    def __init__(self, mailbox: Mailbox, **options: Any) -> None:
        super().__init__(mailbox, hostname="127.0.0.1", port=0, ready_timeout=60, **options)

    def _trigger_server(self) -> None:
        """The controller connects to itself here, for which it needs the port that it got."""
        self.port = self.real_port
        super()._trigger_server()

    @property
    def real_port(self) -> int:
        assert self.server is not None
        port: int = self.server.sockets[0].getsockname()[1]
        return port


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def server(mailbox: Mailbox, certificate: Path) -> Iterator[Server]:
    """A server that takes mail only after STARTTLS and a login."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    running = Server(
        mailbox,
        tls_context=context,
        require_starttls=True,
        auth_required=True,
        authenticator=_authenticate,
    )
    running.start()
    yield running
    running.stop()


def options_for(server: Server, certificate: Path, **options: Any) -> dict[str, Any]:
    return {
        "host": "127.0.0.1",
        "port": server.real_port,
        "ca_file": str(certificate),
        "username": "bench",
        "from": "Bench <bench@team.example>",
        "to": ["a@team.example", "b@team.example"],
        **options,
    }


ENVIRON = {"SMTP_PASSWORD": PASSWORD}


def test_a_session_is_one_mail(server: Server, mailbox: Mailbox, certificate: Path, tmp_path: Path) -> None:
    options = options_for(server, certificate, viewer_url="https://bench.example/night")
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "report.md").write_text("# night ✅\n")
    for _ in range(2):  # the same call once more, as after a crash: nothing is sent again
        run_session(
            build(MailSink, tmp_path, options, ENVIRON), [make_record("sort"), too_slow("join")], [REGRESSION]
        )
    (envelope,), (mail,) = mailbox.envelopes, mailbox.mails
    assert envelope.rcpt_tos == ["a@team.example", "b@team.example"]
    assert (
        mail["Subject"].strip()
        == "[paceline] failed: 1 failed, 1 slower; 1 passed, 1 requirement failed of 2 cases (night)"
    )
    assert mail["Message-ID"].endswith("@team.example>") and mail["Auto-Submitted"] == "auto-generated"
    plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert plain is not None and html is not None
    lines = plain.get_content().splitlines()
    assert lines[lines.index("- join: requirement failed") + 1] == "    docs_per_sec ≥ 100: got 93"
    assert "- sort, docs_per_sec: -12.5 % (-16 % to -9 %)" in lines
    assert '<a href="https://bench.example/night">' in html.get_content()
    (report,) = mail.iter_attachments()
    assert report.get_filename() == "report.md" and report.get_payload(decode=True) == "# night ✅\n".encode()


def test_every_try_has_the_same_message_id(
    server: Server, mailbox: Mailbox, certificate: Path, tmp_path: Path
) -> None:
    for number in range(2):  # the notes are lost in between: it is sent twice, and readers show it once
        sink = build(MailSink, tmp_path / str(number), options_for(server, certificate), ENVIRON)
        sink.close(make_report([make_record()]))
    first, second = mailbox.mails
    assert first["Message-ID"] == second["Message-ID"]


def test_a_resumed_session_answers_its_first_mail(
    server: Server, mailbox: Mailbox, certificate: Path, tmp_path: Path
) -> None:
    sink = build(MailSink, tmp_path, options_for(server, certificate), ENVIRON)
    sink.close(make_report([too_slow()]))
    sink.context.key = "id-of-night-close-2"
    sink.close(make_report([make_record()]))
    first, second = mailbox.mails
    assert second["In-Reply-To"] == first["Message-ID"] != second["Message-ID"]


REFUSALS = {"451 4.3.0 try again": TryLater, "554 5.7.1 planted-mail-password is spam": Undeliverable}


@pytest.mark.parametrize("said", REFUSALS)
def test_refusals_are_for_later_or_for_ever(
    server: Server, mailbox: Mailbox, certificate: Path, tmp_path: Path, said: str
) -> None:
    mailbox.refuse = [said]
    sink = build(MailSink, tmp_path, options_for(server, certificate), ENVIRON)
    with pytest.raises(REFUSALS[said], match=f"answered {said[:3]}") as refusal:
        sink.close(make_report([make_record()]))
    assert "planted" not in str(refusal.value)
    sink.close(make_report([make_record()]))
    assert len(mailbox.mails) == 1


@pytest.mark.parametrize(("code", "kind"), [("450 busy", TryLater), ("550 unknown", Undeliverable)])
def test_recipients_that_are_refused(
    server: Server, mailbox: Mailbox, certificate: Path, tmp_path: Path, code: str, kind: type[Exception]
) -> None:
    said: list[str] = []
    sink = build(MailSink, tmp_path, options_for(server, certificate), ENVIRON, say=said.append)
    mailbox.refused_recipients = {"a@team.example": code, "b@team.example": code}
    with pytest.raises(kind, match="no recipient is taken"):
        sink.close(make_report([make_record()]))
    mailbox.refused_recipients.pop("b@team.example")
    sink.close(make_report([make_record()]))
    assert said == ["mail: 1 of 2 recipients were refused by 127.0.0.1"]
    assert [one.rcpt_tos for one in mailbox.envelopes] == [["b@team.example"]]


def test_a_wrong_password_is_final_and_never_shown(server: Server, certificate: Path, tmp_path: Path) -> None:
    sink = build(MailSink, tmp_path, options_for(server, certificate), {"SMTP_PASSWORD": "planted-and-wrong"})
    with pytest.raises(Undeliverable, match="answered 535: AuthenticationError") as refusal:
        sink.close(make_report([make_record()]))
    assert "planted" not in str(refusal.value)


def test_a_certificate_that_nobody_signed_is_not_trusted(
    server: Server, mailbox: Mailbox, certificate: Path, tmp_path: Path
) -> None:
    sink = build(MailSink, tmp_path, options_for(server, certificate, ca_file=None), ENVIRON)
    with pytest.raises(Undeliverable, match=r"no safe connection to 127\.0\.0\.1: CERTIFICATE_VERIFY_FAILED"):
        sink.close(make_report([make_record()]))
    assert mailbox.envelopes == []


def test_a_server_without_tls_gets_nothing(mailbox: Mailbox, certificate: Path, tmp_path: Path) -> None:
    running = Server(mailbox)
    running.start()
    try:
        sink = build(MailSink, tmp_path, options_for(running, certificate), ENVIRON)
        with pytest.raises(Undeliverable, match="STARTTLS extension not supported"):
            sink.close(make_report([make_record()]))
        plain = options_for(running, certificate, security="none", username=None, to="a@team.example")
        build(MailSink, tmp_path, plain).close(make_report([make_record()]))
    finally:
        running.stop()
    assert len(mailbox.mails) == 1


def test_a_server_that_is_away_is_for_later(tmp_path: Path) -> None:
    options = {"host": "127.0.0.1", "port": 9, "from": "a@b.example", "to": "c@d.example"}
    with pytest.raises(TryLater, match=r"the mail server 127\.0\.0\.1 cannot be reached: Connection refused"):
        build(MailSink, tmp_path, options).close(make_report([make_record()]))


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("is no mail address", {"to": ["nobody"]}),
    ("is no mail address", {"from": "a@b\nBcc: c@d"}),
    ("a password is not sent without TLS", {"username": "x", "security": "none"}),
]


@pytest.mark.parametrize(("why", "wrong"), WRONG)
def test_options_that_would_harm_are_refused(why: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=why):
        MailSink.Options(**{"host": "mail.example", "from": "a@b.example", "to": "c@d.example", **wrong})


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@given(NAMES, NAMES)
def test_foreign_text_is_no_html(name: str, reason: str) -> None:
    digest = make_digest(make_report([make_record(f"<img>{name}", Status.FAILED, reason=f"<b>{reason}")]))
    assert "<img>" not in html_page(digest) and "<b>" + reason[:3] not in html_page(digest).replace(
        "<li><b>", ""
    )
    assert "<img>" in plain_text(digest)


def test_of_foreign_text_no_reader_makes_a_link() -> None:
    report = make_report(
        [make_record("a", Status.FAILED, reason="see https://evil.example, www.evil.example")]
    )
    digest = make_digest(report, "https://bench.example/night")
    for text in (plain_text(digest), html_page(digest)):
        assert "https://evil" not in text and "www." not in text and "evil.example" in text
        assert "https://bench.example/night" in text
