"""How the HTTP service listens, and how much it takes."""

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["RESERVED", "ApiSettings"]

RESERVED = 16
"""Connections and requests beyond their bounds that health checks have for themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """How the HTTP service listens, and how much it takes."""

    host: str = "127.0.0.1"
    """The address to listen on. Any but a loopback address needs API keys in the store."""
    port: int = 8080
    """The port to listen on."""
    processes: int = 1
    """How many processes serve the port."""
    only: str | None = None
    """Serve one part alone: `sessions`, what remote workers ask. Other routes are 404."""
    max_body_bytes: int = 1 << 20
    """A request with a larger body is refused (413)."""
    max_batch_bytes: int = 16 << 20
    """The same for a batch of jobs."""
    max_batch_jobs: int = 4_096
    """A batch of more jobs is refused (422)."""
    max_nodes: int = 50_000
    """A body with more values, counted on all levels, is refused (422); a batch may have as
    many times more as it may be larger."""
    max_header_bytes: int = 16 << 10
    """A request whose head is larger is refused (431)."""
    max_connections: int = 16_384
    """Connections that one process keeps open, those of streams and of waiting workers too,
    but never more than its limit of open files allows; past this it answers 503 with
    Retry-After and closes. A few more are taken for the health routes alone."""
    max_requests: int = 1_000
    """Requests that one process serves at once; past this it answers 503 with Retry-After."""
    max_inflight_bytes: int = 64 << 20
    """Bytes of request bodies that one process holds at once, from when a body is announced or
    arrives until its request is answered; past this it answers 503 with Retry-After. A body
    that is alone is always taken. Answers that clients have not read may take as many."""
    max_tenant_inflight_bytes: int = 32 << 20
    """The same of one tenant, or of one operator's key."""
    max_streams: int = 1_000
    """Streams of events that one process keeps open; past this it answers 503."""
    max_tenant_streams: int = 100
    """The same of one tenant, or of one operator's key; past this it answers 429."""
    stream_timeout: timedelta = timedelta(minutes=15)
    """A stream ends after this time; its client comes back."""
    header_timeout: timedelta = timedelta(seconds=10)
    """A request's head has to arrive within this time of its first byte."""
    body_timeout: timedelta = timedelta(seconds=30)
    """A request's body has to arrive within this time of its head."""
    idle_timeout: timedelta = timedelta(seconds=75)
    """A connection without a request is closed after this time."""
    request_timeout: timedelta = timedelta(seconds=30)
    """A request that the store has not answered within this time is answered 503."""
    key_timeout: timedelta = timedelta(seconds=1)
    """A request whose idempotency key a transaction under way holds is answered 409 after this
    time; where such a transaction holds the whole store, as on SQLite, 503."""
    drain_timeout: timedelta = timedelta(seconds=20)
    """Time for requests under way once the service was asked to stop."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies whose X-Forwarded-For is believed."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may ask, such as `https://ops.example.com`."""

    @property
    def max_batch_nodes(self) -> int:
        """The number of values that is too large for a batch."""
        return self.max_nodes * max(self.max_batch_bytes // max(self.max_body_bytes, 1), 1)
