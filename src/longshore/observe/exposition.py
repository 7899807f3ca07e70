"""The numbers as text, as Prometheus reads it (format 0.0.4)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from longshore.observe.metric_types import Family, Histogram
from longshore.observe.shared_cells import Totals

__all__ = ["MEDIA", "PREFIX", "Reading", "text"]

MEDIA = b"text/plain; version=0.0.4; charset=utf-8"
PREFIX = "longshore_"


class Reading(NamedTuple):
    """A number that is read when it is asked for, and kept nowhere in this process."""

    name: str
    words: str
    labels: tuple[str, ...]
    values: Sequence[tuple[tuple[str, ...], float]]
    kind: str = "gauge"


def text(families: Iterable[Family], totals: Totals, readings: Iterable[Reading]) -> bytes:
    """All families, and the readings after them."""
    found: dict[str, list[tuple[tuple[str, ...], list[float]]]] = {}
    for series, cells in totals.items():
        found.setdefault(series.name, []).append((series.labels, cells))
    lines: list[str] = []
    for family in families:
        if held := found.get(family.name):
            lines += _head(family.name, family.words, family.kind)
            for labels, cells in sorted(held):
                lines += _samples(family, labels, cells)
    lines += _utilization(found.get("worker_slots", []))
    for one in readings:
        if one.values:
            lines += _head(one.name, one.words, one.kind)
            lines += [
                _line(one.name, one.labels, labels, value) for labels, value in one.values
            ]
    return ("\n".join(lines) + "\n").encode()


def _head(name: str, words: str, kind: str) -> list[str]:
    return [f"# HELP {PREFIX}{name} {words}", f"# TYPE {PREFIX}{name} {kind}"]


def _samples(family: Family, labels: tuple[str, ...], cells: list[float]) -> Iterator[str]:
    if not isinstance(family, Histogram):
        yield _line(family.name, family.labels, labels, cells[0])
        return
    names = (*family.labels, "le")
    bounds = [*map(_number, family.bounds), "+Inf"]
    total, count = cells[-1], 0.0
    for bound, count in zip(bounds, accumulate(cells[:-1]), strict=True):
        yield _line(f"{family.name}_bucket", names, (*labels, bound), count)
    yield _line(f"{family.name}_sum", family.labels, labels, total)
    yield _line(f"{family.name}_count", family.labels, labels, count)


def _utilization(slots: Iterable[tuple[tuple[str, ...], list[float]]]) -> Iterator[str]:
    """Of all processes together, which their own shares could not be added up to."""
    by_state = {labels[0]: cells[0] for labels, cells in slots}
    rooms = by_state.get("busy", 0.0) + by_state.get("free", 0.0)
    if rooms:
        name = "worker_utilization_ratio"
        yield from _head(name, "The share of slots that are busy.", "gauge")
        yield _line(name, (), (), by_state.get("busy", 0.0) / rooms)


def _line(name: str, names: Sequence[str], values: Sequence[str], value: float) -> str:
    pairs = ",".join(f'{k}="{_escaped(v)}"' for k, v in zip(names, values, strict=True))
    return (
        f"{PREFIX}{name}{{{pairs}}} {_number(value)}"
        if pairs
        else (f"{PREFIX}{name} {_number(value)}")
    )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
