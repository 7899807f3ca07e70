"""How fast jobs end, told from how many had ended before."""

from collections import deque
from dataclasses import dataclass, field

__all__ = ["Throughput"]

_WINDOW_US = 60_000_000
_MOST_SAMPLES = 120
_MOST_LINES = 1_000

_Line = tuple[str | None, str | None]


@dataclass(slots=True)
class Throughput:
    """Remembers how many jobs had ended when it was asked before."""

    _lines: dict[_Line, deque[tuple[int, int]]] = field(
        default_factory=dict[_Line, deque[tuple[int, int]]]
    )

    def rate(self, of: _Line, now: int, ended: int) -> float | None:
        """Jobs per second since the oldest sample of the last minute."""
        if of not in self._lines and len(self._lines) >= _MOST_LINES:
            self._lines.clear()
        samples = self._lines.setdefault(of, deque(maxlen=_MOST_SAMPLES))
        while samples and samples[0][0] < now - _WINDOW_US:
            samples.popleft()
        samples.append((now, ended))
        since, before = samples[0]
        if now <= since:
            return None
        # Pruning takes away what had ended.
        return max(ended - before, 0) * 1e6 / (now - since)
