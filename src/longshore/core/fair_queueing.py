"""Who is next in a queue whose tenants take turns.

Each tenant has a virtual time, which grows by what it was served over its weight; whoever is
least far is next, for a quantum of jobs. The queue's own virtual time is where the last one
that was served began. Nobody begins before it: who was away, or had nothing that could be
taken, has saved nothing up. So a tenant whose time is not ahead of the queue's needs no note.
"""

from collections.abc import Mapping

__all__ = ["HEAVIEST", "QUANTUM", "UNIT", "Turns", "quantum"]

QUANTUM = 32
"""Jobs that a tenant of weight 1 is served before others are looked at."""
UNIT = 720_720
"""What one job of a tenant of weight 1 takes: whole numbers for every weight up to 16."""
HEAVIEST = 1_000
"""Weights are whole numbers from 1."""


def quantum(weight: int) -> int:
    """How many jobs a tenant may be served in one turn."""
    return QUANTUM * weight


class Turns:
    """The turns of one claim. Ask `next`, serve, say what was `took`; until it is None."""

    def __init__(self, at: int, times: Mapping[str, int], weights: Mapping[str, int]) -> None:
        """`at` is the queue's virtual time, `times` those of tenants, as far as noted.

        `weights` has every tenant that may have something to take.
        """
        self.at = at
        """The queue's virtual time."""
        self.changed: dict[str, int] = {}
        """The virtual times of those who were served."""
        self._weights = weights
        self._starts = {name: max(times.get(name, at), at) for name in weights}

    def next(self) -> tuple[str, int] | None:
        """Whose turn it is, and for how many jobs; None when nobody has anything left."""
        if not self._starts:
            return None
        name = min(self._starts, key=lambda one: (self._starts[one], one))
        return name, quantum(self._weights[name])

    def took(self, name: str, jobs: int, *, has_more: bool) -> None:
        """So many jobs of a tenant were taken in its turn; whether it may have more."""
        if jobs:
            self.at = max(self.at, self._starts[name])
            self._starts[name] += jobs * UNIT // self._weights[name]
            self.changed[name] = self._starts[name]
        if not has_more:
            del self._starts[name]
