"""In which order the queues are drained."""

import re
from collections.abc import Sequence

from longshore.errors import ConfigError

__all__ = ["QueueOrder"]

_WEIGHTED = re.compile(r"(?P<name>.+)=(?P<weight>[0-9]{1,9})")


class QueueOrder:
    """Queues by preference, or by weight.

    With weights every exchange still asks all queues, so that no slot stays idle for the sake
    of a ratio; what the weights decide is who is asked first. The choice is the smooth one:
    3 to 1 comes out as A A B A, never as A A A B in long runs.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        matches = [_WEIGHTED.fullmatch(entry) for entry in entries]
        self.names = tuple(
            match["name"] if match else entry
            for entry, match in zip(entries, matches, strict=True)
        )
        self._weights = {match["name"]: int(match["weight"]) for match in matches if match}
        self._credit = dict.fromkeys(self._weights, 0)
        self._check()

    def next(self) -> tuple[str, ...] | None:
        """The order for one exchange; None for the session's own."""
        if not self._weights:
            return None
        for name, weight in self._weights.items():
            self._credit[name] += weight
        order = sorted(self._credit, key=lambda name: -self._credit[name])
        self._credit[order[0]] -= sum(self._weights.values())
        return tuple(order)

    def _check(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ConfigError("worker.queues names a queue twice")
        if self._weights and len(self._weights) != len(self.names):
            raise ConfigError("worker.queues gives a weight to some queues but not to all")
        if any(weight < 1 for weight in self._weights.values()):
            raise ConfigError("worker.queues has a weight of 0; leave that queue out")
