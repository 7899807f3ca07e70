"""The door of a webhook endpoint: who of the whole fleet is inside, and whether it rests.

A delivery that is let in has a pass, which lapses by itself when its worker dies. How it ended
is told at the door; an endpoint that keeps failing rests, by the rules of a circuit breaker,
and then one goes in to see.
"""

import msgspec

from longshore.core import breaker
from longshore.core.breaker import Outcome, Rules, Standing
from longshore.core.flow import Phase

__all__ = ["FAILURES", "REST_US", "Door", "Refusal", "enter", "leave"]

FAILURES = 5
"""In a row, after which an endpoint rests."""
REST_US = 30_000_000


class Pass(msgspec.Struct, frozen=True, array_like=True):
    """A delivery that is under way."""

    holder: str
    since: int
    until: int


class Door(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the door of an endpoint stands."""

    passes: tuple[Pass, ...] = ()
    standing: Standing = Standing()


class Refusal(msgspec.Struct, frozen=True):
    """Why a delivery may not be made now."""

    rests_for: int | None = None
    """Microseconds, of an endpoint that keeps failing; None: as many as may are inside."""


def enter(
    door: Door, holder: str, *, most: int, lease: int, now: int
) -> tuple[Door, Refusal | None]:
    """The door behind one who asks to enter, of at most so many, and why it may not.

    The pass lapses after `lease` microseconds. Who asks again is inside already.
    """
    standing = breaker.waking(door.standing, now)
    others = _others(door, holder, now)
    if standing.phase is Phase.OPEN:
        return door, Refusal(standing.until - now)
    if len(others) >= (most if standing.phase is Phase.CLOSED else _RULES.probes):
        return door, Refusal()
    return Door((*others, Pass(holder, now, now + lease)), standing), None


def leave(door: Door, holder: str, *, is_success: bool | None, now: int) -> Door:
    """The door behind one who leaves; None: how it went says nothing of the endpoint.

    Who is not inside has left already, and has nothing to tell.
    """
    if all(one.holder != holder for one in door.passes):
        return door
    # An endpoint is of one tenant.
    said = () if is_success is None else (Outcome("", is_success),)
    standing, _ = breaker.observe(door.standing, _RULES, said, now)
    return Door(_others(door, holder, now), standing)


_RULES = Rules(
    failures=FAILURES,
    ratio=None,
    window=breaker.WINDOW_US,
    least=breaker.LEAST,
    cooldown=REST_US,
    probes=1,
)


def _others(door: Door, holder: str, now: int) -> tuple[Pass, ...]:
    # A clock that was set back must not lengthen a pass.
    return tuple(
        one for one in door.passes if one.holder != holder and one.since <= now < one.until
    )
