"""The README's table of speed, from the runs that are kept."""

from pathlib import Path
from typing import Any

import msgspec

from longshore_lab.experiments.runner import DATA, read
from longshore_lab.experiments.spread import Spread, middle
from longshore_lab.reading import table

__all__ = ["speed"]

_PROFILES = {
    "noop": "jobs that do nothing, jobs/s",
    "real": "jobs of 4 queues, 20 types, 50 tenants, 3 priorities, keys and results, jobs/s",
    "mix": "70 % of 1–5 ms, 20 % of 0.2–2 s, 5 % fail once, 5 % fail always, jobs/s",
}
_WAITS = (
    ("submits", "submit_ms", "at half of the first row: submit due → on disk, p50 / p99, ms"),
    ("claims", "claim_ms", "at four fifths of it: one claim, p50 / p99, ms"),
)
"""Whose runs, which of their times, and in words."""


def speed(folder: Path = DATA) -> str:
    """One column per engine: what it carries, and how soon a lone job begins."""
    record = read("engines", folder)
    if record is None or record.is_quick:
        return (
            "No full run is kept yet; `python -m longshore_lab.experiments engines` makes one."
        )
    sides: list[dict[str, Any]] = record.findings.results["engines"]
    rows = [
        [words, *(f"{one['per_s'][profile]:,.0f}" for one in sides)]
        for profile, words in _PROFILES.items()
    ]
    idle = [f"{one['idle_p50_ms']:.1f} / {one['idle_p99_ms']:.1f}" for one in sides]
    rows.append(["idle queue: submit called → handler begins, p50 / p99, ms", *idle])
    for runs, what, words in _WAITS:
        rows.append([words, *(_middle([run[what] for run in one[runs]]) for one in sides)])
    rows += _backlogs(folder, len(sides))
    told = table(["", *(one["name"] for one in sides)], rows)
    return f"{told}\n\n[E20](docs/experiments/e20-engines.md), {record.began[:10]}" + _others(
        folder
    )


def _middle(spreads: list[dict[str, float]]) -> str:
    one = middle(msgspec.convert(spreads, list[Spread]))
    return f"{one.p50:.1f} / {one.p99:.1f}"


def _backlogs(folder: Path, sides: int) -> list[list[str]]:
    """Of PostgreSQL only, which stands in the last column."""
    if (told := _figures(folder)) is None:
        return []
    drained = f"{told['drain']:,.0f} / {told['real drain']:,.0f}"
    words = "two workers, a backlog: jobs that do nothing / the real ones, jobs/s"
    return [[words, *[""] * (sides - 1), drained]]


def _others(folder: Path) -> str:
    if _figures(folder) is None:
        return "."
    return "; backlogs, and PostgreSQL's other figures: [E27](docs/experiments/e27-figures.md)."


def _figures(folder: Path) -> dict[str, float] | None:
    record = read("figures", folder)
    if record is None or record.is_quick:
        return None
    return record.findings.results["medians"]
