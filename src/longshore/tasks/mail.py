"""`email.send`: one message per job, handed to the worker's mail relay over SMTP.

A message goes to all its recipients or to none: if the relay refuses one of them, nothing is
sent, so a retry never doubles it for the others. What the relay's answer means for the job:

    it took the message                  succeeded: delivery is the relay's duty from then on
    4xx, no connection, no login         tried again
    5xx for sender, recipient, content   dead, with the relay's words as the reason

A job whose sender is not allowed is dead before the relay is asked. Who may send as whom is
decided here and not at submit, because it is a setting of the worker, which knows its relay.

If the worker dies between the relay's yes and its own settle, the message is sent again. It
carries the same Message-ID, made from the job's id, by which relays and readers drop doubles.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

import msgspec

from longshore.core.account import DEFAULT_TENANT
from longshore.directives import Dead
from longshore.errors import ConfigError
from longshore.job_context import current_job
from longshore.runtime.clock import SECOND, Clock, SystemClock
from longshore.tasks.settings import SmtpSettings
from longshore.tasks.smtp import MailRelay

__all__ = ["AllowedSenders", "EmailReceipt", "EmailTask", "address"]

MOST_RECIPIENTS = 100

_MAILBOX = re.compile(
    r"(?P<local>[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*)"
    r"@(?P<domain>[^\s@<>()\[\]\\,;:\"]+)"
)
_NAMED = re.compile(r"(?P<name>[^<>]*)<(?P<mailbox>[^<>]*)>")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,75}")

# Written by the task itself, or by relays about a message's way.
_OURS = frozenset(
    {
        "bcc",
        "cc",
        "date",
        "from",
        "message-id",
        "mime-version",
        "received",
        "reply-to",
        "return-path",
        "sender",
        "subject",
        "to",
    }
)
_OUR_FAMILIES = ("arc-", "content-", "dkim-", "resent-")
# Seven bits pass every relay.
_POLICY = SMTP.clone(cte_type="7bit")


class EmailReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What the relay took over: the job's result."""

    message_id: str
    recipients: list[str]
    response: str
    """The relay's words."""


class EmailTask:
    """The task, bound to a worker's relay."""

    def __init__(
        self, settings: SmtpSettings | None = None, *, clock: Clock | None = None
    ) -> None:
        self._settings = settings or SmtpSettings()
        self._relay = MailRelay(self._settings)
        self._allowed = AllowedSenders(self._settings)
        self._clock = clock or SystemClock()

    def send(
        self,
        to: list[str],
        subject: str,
        text: str | None = None,
        html: str | None = None,
        sender: str | None = None,
        reply_to: str | None = None,
        cc: list[str] | None = None,
        bcc: list[str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> EmailReceipt:
        """Hand one message to the relay, for all recipients or for none.

        Addresses are `ada@example.org` or `Ada <ada@example.org>`.
        """
        author = address(self._sender(sender))
        self._allowed.check(author, tenant=current_job().tenant)
        groups = {"To": _addresses(to), "Cc": _addresses(cc), "Bcc": _addresses(bcc)}
        message = EmailMessage(policy=_POLICY)
        message["From"] = author
        for name in ("To", "Cc"):
            if groups[name]:
                message[name] = groups[name]
        if reply_to is not None:
            message["Reply-To"] = address(reply_to)
        message["Subject"] = _clean("subject", subject)
        message["Message-ID"] = f"<{current_job().id}@{author.domain}>"
        message["Date"] = format_datetime(
            datetime.fromtimestamp(self._clock.now() / SECOND, UTC)
        )
        _add_headers(message, headers or {})
        _add_content(message, text, html)
        recipients = _recipients(groups.values())
        response = self._relay.deliver(author.addr_spec, recipients, message.as_bytes())
        return EmailReceipt(
            message_id=message["Message-ID"], recipients=recipients, response=response
        )

    def _sender(self, given: str | None) -> str:
        chosen = given or self._settings.sender
        if chosen is None:
            raise ConfigError("email.send has no sender; give the job one, or set smtp.sender")
        return chosen


class AllowedSenders:
    """Decides which tenant's jobs may send mail in whose name.

    Only the address counts, not the name before it. Letters compare without their case, as
    relays compare them.
    """

    def __init__(self, settings: SmtpSettings) -> None:
        self._listed = frozenset(map(_listed_sender, settings.allowed_senders))
        self._own = settings.sender

    def check(self, author: Address, *, tenant: str) -> None:
        """Return if a job of the tenant may send as `author`, else Dead."""
        sender = author.addr_spec.lower()
        domain = f"@{author.domain.lower()}"
        # One tenant: whoever submits jobs also runs the worker. Further tenants are others.
        is_trusted = not self._listed and tenant == DEFAULT_TENANT
        if is_trusted or not self._listed.isdisjoint({"*", sender, domain}):
            return
        if self._own is not None and sender == address(self._own).addr_spec.lower():
            return
        raise Dead(
            f"jobs of the tenant {tenant!r} may not send mail as {sender}; leave the sender "
            "out, or have smtp.allowed_senders of the worker allow it"
        )


def _listed_sender(written: str) -> str:
    """An entry of smtp.allowed_senders in the form that addresses are compared in."""
    entry = written.strip()
    if entry == "*":
        return entry
    is_domain = entry.startswith("@")
    try:
        found = address(f"any{entry}" if is_domain else entry)
    except Dead:
        found = None
    # `*@example.org` is the mailbox of that name, which is hardly what was meant.
    if found is None or "*" in found.username:
        raise ConfigError(
            f"smtp.allowed_senders has {written!r:.80}, which is no address such as "
            "shop@example.org, no domain such as @example.org, and not *"
        )
    return (f"@{found.domain}" if is_domain else found.addr_spec).lower()


def address(written: str) -> Address:
    """The address that was meant, or Dead: it must say plainly who that is.

    A domain that is not ASCII is put into the form that travels. Mailboxes that are not ASCII
    are refused: most relays cannot carry them.
    """
    named = _NAMED.fullmatch(_clean("address", written).strip())
    name = named["name"].strip().strip('"') if named else ""
    found = _MAILBOX.fullmatch(named["mailbox"] if named else written.strip())
    try:
        domain = found["domain"].encode("idna").decode("ascii") if found else ""
    except UnicodeError:
        domain = ""
    if found is None or not _DOMAIN.fullmatch(domain) or len(found["local"]) > 64:
        raise Dead(f"{written!r:.80} is not an address that mail can be sent to")
    return Address(name, found["local"], domain)


def _addresses(written: Sequence[str] | None) -> tuple[Address, ...]:
    return tuple(address(one) for one in written or ())


def _recipients(groups: Iterable[Sequence[Address]]) -> list[str]:
    found = list(dict.fromkeys(one.addr_spec for group in groups for one in group))
    if not found:
        raise Dead("the message has no recipient")
    if len(found) > MOST_RECIPIENTS:
        raise Dead(f"one job sends to at most {MOST_RECIPIENTS} recipients; submit several")
    return found


def _add_headers(message: EmailMessage, given: Mapping[str, str]) -> None:
    for name, value in given.items():
        lowered = name.lower()
        if not _HEADER.fullmatch(name) or name in message:
            raise Dead(f"{name!r:.80} is not a header that can be added")
        if lowered in _OURS or lowered.startswith(_OUR_FAMILIES):
            raise Dead(f"the header {name!r} is set by the worker, not by the job")
        message[name] = _clean(name, value)


def _add_content(message: EmailMessage, text: str | None, html: str | None) -> None:
    if text is None and html is None:
        raise Dead("the message has neither text nor html")
    if text is not None:
        message.set_content(text)
        if html is not None:
            message.add_alternative(html, subtype="html")
    elif html is not None:
        message.set_content(html, subtype="html")


def _clean(what: str, value: str) -> str:
    """The value itself, or Dead when it could end its line and begin a header of its own."""
    if _CONTROL.search(value):
        raise Dead(f"the {what} has a line break or another control character in it")
    return value
