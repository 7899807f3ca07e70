"""The mail relay: one SMTP conversation per message, for all recipients or for none."""

import smtplib
import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

from longshore.directives import Dead, Retry
from longshore.errors import ConfigError
from longshore.tasks.settings import SmtpSettings, TlsMode

__all__ = ["MailRelay"]


class MailRelay:
    """Where a worker hands its mail to."""

    def __init__(self, settings: SmtpSettings) -> None:
        if settings.user is not None and settings.tls is TlsMode.NONE:
            raise ConfigError("smtp.user needs smtp.tls: a password is never sent in the clear")
        self._settings = settings
        self._tls: ssl.SSLContext | None = None

    def deliver(self, sender: str, recipients: Sequence[str], message: bytes) -> str:
        """The relay's words when it took the message, else Retry or Dead as it answered."""
        try:
            with self._connected() as smtp:
                _expect(smtp.mail(sender), f"sender {sender}")
                # The first refusal ends the conversation before anything was sent to anyone.
                for recipient in recipients:
                    _expect(smtp.rcpt(recipient), f"recipient {recipient}")
                return _expect(smtp.data(message), "message")
        except smtplib.SMTPDataError as exc:
            return _expect((exc.smtp_code, _bytes(exc.smtp_error)), "message")
        except (smtplib.SMTPException, OSError) as exc:
            # Whether a login works is a matter of the worker, not of this job: not a reason
            # to give the job up, whatever the code.
            raise Retry(reason=f"the mail relay cannot be used: {exc}") from exc

    @contextmanager
    def _connected(self) -> Generator[smtplib.SMTP]:
        smtp = self._connect()
        try:
            self._greet(smtp)
            yield smtp
        finally:
            # What was taken stays taken, however the relay says goodbye.
            with suppress(smtplib.SMTPException, OSError):
                smtp.quit()
            smtp.close()

    def _connect(self) -> smtplib.SMTP:
        settings = self._settings
        if settings.host is None:
            raise ConfigError("email.send needs a mail relay; set smtp.host")
        seconds = settings.timeout.total_seconds()
        if settings.tls is TlsMode.IMPLICIT:
            return smtplib.SMTP_SSL(
                settings.host, settings.port, timeout=seconds, context=self._context()
            )
        return smtplib.SMTP(settings.host, settings.port, timeout=seconds)

    def _greet(self, smtp: smtplib.SMTP) -> None:
        settings = self._settings
        if settings.tls is TlsMode.STARTTLS:
            smtp.starttls(context=self._context())
        smtp.ehlo_or_helo_if_needed()
        if settings.user is not None:
            smtp.login(settings.user, settings.password or "")

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self._settings.ca_file)
        return self._tls


def _expect(reply: tuple[int, bytes], what: str) -> str:
    """The relay's words for a yes; 4xx is Retry, 5xx is Dead."""
    code, raw = reply
    words = f"{code} {raw.decode('utf-8', 'replace')}"[:500]
    if 200 <= code < 300:
        return words
    reason = f"the mail relay refused the {what}: {words}"
    raise Dead(reason) if code >= 500 else Retry(reason=reason)


def _bytes(words: bytes | str) -> bytes:
    return words.encode() if isinstance(words, str) else words
