"""Numbers and times as they fit into a column."""

from collections.abc import Sequence

__all__ = ["age", "bars", "count", "rate"]

_BARS = "▁▂▃▄▅▆▇█"


def count(number: int) -> str:
    """`1,234`, `56.7k`, `8.90M`: five figures at most, so that columns stay where they are."""
    if number < 10_000:
        return f"{number:,}"
    return _scaled(number)


def rate(per_second: float | None) -> str:
    """Jobs per second; `-` while nobody knows."""
    if per_second is None:
        return "-"
    if per_second >= 1_000:
        return _scaled(per_second)
    if per_second >= 10 or per_second == 0:
        return f"{per_second:.0f}"
    return f"{per_second:.1f}"


def age(microseconds: int | None) -> str:
    """How long ago, in one or two units; `-` for never."""
    if microseconds is None:
        return "-"
    seconds = max(microseconds, 0) // 1_000_000
    if seconds < 60:
        return f"{seconds}s"
    for size, unit, part, small in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // part:02}{small}"
    return ""


def bars(values: Sequence[float], width: int) -> str:
    """The last values as a row of bars, the highest of them full."""
    last = values[-width:]
    most = max(last, default=0)
    steps = len(_BARS) - 1
    return "".join(
        _BARS[round(one / most * steps)] if most else _BARS[0] for one in last
    ).rjust(width)


def _scaled(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            value = number / size
            figures = 2 if value < 10 else 1 if value < 100 else 0
            return f"{value:.{figures}f}{unit}"
    return f"{number:.0f}"
