"""The kinds of metrics: counters, gauges and histograms with fixed buckets."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import ClassVar

from longshore.observe.shared_cells import Cells, Series

__all__ = ["Bounds", "Counter", "Family", "Gauge", "Histogram", "Labels"]

OTHER = "other"
QUEUE, TYPE = "queue", "type"
OPEN = frozenset({QUEUE, TYPE})
"""Labels whose values people invent. Past a number of them the rest are `other`."""

Bounds = tuple[float, ...]


class Labels:
    """Decides which values of labels have a series of their own, for all metrics alike.

    Whoever comes first has one, up to a number. Whoever may submit can invent names, so beyond
    that number there is room that only preferred queues and types get.
    """

    def __init__(self, most: int = 200, *, more: int = 100) -> None:
        self._most = most
        self._more = more
        self._known: set[tuple[str, ...]] = set()
        self._later: set[tuple[str, ...]] = set()
        """Of preferred names, that came when all others had their series."""
        self._preferred: dict[str, frozenset[str]] = {}

    @property
    def is_full(self) -> bool:
        """Whether new names are `other` from now on, unless they are preferred."""
        return len(self._known) >= self._most

    def prefer(self, queues: Iterable[str], types: Iterable[str]) -> None:
        """Give these names series, in their order and as far as there is room."""
        self._preferred = {
            QUEUE: frozenset(islice(queues, self._more)),
            TYPE: frozenset(islice(types, self._more)),
        }

    def bounded(self, names: Sequence[str], values: tuple[str, ...]) -> tuple[str, ...]:
        """The values, or `other` in place of those that came too late."""
        invented = tuple(v for name, v in zip(names, values, strict=True) if name in OPEN)
        if not invented or invented in self._known or invented in self._later:
            return values
        if len(self._known) < self._most:
            self._known.add(invented)
            return values
        kept = tuple(map(self._preferred_or_other, names, values))
        if kept == values and len(self._later) < self._more:
            self._later.add(invented)
            return values
        # A queue that is preferred is told of, whatever types are invented in it.
        return tuple(OTHER if n == TYPE else v for n, v in zip(names, kept, strict=True))

    def _preferred_or_other(self, name: str, value: str) -> str:
        is_told = name not in OPEN or value in self._preferred.get(name, ())
        return value if is_told else OTHER


class Family:
    """A metric: its name, what it says, and a series for each set of label values."""

    kind: ClassVar[str]

    def __init__(self, name: str, words: str, labels: tuple[str, ...] = ()) -> None:
        self.name = name
        self.words = words
        self.labels = labels
        self._places: dict[tuple[str, ...], int] = {}
        self._cells: Cells
        self._bound: Labels
        self.values: memoryview[float]

    @property
    def width(self) -> int:
        """How many cells a series has."""
        return 1

    def keep_in(self, cells: Cells, bound: Labels) -> None:
        """Where its numbers are. What counts, and has no labels, is there at 0 from now on."""
        self._cells, self._bound, self.values = cells, bound, cells.values
        if not self.labels and self.kind != Gauge.kind:
            self.place(())

    def place(self, labels: tuple[str, ...]) -> int:
        """The first cell of the series with these label values."""
        found = self._places.get(labels)
        if found is None:
            # What is `other` is looked up anew each time: there may be any number of it.
            allowed = self._bound.bounded(self.labels, labels)
            found = self._places.get(allowed)
            if found is None:
                found = self._cells.place(Series(self.name, allowed), self.width)
                self._places[allowed] = found
        return found


class Counter(Family):
    """Only grows."""

    kind = "counter"

    def add(self, amount: float = 1, *labels: str) -> None:
        """Count so many."""
        self.values[self.place(labels)] += amount


class Gauge(Family):
    """Goes up and down. Of several processes the values are added up."""

    kind = "gauge"

    def set(self, value: float, *labels: str) -> None:
        """How it is now."""
        self.values[self.place(labels)] = value


class Histogram(Family):
    """How long things took, in seconds.

    A cell for each bound holds how many there are up to it and above the one before; then come
    those above all bounds, and the sum of all.
    """

    kind = "histogram"

    def __init__(
        self, name: str, words: str, labels: tuple[str, ...] = (), *, bounds: Bounds
    ) -> None:
        super().__init__(name, words, labels)
        self.bounds = bounds
        self._microseconds = tuple(round(one * 1e6) for one in bounds)

    @property
    def width(self) -> int:
        """One for each bound, one for what is above, and the sum."""
        return len(self.bounds) + 2

    def observe(self, seconds: float, *labels: str) -> None:
        """One of them."""
        values, at = self.values, self.place(labels)
        values[at + bisect_left(self.bounds, seconds)] += 1
        if seconds > 0.0:
            values[at + len(self.bounds) + 1] += seconds

    def observe_all(self, microseconds: list[int], *labels: str) -> None:
        """Many of them, in whole microseconds. They are sorted in place."""
        values, at = self.values, self.place(labels)
        microseconds.sort()
        before, most = 0, len(microseconds)
        for cell, bound in enumerate(self._microseconds, at):
            if before == most:
                break
            if (upto := bisect_right(microseconds, bound, before)) > before:
                values[cell] += upto - before
                before = upto
        last = at + len(self.bounds)
        values[last] += most - before
        values[last + 1] += max(sum(microseconds), 0) / 1e6
