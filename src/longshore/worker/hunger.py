"""Notices that jobs wait which a worker serves and asks for, and does not get."""

from longshore.errors import EngineBusyError, EngineUnavailableError, LeaseLostError
from longshore.runtime.deadline import Deadline
from longshore.worker.lease import Standing

__all__ = ["Hunger"]

_CALL = 5.0


class Hunger:
    """Compares what a worker gets with what there is; asks only when it gets nothing.

    An idle worker is not hungry: there is nothing to have. One whose rooms are full is not
    either, however much there is.
    """

    def __init__(self, standing: Standing, *, every: float) -> None:
        self._standing = standing
        self._every = every
        self._looked = 0.0
        self._seen: float | None = None
        """Since when every look has found something."""

    @property
    def since(self) -> float | None:
        """Since when jobs wait that the worker should have got; None: it is not hungry."""
        seen = self._seen
        return None if seen is None or self._standing.fed >= seen else seen

    async def tick(self) -> float:
        """Look, unless the worker has had all it wanted since the last time."""
        now, standing = self._standing.clock.monotonic(), self._standing
        is_fed = standing.fed >= self._looked or not standing.is_live
        self._looked = now
        if is_fed or not await self._is_food_there():
            self._seen = None
        elif self._seen is None:
            self._seen = now
        return self._every

    async def _is_food_there(self) -> bool:
        try:
            async with Deadline(_CALL):
                return await self._standing.has_waiting_jobs()
        except (EngineBusyError, EngineUnavailableError, LeaseLostError, TimeoutError):
            return False  # that it cannot be reached is noticed elsewhere
