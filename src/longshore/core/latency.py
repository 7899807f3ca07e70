"""Where the time of jobs went: into waiting or into running, by type."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from longshore.core.job import Job

__all__ = ["Slowness", "Spread", "by_type"]


class Spread(msgspec.Struct, frozen=True):
    """Seconds that half, 95 and 99 in 100 took at most."""

    p50: float
    p95: float
    p99: float


class Slowness(msgspec.Struct, frozen=True, kw_only=True):
    """How long jobs of a type on a queue waited for their last start, and how long they ran."""

    queue: str
    type: str
    jobs: int
    """How many were looked at."""
    wait: Spread
    """From when it was due to its start."""
    run: Spread
    mostly: Literal["wait", "run"]
    """Which of the two is the larger at p95."""


def by_type(jobs: Iterable[Job]) -> list[Slowness]:
    """The slowest first, by what 95 in 100 took at most from due to done."""
    lines: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for job in jobs:
        if job.started_at is not None and job.finished_at is not None:
            times = max(job.started_at - job.run_at, 0), job.finished_at - job.started_at
            lines.setdefault((job.queue, job.type), []).append(times)
    found = [_slowness(queue, type_name, times) for (queue, type_name), times in lines.items()]
    return sorted(found, key=lambda one: (-(one.wait.p95 + one.run.p95), one.queue, one.type))


def _slowness(queue: str, type_name: str, times: Sequence[tuple[int, int]]) -> Slowness:
    wait, run = (_spread(sorted(part)) for part in zip(*times, strict=True))
    return Slowness(
        queue=queue,
        type=type_name,
        jobs=len(times),
        wait=wait,
        run=run,
        mostly="wait" if wait.p95 > run.p95 else "run",
    )


def _spread(ordered: Sequence[int]) -> Spread:
    last = len(ordered) - 1
    p50, p95, p99 = (
        ordered[min(len(ordered) * share // 100, last)] / 1e6 for share in (50, 95, 99)
    )
    return Spread(p50, p95, p99)
