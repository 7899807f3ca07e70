"""How long to wait after a failure. All arithmetic saturates: no input overflows or raises."""

from enum import StrEnum

import msgspec

__all__ = ["LONGEST_US", "Backoff", "Jitter"]

LONGEST_US = 10 * 365 * 86_400 * 1_000_000
"""Ten years: no delay is ever longer, so a due time always fits its column."""


class Jitter(StrEnum):
    """How retries that failed together are spread apart."""

    NONE = "none"
    PROPORTIONAL = "proportional"
    """The delay, plus or minus a quarter."""
    FULL = "full"
    """Anything between nothing and the delay."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential delay between attempts: base, doubled per failure, capped, then jittered."""

    base: int = 250_000
    cap: int = 60_000_000
    jitter: Jitter = Jitter.PROPORTIONAL

    def delay(self, failures: int, chance: float) -> int:
        """Microseconds to wait after failure number `failures`; `chance` is in [0, 1)."""
        # Past 63 doublings any base of a microsecond is over every cap.
        doubled = max(self.base, 0) << min(max(failures, 0), 63)
        whole = min(doubled, max(self.cap, 0), LONGEST_US)
        if self.jitter is Jitter.NONE:
            return whole
        if self.jitter is Jitter.FULL:
            return int(whole * chance)
        return min(int(whole * (0.75 + 0.5 * chance)), LONGEST_US)
