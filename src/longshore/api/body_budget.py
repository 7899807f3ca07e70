"""A bound on the bytes of request bodies that one process holds at once."""

from longshore.api.problems import ProblemError, problem
from longshore.api.settings import ApiSettings

__all__ = ["BodyBudget", "Reservation"]

_RETRY_AFTER = ((b"retry-after", b"1"),)


class BodyBudget:
    """Counts the bytes of bodies in flight: those of the process, and of each tenant.

    A body that announces its length is counted in whole before any of it is read, so that
    bodies that were let in can arrive completely. A tenant has a smaller budget than the
    process, so that one tenant cannot take all of it. Where nothing else is held, a body of any
    size is let in: a budget smaller than the largest batch slows batches down and does not
    refuse them for ever.
    """

    def __init__(self, settings: ApiSettings) -> None:
        self._most = settings.max_inflight_bytes
        self._most_each = settings.max_tenant_inflight_bytes
        self._held = 0
        self._held_by: dict[str, int] = {}

    def take(self, owner: str, size: int, *, held: int = 0) -> None:
        """Count so many bytes more for a body of this owner, or raise 503.

        `held` of the bytes counted before are of the same body.
        """
        own = self._held_by.get(owner, 0)
        if own > held and own + size > self._most_each:
            detail = "Other requests of this tenant hold its share of the memory for bodies."
            raise ProblemError(problem("body_budget", detail), _RETRY_AFTER)
        if self._held > held and self._held + size > self._most:
            raise ProblemError(problem("body_budget"), _RETRY_AFTER)
        self._held += size
        self._held_by[owner] = own + size

    def give_back(self, owner: str, size: int) -> None:
        """Count so many bytes less."""
        self._held -= size
        left = self._held_by[owner] - size
        if left:
            self._held_by[owner] = left
        else:
            del self._held_by[owner]


class Reservation:
    """The bytes of one request's body, given back when the block ends."""

    __slots__ = ("_budget", "_owner", "_size")

    def __init__(self, budget: BodyBudget, owner: str) -> None:
        self._budget = budget
        self._owner = owner
        self._size = 0

    def grow_to(self, size: int) -> None:
        """Hold at least so many bytes, or raise 503."""
        if size > self._size:
            self._budget.take(self._owner, size - self._size, held=self._size)
            self._size = size

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, *_: object) -> None:
        if self._size:
            self._budget.give_back(self._owner, self._size)
