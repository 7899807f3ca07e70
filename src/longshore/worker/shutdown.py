"""How a worker leaves: when it was asked to, how long it waits, and why it went."""

from enum import StrEnum

from longshore.worker.lease import NEVER

__all__ = ["Departure", "Ending"]

_GRACE = 0.5
"""Seconds for handlers to end after they were told to."""
_LAST_CALL = 0.5
"""Seconds after that for the engine to hear what became of them."""


class Ending(StrEnum):
    """Why a worker stopped working."""

    DRAINED = "drained"
    """It was asked to."""
    IDLE = "idle"
    """There was nothing left to do, and it was to work until then."""
    WORN_OUT = "worn out"
    """Too many of its slots are held by handlers that do not end; start another instead."""
    STUCK = "stuck"
    """It could not claim for long, and was to leave then; start another instead."""
    OUTDATED = "outdated"
    """The store's schema goes where this code cannot follow; start a newer version instead."""


class Departure:
    """Three deadlines, all in the future until someone asks: finish, stop, leave."""

    def __init__(self) -> None:
        self.ending: Ending | None = None
        self.finish_by = NEVER
        """Handlers may finish until then; then they are told to stop."""
        self.stop_by = NEVER
        """Handlers that still run are left behind."""
        self.leave_by = NEVER
        """The worker is gone, whether or not the engine answered."""

    def ask(self, ending: Ending, finish_by: float) -> None:
        """Leave, or leave sooner. The first reason stays."""
        self.ending = self.ending or ending
        if finish_by < self.finish_by:
            self.finish_by = finish_by
            self.stop_by = finish_by + _GRACE
            self.leave_by = finish_by + _GRACE + _LAST_CALL
