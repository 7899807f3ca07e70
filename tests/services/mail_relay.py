"""A real SMTP server on loopback that takes mail, and refuses what a test wants refused."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


@dataclass
class Relay:
    """Takes mail, and refuses what the test wants refused."""

    refused: dict[str, str] = field(default_factory=dict)
    """The reply per recipient."""
    mail_reply: str = "250 OK"
    data_reply: str = "250 queued as 7"
    quit_reply: str = "221 bye"
    envelopes: list[Envelope] = field(default_factory=list)
    logins: list[bytes] = field(default_factory=list)
    was_encrypted: bool = False

    async def handle_MAIL(  # noqa: N802
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        sender: str,
        options: list[str],
    ) -> str:
        self.was_encrypted = session.ssl is not None
        envelope.mail_from = sender
        return self.mail_reply

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, to: str, options: list[str]
    ) -> str:
        if to in self.refused:
            return self.refused[to]
        envelope.rcpt_tos.append(to)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.envelopes.append(envelope)
        return self.data_reply

    async def handle_QUIT(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        return self.quit_reply

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, auth: object
    ) -> AuthResult:
        assert isinstance(auth, LoginPassword)
        self.logins.append(auth.login)
        return AuthResult(success=auth.password == b"open sesame", handled=False)

    def message(self) -> EmailMessage:
        (envelope,) = self.envelopes
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=default)
        assert isinstance(message, EmailMessage)
        return message


@contextmanager
def listening(relay: Relay, **options: object) -> Iterator[int]:
    """The relay on a port of its own, for as long as the block lasts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    controller = Controller(relay, hostname="127.0.0.1", port=port, **options)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()
