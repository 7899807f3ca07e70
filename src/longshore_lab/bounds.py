"""How a measurement ends: its figures as JSON, and a line that says whether they are good."""

import json
import sys
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Bound", "conclude"]


class Bound(NamedTuple):
    """A figure, and what it may be."""

    what: str
    found: float
    limit: float
    unit: str = ""
    is_least: bool = False
    """The limit is the least that it may be, and not the most."""

    @property
    def holds(self) -> bool:
        """The figure is what it may be."""
        return self.found >= self.limit if self.is_least else self.found <= self.limit

    def __str__(self) -> str:
        """What was found, and what was asked for."""
        side = "at least" if self.is_least else "at most"
        return f"{self.what} {self.found:,g}{self.unit} ({side} {self.limit:,g}{self.unit})"


def conclude(figures: Mapping[str, object], *bounds: Bound) -> int:
    """Print the figures, and then what holds, or all that does not; the exit code."""
    broken = [one for one in bounds if not one.holds]
    verdict = "broken" if broken else "holds"
    sys.stdout.write(json.dumps({**figures, "bounds": verdict if bounds else None}) + "\n")
    if bounds:
        sys.stdout.write(f"{verdict}: " + ", ".join(map(str, broken or bounds)) + "\n")
    return 1 if broken else 0
