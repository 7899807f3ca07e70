"""Draws the figures of a comparison as SVG, with nothing but the standard library."""

import statistics
from collections.abc import Callable, Sequence
from html import escape

from bench.compare.trial import Figures

__all__ = ["plot"]

_Figure = Callable[[Figures], float | None]
_PANELS: tuple[tuple[str, _Figure], ...] = (
    ("drain, jobs/s", lambda one: one.drain_per_s),
    ("submit in bulk, jobs/s", lambda one: one.submit_bulk_per_s),
    ("idle latency p50, ms", lambda one: one.p50_ms),
    ("CPU per 1,000 jobs, ms", lambda one: sum(one.cpu_ms_per_1000.values()) or None),
)
_OURS, _OTHERS, _REAL = "#0b6e99", "#b8b8b8", "#7fb7cc"
_WIDE, _NAME, _NUMBER, _ROW, _TOP = 470, 200, 60, 22, 40
_REAL_SUFFIX = ", real jobs"


def plot(found: Sequence[Figures]) -> str:
    """One panel for each figure, by median; the best on top."""
    panels = [(title, _rows(found, figure, title)) for title, figure in _PANELS]
    high = _TOP + _ROW * max(len(rows) for _, rows in panels) + _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDE * 2}" height="{high * 2}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, (title, rows) in enumerate(panels):
        parts += _panel(title, rows, left=number % 2 * _WIDE, top=number // 2 * high)
    return "\n".join([*parts, "</svg>", ""])


def _rows(found: Sequence[Figures], figure: _Figure, title: str) -> list[tuple[float, str]]:
    groups: dict[str, list[float | None]] = {}
    for one in found:
        groups.setdefault(one.peer, []).append(figure(one))
        if figure is _PANELS[0][1]:
            groups.setdefault(one.peer + _REAL_SUFFIX, []).append(one.real_per_s)
    known = {name: [value for value in values if value] for name, values in groups.items()}
    rows = [(statistics.median(values), name) for name, values in known.items() if values]
    return sorted(rows, reverse="/s" in title)


def _panel(title: str, rows: list[tuple[float, str]], left: int, top: int) -> list[str]:
    parts = [
        f'<text x="{left + _NAME}" y="{top + 24}" font-weight="bold">{escape(title)}</text>'
    ]
    if not rows:
        return parts
    across = (_WIDE - _NAME - _NUMBER) / max(value for value, _ in rows)
    for number, (value, name) in enumerate(rows):
        middle = top + _TOP + number * _ROW + _ROW // 2
        wide = max(value * across, 1.0)
        shown = f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
        parts += [
            f'<text x="{left + _NAME - 6}" y="{middle + 4}" text-anchor="end" '
            f'font-size="11">{escape(name)}</text>',
            f'<rect x="{left + _NAME}" y="{middle - 8}" width="{wide:.1f}" height="16" '
            f'fill="{_color(name)}"/>',
            f'<text x="{left + _NAME + wide + 4:.1f}" y="{middle + 4}">{shown}</text>',
        ]
    return parts


def _color(name: str) -> str:
    if name.endswith(_REAL_SUFFIX):
        return _REAL
    return _OURS if name.startswith("Longshore") else _OTHERS
