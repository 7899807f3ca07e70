"""Durations, rates and sizes as people write them: `30s`, `1h30m`, `100/s`, `1MiB`."""

import re
from datetime import timedelta

__all__ = ["duration", "duration_text", "microseconds", "rate", "rate_text", "size_bytes"]

_UNITS = (
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
)
_MICROSECONDS = {"w": 7 * 86_400_000_000, **dict(_UNITS)}
_PART = r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)"
_DURATION = re.compile(rf"{_PART}(?:\s*{_PART})*", re.ASCII)

_RATE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(?:/\s*([smhd]))?", re.ASCII)

_BYTES = {
    "": 1,
    "b": 1,
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]?i?b?)", re.ASCII | re.IGNORECASE)


def duration(text: str) -> timedelta:
    """`250ms`, `30s`, `1h30m`, `0`, or ValueError. A bare number is refused: it has no unit."""
    words = text.strip().lower()
    if words == "0":
        return timedelta()
    if not _DURATION.fullmatch(words):
        unit = "; did you forget the unit?" if words.replace(".", "", 1).isdecimal() else ""
        raise ValueError(
            f"{text!r:.80} is not a duration such as 250ms, 30s, 5m or 1h30m{unit}"
        )
    parts = re.findall(_PART, words)
    try:
        return timedelta(
            microseconds=sum(float(number) * _MICROSECONDS[unit] for number, unit in parts)
        )
    except OverflowError:
        raise ValueError(f"{text!r:.80} is too long a duration") from None


def duration_text(value: timedelta) -> str:
    """The shortest text that `duration` reads back as the same value."""
    rest = microseconds(value)
    if rest == 0:
        return "0s"
    parts: list[str] = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def microseconds(value: timedelta) -> int:
    """The duration as the engine counts it."""
    return value // timedelta(microseconds=1)


def rate(text: str) -> float:
    """`100/s`, `30/m`, `5/h` or a bare number per second, in thousandths; or ValueError."""
    match = _RATE.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r:.80} is not a rate such as 100/s, 30/m or 5/h")
    seconds = _MICROSECONDS[match[2] or "s"] // 1_000_000
    return round(float(match[1]) / seconds, 3)


def rate_text(value: float) -> str:
    """A rate that `rate` reads back as the same value."""
    return f"{value:.3f}".rstrip("0").rstrip(".") + "/s"


def size_bytes(text: str) -> int:
    """`1MiB`, `64kB` or a bare number of bytes, or ValueError."""
    match = _SIZE.fullmatch(text.strip())
    factor = _BYTES.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r:.80} is not a size such as 512, 64KiB or 1MiB")
    return int(float(match[1]) * factor)
