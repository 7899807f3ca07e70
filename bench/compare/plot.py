"""Draws the figures of a comparison: python plot.py FOLDER. Needs matplotlib."""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

_PANELS = (
    ("drain_per_s", "drain, jobs/s"),
    ("submit_bulk_per_s", "submit in bulk, jobs/s"),
    ("p50_ms", "idle latency p50, ms"),
    ("cpu", "CPU per 1,000 jobs, ms"),
)
_OURS, _OTHERS = "#0b6e99", "#b8b8b8"


def main() -> None:
    """Read figures.json and write plot.svg beside it."""
    folder = Path(sys.argv[1])
    runs = json.loads((folder / "figures.json").read_text())
    for run in runs:
        run["cpu"] = sum(run["cpu_ms_per_1000"].values()) or None
    figure, axes = plt.subplots(1, len(_PANELS), figsize=(18, 0.4 * len(_names(runs)) + 1.5))
    for axis, (key, title) in zip(axes, _PANELS, strict=True):
        _draw(axis, runs, key, title)
    figure.tight_layout()
    # Without a date, and with ids that do not change, the same figures give the same file.
    mpl.rcParams["svg.hashsalt"] = "longshore"
    figure.savefig(folder / "plot.svg", metadata={"Date": None})


def _draw(axis: Any, runs: list[dict[str, Any]], key: str, title: str) -> None:
    rows = []
    for name in _names(runs):
        values = [run[key] for run in runs if run["peer"] == name and run[key] is not None]
        if values:
            rows.append((statistics.median(values), name))
    rows.sort(reverse="ms" in title)
    bars = axis.barh(
        [name for _, name in rows],
        [value for value, _ in rows],
        color=[_OURS if "Longshore" in name else _OTHERS for _, name in rows],
    )
    labels = [f"{value:,.1f}" if value < 100 else f"{value:,.0f}" for value, _ in rows]
    axis.bar_label(bars, labels, padding=3, fontsize=8)
    axis.set_xscale("log")
    axis.set_xlabel("log scale")
    axis.margins(x=0.25)
    axis.set_title(title)
    axis.spines[["top", "right"]].set_visible(False)


def _names(runs: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(run["peer"] for run in runs))


if __name__ == "__main__":
    main()
