"""Token buckets: how many of the tokens that someone asks for may be had now.

A bucket is one number, the moment at which it would have been empty, had it only been filled
since; so it never drifts, however often it is asked. Whatever is borrowed moves that moment
on by what refilling takes. Over any time t no more than burst + rate * t tokens are granted,
whoever asks and in however many processes.
"""

import msgspec

from longshore.errors import ConfigError

__all__ = [
    "HIGHEST_RATE",
    "LARGEST_BURST",
    "LOWEST_RATE",
    "Borrowed",
    "Limit",
    "borrow",
    "check",
]

LOWEST_RATE, HIGHEST_RATE = 0.001, 1_000_000.0
LARGEST_BURST = 1_000_000

_NS = 1_000
"""Nanoseconds of a microsecond: at a million tokens a second each takes a thousand."""
_PER_UNIT_NS = 10**12
"""Rates are counted in tokens per thousand seconds, so that all arithmetic is of integers."""


class Limit(msgspec.Struct, frozen=True):
    """How fast a bucket fills, and how much it holds."""

    rate: float
    """Tokens per second, to the thousandth."""
    burst: int
    """Tokens that a full bucket has."""

    def validate(self) -> None:
        """Return if a bucket can have this limit, else a ConfigError that says why not."""
        if not LOWEST_RATE <= self.rate <= HIGHEST_RATE:
            raise ConfigError(
                f"a rate of {self.rate:g} per second is not {LOWEST_RATE:g} to {HIGHEST_RATE:g}"
            )
        if not 1 <= self.burst <= LARGEST_BURST:
            raise ConfigError(f"a burst of {self.burst} is not 1 to {LARGEST_BURST}")

    def full_at(self, empty_at: int) -> int:
        """When, in microseconds, a bucket that nobody asks again is full."""
        return self.there_at(empty_at, self.burst)

    def there_at(self, empty_at: int, tokens: int) -> int:
        """When, in microseconds, a bucket that nobody asks again has so many tokens."""
        return -(-(empty_at + _time(self, tokens)) // _NS)


class Borrowed(msgspec.Struct, frozen=True):
    """What came of asking a bucket."""

    granted: int
    left: int = 0
    """Tokens that are still there."""
    retry_after: int = 0
    """Microseconds until there is one more; 0 if all that was asked for was granted."""


def check(limit: Limit, want: int) -> None:
    """Return if a bucket can be asked for this, else a ConfigError that says why not."""
    limit.validate()
    if not 0 <= want <= LARGEST_BURST:
        raise ConfigError(f"{want} tokens cannot be borrowed at once; 0 to {LARGEST_BURST} can")


def borrow(empty_at: int | None, limit: Limit, *, want: int, now: int) -> tuple[int, Borrowed]:
    """Up to `want` tokens of a bucket, and what is to be stored of it.

    `empty_at` is what was stored before, in nanoseconds; None for a bucket that nobody used
    yet, or that has long been full. `now` is in microseconds. A clock that was set back finds
    the bucket empty, and it fills from then on.
    """
    check(limit, want)
    at = now * _NS
    start = at - _time(limit, limit.burst)
    if empty_at is not None:
        start = min(max(start, empty_at), at)
    there = _tokens(limit, at - start)
    granted = min(want, there)
    start += _time(limit, granted)
    wait = 0 if granted == want else -(-(start + _time(limit, 1) - at) // _NS)
    return start, Borrowed(granted, there - granted, wait)


def _time(limit: Limit, tokens: int) -> int:
    """Nanoseconds that these tokens take to trickle in."""
    return -(-tokens * _PER_UNIT_NS // round(limit.rate * 1_000))


def _tokens(limit: Limit, nanoseconds: int) -> int:
    return nanoseconds * round(limit.rate * 1_000) // _PER_UNIT_NS
