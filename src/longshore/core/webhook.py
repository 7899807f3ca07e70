"""Webhook endpoints: which events go where, how they are signed, and when they are tried again.

The form is that of Standard Webhooks 1.0.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterator
from datetime import timedelta
from fnmatch import fnmatchcase

import msgspec
from msgspec.structs import replace

from longshore.core import ids
from longshore.core.event import EXPENDABLE, Event, Name
from longshore.core.instant import moment
from longshore.core.submission import LONGEST_NAME, fault_of_name
from longshore.errors import ConfigError

__all__ = [
    "ATTEMPTS",
    "QUEUE",
    "TASK",
    "TEST",
    "Endpoint",
    "Secret",
    "body_of",
    "delay",
    "fits",
    "headers",
    "message_id",
    "refused_delay",
    "rotated",
    "secret_text",
    "sign",
    "test_body",
    "validate",
]

TASK = "longshore.webhook"
"""The type of deliveries. Nothing is told of them, or each would bring another."""
QUEUE = "longshore.webhooks"
TEST = "webhook.test"
"""What a test delivery says."""

_MINUTE, _HOUR = 60, 3_600
_SCHEDULE_S = (
    5,
    5 * _MINUTE,
    30 * _MINUTE,
    2 * _HOUR,
    5 * _HOUR,
    10 * _HOUR,
    14 * _HOUR,
    20 * _HOUR,
    24 * _HOUR,
)
ATTEMPTS = len(_SCHEDULE_S) + 1
_LARGEST = 20_000
_SLOWEST = 8
"""Times as long waits who was refused often."""
_PREFIX = "whsec_"
_ID = re.compile(r"wh_[0-9a-f]{24}")
_LONGEST_URL = 2_000
_MOST_FILTERS = 50
_SECRETS = 5
_NOBODY = bytes(16)
_encode = msgspec.json.Encoder().encode


class Secret(msgspec.Struct, frozen=True):
    """What deliveries are signed with. It is stored as it is: a digest could not sign."""

    text: str
    """`whsec_` and 24 to 64 bytes in base64."""
    until: int | None = None
    """A secret that was replaced signs up to here."""

    def __repr__(self) -> str:
        """Without the secret, which must not get into a log."""
        return f"Secret(until={self.until!r})"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tenant wants to hear of what happens."""

    id: str
    tenant: str
    url: str
    secrets: tuple[Secret, ...]
    """The newest first."""
    events: tuple[str, ...] = ()
    """Names, or patterns such as `job.*`; none: all but progress."""
    queues: tuple[str, ...] = ()
    """None: any."""
    types: tuple[str, ...] = ()
    """None: any."""
    description: str = ""
    disabled: str | None = None
    """Why nothing is sent to it."""
    failing_since: int | None = None
    """When the first of the failures was that no success has followed."""
    created_at: int = 0
    """Set by the engine. What happened before is not told."""


def validate(endpoint: Endpoint) -> None:
    """Return if the endpoint may be stored, else a ConfigError that says what to change."""
    if fault := next(filter(None, _faults(endpoint)), None):
        raise ConfigError(fault)
    for secret in endpoint.secrets:
        _ = _key(secret.text)


def _faults(it: Endpoint) -> Iterator[str | None]:
    if not _ID.fullmatch(it.id):
        yield "the id of an endpoint is wh_ and 24 hexadecimal digits"
    if not _is_url(it.url):
        yield (
            f"url is an absolute http or https URL of up to {_LONGEST_URL} printable "
            "characters, without a user name"
        )
    if max(len(it.events), len(it.queues), len(it.types)) > _MOST_FILTERS:
        yield f"a filter has up to {_MOST_FILTERS} names"
    yield fault_of_name("tenant", it.tenant)
    yield from (fault_of_name("queue", name) for name in it.queues)
    yield from (fault_of_name("type", name) for name in it.types)
    for pattern in it.events:
        if not any(fnmatchcase(name, pattern) for name in Name):
            yield f"no event is called {pattern!r:.80}"
    if len(it.description) > LONGEST_NAME or "\0" in it.description:
        yield f"a description has up to {LONGEST_NAME} characters"
    if not 1 <= len(it.secrets) <= _SECRETS:
        yield f"an endpoint has 1 to {_SECRETS} secrets"


def fits(endpoint: Endpoint, event: Event) -> bool:
    """Whether the endpoint wants to hear of this."""
    if endpoint.disabled is not None or event.tenant != endpoint.tenant:
        return False
    if event.type == TASK or event.at < endpoint.created_at:
        return False
    if endpoint.queues and event.queue not in endpoint.queues:
        return False
    if endpoint.types and event.type not in endpoint.types:
        return False
    if not endpoint.events:
        return event.name not in EXPENDABLE
    return any(fnmatchcase(event.name, pattern) for pattern in endpoint.events)


def secret_text(key: bytes) -> str:
    """The secret as its owner sees it, once."""
    return _PREFIX + base64.b64encode(key).decode("ascii")


def rotated(endpoint: Endpoint, text: str, *, grace: int, now: int) -> Endpoint:
    """With a new secret; those before sign beside it for `grace` microseconds at most."""
    until = now + grace
    older = tuple(
        replace(one, until=until if one.until is None else min(one.until, until))
        for one in endpoint.secrets
        if one.until is None or one.until > now
    )
    kept = older[: _SECRETS - 1] if grace > 0 else ()
    return replace(endpoint, secrets=(Secret(text), *kept))


def message_id(event_id: str) -> str:
    """The same in every attempt, and for every endpoint that hears of the event."""
    return f"msg_{event_id.replace('.', '_')}"


def body_of(event: Event) -> str:
    """What is sent: less than 20 kB, so that a larger story is told without its details."""
    facts: dict[str, object] = {
        "id": event.id,
        "job_id": ids.text(event.job_id) if event.job_id != _NOBODY else None,
        "queue": event.queue,
        "type": event.type,
        "tenant": event.tenant,
        "details": event.details,
        "trace": event.trace,
    }
    whole = _encode(_document(event.name, event.at, facts))
    if len(whole) >= _LARGEST:
        facts |= {"details": {}, "is_truncated": True}
        whole = _encode(_document(event.name, event.at, facts))
    return whole.decode()


def test_body(endpoint: Endpoint, now: int) -> str:
    """What a test delivery says."""
    return _encode(_document(TEST, now, {"endpoint": endpoint.id})).decode()


def sign(text: str, message: str, timestamp: int, body: str) -> str:
    """One signature, with the version of the scheme."""
    signed = f"{message}.{timestamp}.{body}".encode()
    made = hmac.new(_key(text), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(made).decode('ascii')}"


def headers(
    endpoint: Endpoint, message: str, body: str, *, now: int, trace: str | None = None
) -> dict[str, str]:
    """What goes along: who sent it when, signed with every secret that holds."""
    timestamp = now // 1_000_000
    live = [one for one in endpoint.secrets if one.until is None or one.until > now]
    found = {
        "content-type": "application/json",
        "user-agent": "longshore",
        "accept-encoding": "identity",
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(sign(one.text, message, timestamp, body) for one in live),
    }
    return found if trace is None else found | {"traceparent": trace}


def delay(attempt: int, chance: float) -> timedelta:
    """How long after this attempt, counted from 1, the next one is made; 0 <= chance < 1."""
    seconds = _SCHEDULE_S[min(max(attempt, 1), len(_SCHEDULE_S)) - 1]
    return timedelta(seconds=seconds * (1 + chance / 5))


def refused_delay(refusals: int, chance: float) -> timedelta:
    """How long a message waits that found no room and was refused so often; 0 <= chance < 1.

    Chance keeps those that were refused together from coming back together, and the longer
    they are in line, the less often they ask.
    """
    return timedelta(seconds=(2 + 6 * chance) * min(1 + refusals, _SLOWEST))


def _document(name: str, at: int, data: dict[str, object]) -> dict[str, object]:
    return {"type": name, "timestamp": moment(at), "data": data}


def _key(text: str) -> bytes:
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not text.startswith(_PREFIX) or not 24 <= len(key) <= 64:
        raise ConfigError("a secret is whsec_ and 24 to 64 bytes in base64")
    return key


def _is_url(url: str) -> bool:
    scheme, _, rest = url.partition("://")
    place = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return (
        scheme.lower() in ("http", "https")
        and bool(place)
        and "@" not in place
        and len(url) <= _LONGEST_URL
        and url.isascii()
        and url.isprintable()
        and not set(url) & {" ", "\\"}
    )
