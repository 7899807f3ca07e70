"""What the samples say about the bound: who used the processors, what the server waited for."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from longshore.runtime.process import available_cores
from longshore_lab.experiments.findings import Drawing, Line, Table
from longshore_lab.experiments.probe import FREE, HELD
from longshore_lab.experiments.sampler import Sample

__all__ = ["at_work", "bound", "depth_drawing", "series", "thinned", "used"]

_ROLES = ("producer", "worker", "scheduler", "server", "other")
_MOST_WAITS = 8
_MOST_POINTS = 240
"""Points of a series that are kept: more make the file large, and no picture finer."""
_MIB = 2**20
_SESSIONS = "busy sessions of the server"


def bound(samples: Sequence[Sample], of: str = "") -> list[Table]:
    """Tables of evidence; `of` says which part of the experiment."""
    if not samples:
        return []
    tail = f", {of}" if of else ""
    tables = [Table(f"Processors{tail}", ["who", "cores"], _cores(samples))]
    waits: Counter[str] = Counter()
    for one in samples:
        waits.update(one.waits)
    if waits:
        total = sum(waits.values())
        rows = [[event, f"{n / total:.1%}"] for event, n in waits.most_common(_MOST_WAITS)]
        where = "the file's write lock" if HELD in waits or FREE in waits else _SESSIONS
        title = f"What {total:,} looks at {where} saw{tail}"
        tables.append(Table(title, ["wait event", "share"], rows))
    if samples[-1].store_bytes:
        tables.append(Table(f"The store{tail}", ["what", "how much"], _store(samples)))
    return tables


def at_work(samples: Sequence[Sample]) -> list[Sample]:
    """The seconds from the first job that ended to the last: not those of starting up."""
    ended = [one.finished for one in samples]
    grew = [at for at in range(1, len(ended)) if ended[at] > ended[at - 1]]
    return list(samples[grew[0] : grew[-1] + 1]) if grew else list(samples)


def used(samples: Sequence[Sample]) -> dict[str, Any]:
    """The same as figures."""
    if not samples:
        return {}
    return {
        "cores": {role: round(mean, 3) for role, mean in _means(samples).items()},
        "busy": round(fmean(one.busy for one in samples), 3),
        "stolen": round(fmean(one.stolen for one in samples), 3),
        "written_bytes": sum(one.written for one in samples),
        "store_bytes": samples[-1].store_bytes,
        "most_dead_rows": max(one.dead_rows for one in samples),
    }


def series(samples: Sequence[Sample]) -> dict[str, list[float]]:
    """Columns of what was seen, thinned."""
    kept = thinned(samples)
    return {
        "at_s": [one.at for one in kept],
        "depth": [one.depth for one in kept],
        "ready": [one.ready for one in kept],
        "finished": [one.finished for one in kept],
        "busy_cores": [one.busy for one in kept],
        "stolen_cores": [one.stolen for one in kept],
        "written_bytes": [one.written for one in kept],
        "store_bytes": [one.store_bytes for one in kept],
        "dead_rows": [one.dead_rows for one in kept],
    }


def thinned(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Every so many, the last among them."""
    step = -(-len(samples) // _MOST_POINTS) or 1
    return list(reversed(list(reversed(samples))[::step]))


def depth_drawing(samples: Sequence[Sample], title: str) -> Drawing:
    """How many jobs had not ended, second by second."""
    points = [(one.at, float(one.depth)) for one in thinned(samples)]
    return Drawing(title=title, x="seconds", lines=[Line(name="jobs", points=points)])


def _means(samples: Sequence[Sample]) -> dict[str, float]:
    return {
        role: fmean(one.cores.get(role, 0.0) for one in samples)
        for role in _ROLES
        if any(one.cores.get(role) for one in samples)
    }


def _cores(samples: Sequence[Sample]) -> list[list[str]]:
    rows = [[role, f"{mean:.2f}"] for role, mean in _means(samples).items()]
    everyone = fmean(one.busy for one in samples)
    stolen = fmean(one.stolen for one in samples)
    return [
        *rows,
        ["everyone on this machine", f"{everyone:.2f} of {available_cores()}"],
        ["taken away by the host", f"{stolen:.2f}"],
    ]


def _store(samples: Sequence[Sample]) -> list[list[str]]:
    first, last = samples[0], samples[-1]
    written = sum(one.written for one in samples)
    # These may be of several runs, or of the middle of one.
    per_s = written / max(sum(one.seconds for one in samples), 1.0)
    return [
        *([["log written per second", f"{per_s / _MIB:.1f} MiB"]] if written else []),
        [
            "tables, first to last",
            f"{first.store_bytes / _MIB:.0f} to {last.store_bytes / _MIB:.0f} MiB",
        ],
        ["most dead rows", f"{max(one.dead_rows for one in samples):,}"],
    ]
