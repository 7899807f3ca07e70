"""Limits deliveries to one webhook endpoint across the fleet.

At most so many are in flight, and a circuit breaker pauses an endpoint that keeps failing. A
delivery's place lapses by itself when its worker dies. When the pause of a failing endpoint is
over, one delivery tries whether it works again.
"""

import msgspec

from longshore.core import circuit_breaker
from longshore.core.circuit_breaker import Outcome, Rules, Standing
from longshore.core.limit_settings import Phase

__all__ = ["COOLDOWN_US", "FAILURES", "Delivery", "Gate", "Rejected", "admit", "release"]

FAILURES = 5
"""In a row, after which deliveries to an endpoint pause."""
COOLDOWN_US = 30_000_000


class Delivery(msgspec.Struct, frozen=True, array_like=True):
    """A delivery that is under way."""

    id: str
    since: int
    until: int
    """When its place lapses."""


class Gate(msgspec.Struct, frozen=True, omit_defaults=True):
    """The deliveries that are in flight, and the state of the circuit breaker."""

    in_flight: tuple[Delivery, ...] = ()
    breaker: Standing = Standing()


class Rejected(msgspec.Struct, frozen=True):
    """A delivery that may not be made now."""

    retry_after: int | None = None
    """Microseconds for which an endpoint that keeps failing is left alone; None: as many
    deliveries as may be are in flight."""


def admit(
    gate: Gate, delivery: str, *, max_in_flight: int, lease: int, now: int
) -> tuple[Gate, Rejected | None]:
    """The gate with the delivery in flight, or as it was and why the delivery is rejected.

    Its place lapses after `lease` microseconds. One that asks again has its place already.
    """
    state = circuit_breaker.waking(gate.breaker, now)
    others = _others(gate, delivery, now)
    if state.phase is Phase.OPEN:
        return gate, Rejected(state.until - now)
    if len(others) >= (max_in_flight if state.phase is Phase.CLOSED else _RULES.probes):
        return gate, Rejected()
    return Gate((*others, Delivery(delivery, now, now + lease)), state), None


def release(gate: Gate, delivery: str, *, succeeded: bool | None, now: int) -> Gate:
    """The gate without the delivery; None: how it went says nothing of the endpoint.

    What a delivery says that is not in flight, or no longer, is ignored.
    """
    if all(one.id != delivery for one in gate.in_flight):
        return gate
    # An endpoint is of one tenant.
    outcomes = () if succeeded is None else (Outcome("", succeeded),)
    state, _ = circuit_breaker.observe(gate.breaker, _RULES, outcomes, now)
    return Gate(_others(gate, delivery, now), state)


_RULES = Rules(
    failures=FAILURES,
    ratio=None,
    window=circuit_breaker.WINDOW_US,
    least=circuit_breaker.LEAST,
    cooldown=COOLDOWN_US,
    probes=1,
)


def _others(gate: Gate, delivery: str, now: int) -> tuple[Delivery, ...]:
    # A clock that was set back must not lengthen a place.
    return tuple(
        one for one in gate.in_flight if one.id != delivery and one.since <= now < one.until
    )
