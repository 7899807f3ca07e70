"""Draws panels as SVG, without a library: the same figures give the same file."""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import accumulate, pairwise

from longshore_lab.experiments.findings import Drawing, Line

__all__ = ["draw"]

_WIDTH, _HEIGHT = 900, 200
_LEFT, _RIGHT, _ABOVE, _BELOW = 70, 20, 46, 44
_COLORS = ("#0b6e99", "#d9730d", "#448361", "#9065b0", "#c14c8a", "#787774")
_PALE = "#b8b8b8"
_TICKS = 5

Scale = Callable[[float], float]


def draw(drawings: Sequence[Drawing]) -> str:
    """All panels, one below the other."""
    tall = _ABOVE + _HEIGHT + _BELOW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
        f'height="{tall * len(drawings)}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, one in enumerate(drawings):
        parts += _panel(one, number * tall + _ABOVE)
    return "\n".join([*parts, "</svg>", ""])


def _panel(one: Drawing, top: int) -> Iterator[str]:
    points = [point for line in one.lines for point in line.points]
    yield f'<text x="{_LEFT}" y="{top - 26}" font-weight="bold">{escape(one.title)}</text>'
    if not points:
        yield f'<text x="{_LEFT}" y="{top + 20}">nothing was seen</text>'
        return
    right, width = _across(one, [x for x, _ in points])
    highest = max(one.level or 0.0, _highest(one.lines)) or 1.0
    step = _step(highest)
    most = step * math.ceil(highest / step)
    bottom = top + _HEIGHT

    def up(y: float) -> float:
        return bottom - _HEIGHT * max(y, 0.0) / most

    if one.band is not None:
        begin, end = right(one.band[0]), right(one.band[1])
        yield (
            f'<rect x="{begin:.1f}" y="{top}" width="{end - begin:.1f}" '
            f'height="{_HEIGHT}" fill="#fde0dc"/>'
        )
    yield from _grid(step, most, up)
    yield from _lines(one.lines, right, up, width)
    if one.level is not None:
        level = up(one.level)
        yield (
            f'<path d="M{_LEFT} {level:.1f}H{_WIDTH - _RIGHT}" stroke="#333" '
            'stroke-dasharray="4 4"/>'
        )
    yield from _below(one, right, bottom)
    yield from _legend(one.lines, top - 8)


def _across(one: Drawing, xs: Sequence[float]) -> tuple[Scale, float]:
    """Where an x is drawn, and how wide a bar is."""
    steps = sorted(set(xs))
    if one.is_log:
        steps = [math.log2(max(x, 1e-9)) for x in steps]
    first, last = steps[0], steps[-1]
    span = (last - first) or 1.0
    gaps = [after - before for before, after in pairwise(steps)]
    has_bars = any(line.is_bars for line in one.lines)
    bar = min(gaps, default=span) if has_bars else 0.0
    room = _WIDTH - _LEFT - _RIGHT

    def right(x: float) -> float:
        at = math.log2(max(x, 1e-9)) if one.is_log else x
        share = (min(max(at, first), last + bar) - first) / (span + bar)
        return _LEFT + room * share

    return right, room * bar / (span + bar)


def _highest(lines: Sequence[Line]) -> float:
    stacked: dict[float, float] = {}
    for line in lines:
        if line.is_bars:
            for x, y in line.points:
                stacked[x] = stacked.get(x, 0.0) + y
    plain = [y for line in lines if not line.is_bars for _, y in line.points]
    return max([*stacked.values(), *plain], default=0.0)


def _step(most: float) -> float:
    """A round number of which about five reach the top."""
    size = 10 ** math.floor(math.log10(most / _TICKS))
    return next(size * one for one in (1, 2, 5, 10) if size * one * _TICKS >= most)


def _grid(step: float, most: float, up: Scale) -> Iterator[str]:
    for value in accumulate([step] * round(most / step), initial=0.0):
        y = up(value)
        yield f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#e6e6e6"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>'


def _lines(lines: Sequence[Line], right: Scale, up: Scale, width: float) -> Iterator[str]:
    below: dict[float, float] = {}
    for line, color in zip(lines, _colors(lines), strict=True):
        if not line.is_bars:
            steps = " ".join(f"{right(x):.1f},{up(y):.1f}" for x, y in line.points)
            yield f'<polyline points="{steps}" fill="none" stroke="{color}" stroke-width="2"/>'
            continue
        for x, y in line.points:
            low = below.get(x, 0.0)
            below[x] = low + y
            yield (
                f'<rect x="{right(x):.1f}" y="{up(low + y):.1f}" width="{width:.2f}" '
                f'height="{up(low) - up(low + y):.1f}" fill="{color}"/>'
            )


def _below(one: Drawing, right: Scale, bottom: int) -> Iterator[str]:
    xs = sorted({x for line in one.lines for x, _ in line.points})
    if one.is_log:
        shown = xs
    else:
        first, last = xs[0], xs[-1]
        step = _step(max(last - first, 1e-9))
        shown = [step * at for at in range(math.ceil(first / step), int(last / step) + 1)]
    for x in shown:
        yield (
            f'<text x="{right(x):.1f}" y="{bottom + 16}" text-anchor="middle">'
            f"{_short(x)}</text>"
        )
    place = f'x="{_WIDTH - _RIGHT}" y="{bottom + 32}" text-anchor="end"'
    yield f"<text {place}>{escape(one.x)}</text>"


def _legend(lines: Sequence[Line], y: int) -> Iterator[str]:
    x = _LEFT
    for line, color in zip(lines, _colors(lines), strict=True):
        yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{color}"/>'
        yield f'<text x="{x + 14}" y="{y}">{escape(line.name)}</text>'
        x += 30 + 7 * len(line.name)


def _colors(lines: Sequence[Line]) -> list[str]:
    """The first of several bars is what is usual, and pale."""
    has_stack = sum(line.is_bars for line in lines) > 1
    colors = [_PALE, *_COLORS] if has_stack else list(_COLORS)
    return [colors[number % len(colors)] for number in range(len(lines))]


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.3g}"
