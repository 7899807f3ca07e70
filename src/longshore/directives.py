"""What a handler may raise on purpose. These are wishes, not errors."""

from datetime import timedelta

__all__ = ["Cancel", "Dead", "Directive", "Retry", "Snooze"]


class Directive(Exception):
    """Base of what a handler raises to decide how its attempt ends."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Directive):
    """Count this attempt as failed and try again, after the given time or the usual backoff."""

    def __init__(self, *, after: timedelta | float | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.after = after


class Snooze(Directive):
    """Run again later without charging a failure."""

    def __init__(self, after: timedelta | float, *, reason: str = "") -> None:
        super().__init__(reason)
        self.after = after


class Dead(Directive):
    """Give up now: no retry can help. The reason is kept with the dead job."""


class Cancel(Directive):
    """End the job as cancelled."""
