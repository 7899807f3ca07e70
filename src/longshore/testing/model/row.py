"""A job in the model's memory."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from longshore.contract import Reference
from longshore.core.job import Job, UniqueUntil

__all__ = ["Row"]


@dataclass(slots=True)
class Row:
    """A job as people see it, and what only the engine knows of it."""

    handle: int
    """Counts arrivals, so it also breaks ties of rank."""
    job: Job
    rank: int
    unique_until: UniqueUntil
    token: int = 0
    """The session that holds it; 0 when none does."""
    number: int = 0
    """The exchange that claimed it."""
    turn: int = 0
    """Where it stands in that claim."""
    is_inside: bool = False
    """Whether it holds a place at the gate of its line."""
    place: int = 0
    """Where in its line it is parked; 0 when it is not."""

    @property
    def reference(self) -> Reference:
        """Names the latest claim of the job."""
        return (self.handle, self.job.delivery)

    def change(self, **changes: Any) -> None:
        """Replace fields of the job."""
        self.job = replace(self.job, **changes)
