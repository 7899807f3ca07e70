"""The load: a mixture of jobs that depends on a seed and on nothing else.

Of a hundred orders about seventy are fast (1 to 5 ms), twenty slow (200 ms to 2 s), five
flapping (they fail, then succeed) and five poison (they always fail). A few of the slow ones
are long: they run past the lease, and must not be taken away for it. A job carries only its
order's number; producer and worker work out the rest, each for itself.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from longshore_lab.records import Fate

__all__ = ["Kind", "Mix", "Order"]

ALWAYS = 1_000_000
"""More failures than any job is allowed."""


class Kind(StrEnum):
    """What an order does; also the type name of its task."""

    FAST = "mix.fast"
    SLOW = "mix.slow"
    LONG = "mix.long"
    FLAPPING = "mix.flapping"
    POISON = "mix.poison"


_UPPER_SHARE: tuple[tuple[Kind, float], ...] = (
    (Kind.FAST, 0.70),
    (Kind.SLOW, 0.90),
    (Kind.FLAPPING, 0.95),
    (Kind.POISON, 1.0),
)


class Order(NamedTuple):
    """One order: how long it takes, and how often it fails first."""

    seq: int
    kind: Kind
    seconds: float
    failures: int

    @property
    def fate(self) -> Fate:
        """What must become of it."""
        return Fate.DEAD if self.kind is Kind.POISON else Fate.SUCCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The orders of one seed."""

    seed: int
    slow_scale: float = 1.0
    """Shrinks the slow ones, so that a short demonstration can have them too."""
    long_share: float = 0.001
    """How many of all orders run past the lease."""
    long_seconds: float = 0.0

    def order(self, seq: int) -> Order:
        """Order number `seq`: always the same."""
        digest = blake2b(b"%d:%d" % (self.seed, seq), digest_size=8).digest()
        share = int.from_bytes(digest[:4]) / 2**32
        spread = int.from_bytes(digest[4:]) / 2**32
        kind = next(kind for kind, upper in _UPPER_SHARE if share < upper)
        if kind is Kind.SLOW and share >= 0.90 - self.long_share:
            return Order(seq, Kind.LONG, self.long_seconds, 0)
        if kind is Kind.SLOW:
            return Order(seq, kind, (0.2 + 1.8 * spread) * self.slow_scale, 0)
        seconds = 0.001 + 0.004 * spread
        if kind is Kind.FLAPPING:
            return Order(seq, kind, seconds, 1 + int(spread * 2))
        return Order(seq, kind, seconds, ALWAYS if kind is Kind.POISON else 0)
