"""What the built-in tasks need to know of the worker's surroundings.

These belong to whoever runs the worker. No payload can reach them.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

__all__ = ["HttpTaskSettings", "SmtpSettings", "TlsMode", "WebhookSettings"]


class TlsMode(StrEnum):
    """How the connection to the mail relay is encrypted."""

    STARTTLS = "starttls"
    """Plain at first, encrypted before anything is said; refused by a relay that cannot."""
    IMPLICIT = "implicit"
    """Encrypted from the first byte."""
    NONE = "none"
    """Not at all: for a relay on the same machine. No password is sent this way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTaskSettings:
    """What `http.call` may do from this worker."""

    enabled: bool = True
    """Whether `http.call` is there at all; without it, its jobs wait for another worker."""
    allowed_networks: tuple[str, ...] = ()
    """Networks that are not public but may be called all the same, such as `10.1.0.0/16`."""
    longest_call: timedelta = timedelta(seconds=60)
    """Name lookup, connection, request and answer together never take longer."""
    longest_retry_after: timedelta = timedelta(hours=1)
    """The most that a receiver's Retry-After can postpone the next attempt."""
    body_bytes: int = 65_536
    """How much of an answer's body is read and kept."""
    ca_file: str | None = None
    """Trust the authorities in this PEM file instead of the usual ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    """The mail relay that `email.send` hands its messages to."""

    enabled: bool = True
    """Whether `email.send` is there at all; without it, its jobs wait for another worker."""
    host: str | None = None
    """Without a relay `email.send` fails and says so."""
    port: int = 587
    """Where the relay listens: 587 for starttls, 465 for implicit, often 25 for none."""
    tls: TlsMode = TlsMode.STARTTLS
    """How the connection is encrypted."""
    user: str | None = None
    """Who to log in as; without it no login is tried."""
    password: str | None = field(default=None, repr=False)
    """Sent only over an encrypted connection."""
    sender: str | None = None
    """From whom mail comes when the job does not say."""
    allowed_senders: tuple[str, ...] = ()
    """Whom jobs may name as the sender besides `smtp.sender`: addresses such as
    `shop@example.org`, whole domains such as `@example.org`, or `*` for any. Empty: jobs of the
    tenant `default` may name any sender, and jobs of other tenants none but `smtp.sender`."""
    timeout: timedelta = timedelta(seconds=30)
    """The longest wait for any one reply of the relay."""
    ca_file: str | None = None
    """Trust the authorities in this PEM file instead of the usual ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Where webhook endpoints may be, and how this worker brings messages to them."""

    enabled: bool = True
    """Whether this worker does so at all; without it, they wait for another worker."""
    allowed_networks: tuple[str, ...] = ()
    """Networks that are not public but may be called all the same, such as `10.1.0.0/16`;
    also asked where an endpoint is made."""
    timeout: timedelta = timedelta(seconds=20)
    """Name lookup, connection, request and answer together never take longer."""
    max_running: int = 4
    """Deliveries to one endpoint that the whole fleet makes at once."""
    disable_after: timedelta = timedelta(days=5)
    """An endpoint whose every delivery fails for so long is disabled."""
    ca_file: str | None = None
    """Trust the authorities in this PEM file instead of the usual ones."""
