"""Settings of queues and of circuit breakers: what they may say, and who says it.

Code declares settings, and an operator overrides them, field by field; None means that nothing
was said. The engine stores both layers, so that people see where a value comes from.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

import msgspec

from longshore.core.backoff import LONGEST_US
from longshore.core.priority_rank import aging_rank, strict_rank
from longshore.core.submission import fault_of_name
from longshore.core.token_bucket import HIGHEST_RATE, LARGEST_BURST, LOWEST_RATE, Limit, borrow
from longshore.errors import ConfigError

__all__ = [
    "BURSTS",
    "ENFORCED",
    "LARGEST",
    "LONGEST_AGING_US",
    "NO_LIMIT",
    "RATES",
    "BreakerFlow",
    "BreakerSettings",
    "Layer",
    "OnDead",
    "Order",
    "Phase",
    "QueueFlow",
    "QueueSettings",
    "QueueState",
    "aging_of",
    "effective",
    "limit_of",
    "look_in",
    "rank",
    "read_breaker",
    "read_queue",
    "room",
    "said",
    "token_at",
    "took",
    "useless",
    "validate",
    "write_body",
]

LARGEST = 1_000_000_000
"""Of whatever is counted in jobs."""
NO_LIMIT = 1 << 40
LONGEST_AGING_US = 30 * 86_400_000_000
"""A month per priority level; ranks have room for that."""
_USUAL_AGING_US = 60_000_000
_LOOKS = 100
"""How often in a second it pays to look, at most."""
_LONGEST_LOOK_US = 1_000_000


class Layer(StrEnum):
    """Who says it; the later one counts."""

    DECLARED = "declared"
    """The code, when a worker starts."""
    OVERRIDDEN = "overridden"
    """An operator."""


class Order(StrEnum):
    """Who goes first in a queue."""

    STRICT = "strict"
    """Priority, then arrival."""
    AGING = "aging"
    """A priority level is worth a fixed wait."""
    FAIR = "fair"
    """Tenants take turns, by their weights."""


class OnDead(StrEnum):
    """What becomes of the jobs behind one that died, of the same ordering key."""

    CONTINUE = "continue"
    BLOCK = "block"
    """They wait until an operator releases the key."""


class Phase(StrEnum):
    """Whether a circuit breaker lets jobs be handed out."""

    CLOSED = "closed"
    """It does."""
    OPEN = "open"
    """It does not."""
    HALF_OPEN = "half_open"
    """A few, to see how they end."""


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said of a queue. None: nothing."""

    order: Order | None = None
    aging: int | None = None
    """With the order `aging`: microseconds that a priority level is worth; None: a minute."""
    max_running: int | None = None
    """Jobs that run at once, in the whole fleet."""
    max_running_per_key: int | None = None
    """Jobs of one ordering key that run at once; None: one, in their order."""
    rate: float | None = None
    """Jobs that start per second, in the whole fleet."""
    burst: int | None = None
    """Jobs that may start at once after a pause; None: what the rate brings in a second."""
    rate_per_key: float | None = None
    """Jobs of one ordering key that are let in per second, retries apart."""
    burst_per_key: int | None = None
    """Those that may be at once after a pause; None: what the rate brings in a second."""
    max_depth: int | None = None
    """Jobs that may wait; past it submits are refused."""
    max_depth_per_tenant: int | None = None
    """The same of one tenant's jobs."""
    retry_rate: float | None = None
    """Retries that come back per second, in the whole fleet; None: as many as normally succeed,
    see `core.retry_budget`."""
    on_dead: OnDead | None = None


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When jobs of a type are no longer handed out, because they fail. None: not said."""

    failures: int | None = None
    """Failures in a row that open it."""
    ratio: float | None = None
    """The share of failures that opens it, 0 to 1."""
    window: int | None = None
    """Microseconds over which the ratio is taken."""
    least: int | None = None
    """Outcomes below which a ratio says nothing."""
    cooldown: int | None = None
    """Microseconds until it is tried whether they succeed again."""
    probes: int | None = None
    """Jobs that try it at once."""


ENFORCED = frozenset(
    {
        *("order", "aging", "max_running", "max_running_per_key", "rate", "burst"),
        *("rate_per_key", "burst_per_key", "max_depth", "max_depth_per_tenant", "on_dead"),
        "retry_rate",
    }
)
"""The fields of QueueSettings that are heeded. Only these are offered to people, by
`app.queue`, the command line and HTTP; others could be stored."""

RATES = frozenset({"rate", "rate_per_key", "retry_rate"})
BURSTS = {"burst": "rate", "burst_per_key": "rate_per_key"}
"""Which rate each of them belongs to."""

Settings = TypeVar("Settings", QueueSettings, BreakerSettings)


class QueueFlow(msgspec.Struct, frozen=True):
    """All that is said of a queue."""

    queue: str
    declared: QueueSettings = QueueSettings()
    overridden: QueueSettings = QueueSettings()
    token_at: int | None = None
    """When its rate lets the next job start; None: it does now."""

    @property
    def effective(self) -> QueueSettings:
        """What holds."""
        return effective(self.declared, self.overridden)


class QueueState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the engine knows of a queue: the state of its record."""

    empty_at: int | None = None
    """What is stored of the token bucket of its rate."""


class BreakerFlow(msgspec.Struct, frozen=True):
    """All that is said of a type's breaker."""

    type: str
    declared: BreakerSettings = BreakerSettings()
    overridden: BreakerSettings = BreakerSettings()
    phase: Phase = Phase.CLOSED
    since: int = 0
    """When it came to stand so; 0: it always did."""
    until: int = 0
    """When it is open: the end of the cool-down."""

    @property
    def effective(self) -> BreakerSettings:
        """What holds."""
        return effective(self.declared, self.overridden)


class _QueueBody(msgspec.Struct, frozen=True, omit_defaults=True):
    declared: QueueSettings = QueueSettings()
    overridden: QueueSettings = QueueSettings()


class _BreakerBody(msgspec.Struct, frozen=True, omit_defaults=True):
    declared: BreakerSettings = BreakerSettings()
    overridden: BreakerSettings = BreakerSettings()


_encode = msgspec.json.Encoder().encode
_queue_body = msgspec.json.Decoder(_QueueBody)
_breaker_body = msgspec.json.Decoder(_BreakerBody)


def write_body(it: QueueFlow | BreakerFlow) -> bytes:
    """Both layers as the body of a record."""
    if isinstance(it, QueueFlow):
        return _encode(_QueueBody(it.declared, it.overridden))
    return _encode(_BreakerBody(it.declared, it.overridden))


def read_queue(name: str, body: bytes) -> QueueFlow:
    """The settings of a queue from the body of its record; msgspec's error if it has none."""
    it = _queue_body.decode(body)
    return QueueFlow(name, it.declared, it.overridden)


def read_breaker(name: str, body: bytes) -> BreakerFlow:
    """The settings of a circuit breaker from the body of its record."""
    it = _breaker_body.decode(body)
    return BreakerFlow(name, it.declared, it.overridden)


def said(settings: QueueSettings | BreakerSettings) -> dict[str, object]:
    """The fields that say something."""
    found = msgspec.structs.asdict(settings)
    return {name: value for name, value in found.items() if value is not None}


def effective(declared: Settings, overridden: Settings) -> Settings:
    """What holds where an operator may have overridden what code declares."""
    return msgspec.structs.replace(declared, **said(overridden))


def token_at(settings: QueueSettings, empty_at: int | None, *, now: int) -> int | None:
    """When the rate of a queue lets the next job start; None: it does now."""
    limit = limit_of(settings.rate, settings.burst)
    if limit is None:
        return None
    start, asked = borrow(empty_at, limit, want=0, now=now)
    return None if asked.left else limit.there_at(start, 1)


def useless(settings: QueueSettings, fields: Iterable[str]) -> str | None:
    """Why one of these fields says nothing, with the others as they are; None if all do."""
    for field in fields:
        rate = BURSTS.get(field)
        if rate is not None and getattr(settings, rate) is None:
            return f"{field} says nothing without {rate}"
        if field == "aging" and settings.order is not Order.AGING:
            return "aging says nothing without the order aging"
    return None


def aging_of(settings: QueueSettings) -> int:
    """Microseconds that a priority level is worth in a queue with the order `aging`."""
    return _USUAL_AGING_US if settings.aging is None else settings.aging


def rank(settings: QueueSettings, priority: int, arrival: int, *, punctual: bool) -> int:
    """The place of a job that is submitted to a queue; smaller goes first.

    With the order `fair` that is its place among the jobs of its tenant.
    """
    if settings.order is Order.AGING:
        return aging_rank(priority, arrival, aging=aging_of(settings))
    return strict_rank(priority, arrival, punctual=punctual)


def limit_of(rate: float | None, burst: int | None) -> Limit | None:
    """The bucket of a rate, which holds what it brings in a second unless a burst is said."""
    if rate is None:
        return None
    return Limit(rate, max(-int(-rate // 1), 1) if burst is None else burst)


def room(settings: QueueSettings, *, running: int, empty_at: int | None, now: int) -> int:
    """How many more jobs of a queue may be claimed now; NO_LIMIT if it has none.

    `empty_at` is what is stored of its bucket.
    """
    found = NO_LIMIT
    if settings.max_running is not None:
        found = max(settings.max_running - running, 0)
    limit = limit_of(settings.rate, settings.burst)
    if limit is not None:
        _, asked = borrow(empty_at, limit, want=0, now=now)
        found = min(found, asked.left)
    return found


def took(settings: QueueSettings, empty_at: int | None, *, jobs: int, now: int) -> int | None:
    """What is to be stored of the bucket of a queue of which jobs were claimed."""
    limit = limit_of(settings.rate, settings.burst)
    if limit is None or not jobs:
        return empty_at
    return borrow(empty_at, limit, want=jobs, now=now)[0]


def look_in(settings: QueueSettings, empty_at: int | None, *, now: int) -> int:
    """Microseconds until a queue whose limit holds jobs back is worth another look.

    With a bucket that is empty that is not at the next token where tokens come fast: each look
    is a transaction. When too many run, whoever ends one wakes those who wait.
    """
    limit = limit_of(settings.rate, settings.burst)
    if limit is None:
        return _LONGEST_LOOK_US
    start, asked = borrow(empty_at, limit, want=0, now=now)
    if asked.left:
        return _LONGEST_LOOK_US
    worth = min(limit.burst, max(int(limit.rate) // _LOOKS, 1))
    return min(limit.there_at(start, worth) - now, _LONGEST_LOOK_US)


def validate(name: str, settings: QueueSettings | BreakerSettings) -> None:
    """Return if it may be stored under this name, else a ConfigError that says why not."""
    field = "queue" if isinstance(settings, QueueSettings) else "type"
    if fault := fault_of_name(field, name):
        raise ConfigError(fault)
    for what, value in said(settings).items():
        if fault := _fault(what, value):
            raise ConfigError(f"{what} is {value!r}; {fault}")


def _fault(field: str, value: object) -> str | None:
    if kind := _CHOICES.get(field):
        return None if value in list(kind) else f"it must be {' or '.join(kind)}"
    least, most = _RANGES[field]
    is_whole = isinstance(least, int)
    kinds = (int,) if is_whole else (int, float)
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
        what = "a whole number " if is_whole else ""
        return f"it must be {what}from {least:g} to {most:g}"
    if field in RATES and abs(value * 1_000 - round(value * 1_000)) > 1e-6:
        return "it is counted in thousandths, with three digits after the point"
    return None


_CHOICES: dict[str, type[StrEnum]] = {"order": Order, "on_dead": OnDead}
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(RATES, (LOWEST_RATE, HIGHEST_RATE)),
    **dict.fromkeys(BURSTS, (1, LARGEST_BURST)),
    "aging": (0, LONGEST_AGING_US),
    "max_running": (1, LARGEST),
    "max_running_per_key": (1, LARGEST),
    "max_depth": (1, LARGEST),
    "max_depth_per_tenant": (1, LARGEST),
    "failures": (1, LARGEST),
    "ratio": (0.0, 1.0),
    "window": (1, LONGEST_US),
    "least": (1, LARGEST),
    "cooldown": (1, LONGEST_US),
    "probes": (1, LARGEST),
}
