"""How a worker is: whether it can claim, and if it cannot, why."""

from enum import StrEnum
from typing import NamedTuple, Protocol

__all__ = ["Condition", "Health", "Sign"]


class Condition(StrEnum):
    """What a supervisor may want to know of a worker."""

    STARTING = "starting"
    """It has not had a session yet."""
    READY = "ready"
    """It claims what there is to claim, or has as much as it can run."""
    STUCK = "stuck"
    """It has not been able to claim for long."""
    LEAVING = "leaving"
    """It was asked to go, and claims nothing more."""


class Health(NamedTuple):
    """A worker's condition, and the reason for one that is not as it should be."""

    condition: Condition
    why: str = ""

    @property
    def is_ready(self) -> bool:
        """It can be counted on to run jobs."""
        return self.condition is Condition.READY


class Sign(Protocol):
    """Shows the outside how a worker is: a file, a message to a service manager."""

    def show(self, health: Health) -> None:
        """How it is now. Called every second or so, changed or not; raises nothing."""
        ...
