"""The model's memory of whose turn it is in fair queues."""

from collections.abc import Iterable, Mapping

from longshore.core.fair_queueing import Turns

__all__ = ["Shares"]


class Shares:
    """How far fair queues are, and those of their tenants that are ahead of that."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._at: dict[str, int] = {}
        self._times: dict[tuple[str, str], int] = {}

    def turns(self, queue: str, tenants: Iterable[str]) -> Turns:
        """Whose turn it is among these tenants of a queue."""
        weights = {name: self._weights.get(name, 1) for name in tenants}
        times = {name: at for (of, name), at in self._times.items() if of == queue}
        return Turns(self._at.get(queue, 0), times, weights)

    def served(self, queue: str, turns: Turns) -> None:
        """These turns were taken."""
        self._at[queue] = turns.at
        self._times |= {(queue, name): at for name, at in turns.changed.items()}
        self._times = {
            (of, name): at
            for (of, name), at in self._times.items()
            if of != queue or at > turns.at
        }

    def forget(self, queue: str) -> None:
        """A queue is not fair any more."""
        self._at.pop(queue, None)
        self._times = {key: at for key, at in self._times.items() if key[0] != queue}
