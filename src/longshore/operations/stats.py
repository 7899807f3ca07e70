"""The numbers of the queue, and which types are slow: documents, and how they are made."""

from collections.abc import Sequence
from functools import cached_property

import msgspec

from longshore.contract import Engine
from longshore.core.latency import Slowness
from longshore.core.state import State
from longshore.core.view import JobFilter, QueueCounts
from longshore.operations.local import EngineOperations
from longshore.operations.rates import RatesByTenant
from longshore.slow_jobs import slowness

__all__ = ["SlowList", "Stats", "StatsOperations", "read_stats"]

_SAMPLED = 200


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is, and how fast it goes."""

    ready: int
    running: int
    scheduled: int
    succeeded: int
    dead: int
    cancelled: int
    oldest_age_s: float | None
    """How long the oldest ready job has been waiting."""
    attempts_p99: int | None
    """Starts that 99 in 100 needed at most, of the newest 200 jobs that succeeded."""
    throughput: float | None
    """Jobs that ended per second over the last minute, as far as this process was asked in it;
    null the first time."""


class SlowList(msgspec.Struct, frozen=True):
    """The slowest types first."""

    types: list[Slowness]


class StatsOperations(EngineOperations):
    """What is counted and measured of jobs on an engine."""

    async def stats(self, queue: str | None = None) -> Stats:
        """Depth, age and throughput of a queue, or of all together."""
        return await read_stats(self._engine, self._rates, self._tenant, queue)

    async def slow_types(
        self,
        *,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
        sample: int = 500,
    ) -> list[Slowness]:
        """Where the time of jobs went, the slowest types first.

        Of the newest jobs that fit, `sample` that succeeded and as many that are dead.
        """
        which = JobFilter(tenant=self._tenant, queue=queue, type=type, tag=tag)
        return await slowness(self._engine, which, sample=sample)

    @cached_property
    def _rates(self) -> RatesByTenant:
        return RatesByTenant()


async def read_stats(
    engine: Engine, rates: RatesByTenant, tenant: str | None, queue: str | None
) -> Stats:
    """Count the jobs of a queue, or of all; `rates` remembers what it was told before."""
    found = await engine.counts(tenant=tenant, may_estimate=True)
    now = await engine.now()
    rate = rates.of(tenant)
    rate.note(now, found)
    counts = [one for one in found if queue in (None, one.queue)]
    which = JobFilter(tenant=tenant, queue=queue, state=State.SUCCEEDED)
    newest = (await engine.find(which, limit=_SAMPLED)).jobs
    starts = sorted(job.attempt for job in newest)
    return Stats(
        ready=sum(one.ready for one in counts),
        running=sum(one.running for one in counts),
        scheduled=sum(one.scheduled for one in counts),
        succeeded=sum(one.succeeded for one in counts),
        dead=sum(one.dead for one in counts),
        cancelled=sum(one.cancelled for one in counts),
        oldest_age_s=_age(counts, now),
        attempts_p99=starts[(len(starts) * 99) // 100] if starts else None,
        throughput=(rate.all_together() if queue is None else rate.of(queue)).ended,
    )


def _age(counts: Sequence[QueueCounts], now: int) -> float | None:
    found = [one.oldest_ready_at for one in counts if one.oldest_ready_at is not None]
    return max(now - min(found), 0) / 1e6 if found else None
