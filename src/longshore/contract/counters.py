"""Counters that all processes share."""

from typing import Protocol

from longshore.core.token_bucket import Borrowed

__all__ = ["Counters"]


class Counters(Protocol):
    """Token buckets."""

    async def borrow(self, name: str, *, rate: float, burst: int, want: int) -> Borrowed:
        """Take up to `want` tokens from the bucket of this name, which all processes share.

        It holds `burst` tokens at first, and gets `rate` per second on the engine's clock. What
        was borrowed is not given back; a loss of power may refill it. A limit that makes no
        sense is a ConfigError.
        """
        ...
