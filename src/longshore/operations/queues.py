"""Queues: their documents, and what API, command line and SDK do with them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from longshore.contract import Engine
from longshore.core.limit_settings import QueueFlow
from longshore.core.view import Pause, QueueCounts
from longshore.errors import QueueNotFoundError
from longshore.operations.fields import moment
from longshore.operations.local import EngineOperations
from longshore.operations.queue_settings import SettingsPatch, SettingsView, changes, view
from longshore.records import pauses, queue_settings

__all__ = [
    "PauseList",
    "QueueList",
    "QueueOperations",
    "QueuePatch",
    "QueueView",
    "counts_of",
    "queue_view",
]


class QueuePatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a queue; what is left out stays."""

    is_paused: bool | UnsetType = UNSET
    settings: SettingsPatch | UnsetType = UNSET
    """Overrides of what code declares; null takes one away."""
    declared: UnsetType | None = UNSET
    """Null drops what code once declared; a worker that still declares it does so again."""


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at a glance."""

    queue: str
    is_paused: bool
    paused_types: list[str]
    """Types of which no jobs are handed out."""
    ready: int
    parked: int
    """Of the ready ones, those that may not be taken now."""
    scheduled: int
    running: int
    """Claimed, those in a worker's buffer included."""
    buffered: int
    succeeded: int
    dead: int
    cancelled: int
    pruned: int
    """Ended, and deleted when their time was over: with the three above, what ended in all. Of
    all tenants together, so nothing where one tenant is told of."""
    oldest_ready_at: datetime | None
    is_estimate: bool
    """So many wait that ready, parked, scheduled and the oldest are estimates."""
    settings: SettingsView
    """What holds."""
    declared: SettingsView
    """What code says of the queue."""
    overridden: SettingsView
    """What an operator says, which counts before the code's word."""


class QueueList(msgspec.Struct, frozen=True):
    """Queues, by name."""

    queues: list[QueueView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class PauseList(msgspec.Struct, frozen=True):
    """Pauses, by queue and type."""

    pauses: list[Pause]
    cursor: str | None
    """Where the next page begins; null at the end."""


class QueueOperations(EngineOperations):
    """What is done with queues on an engine."""

    async def queues(self, *, may_estimate: bool = False) -> list[QueueView]:
        """Every queue that has jobs, settings or a pause, by name.

        Where very many jobs wait, `may_estimate` answers in a moment, with estimates.
        """
        engine = self._engine
        paused = await pauses.every(engine)
        known = await counts_of(engine, self._tenant, paused, may_estimate=may_estimate)
        flows = {one.queue: one for one in await queue_settings.every(engine)}
        return [
            queue_view(known[one], paused, flows.get(one, QueueFlow(one)))
            for one in sorted(known)
        ]

    async def queue(self, name: str) -> QueueView:
        """The queue, or QueueNotFoundError where there are no jobs, settings or pauses."""
        found = await self._queue(name)
        if found is None:
            raise QueueNotFoundError(name)
        return found

    async def set_queue(
        self, name: str, settings: Mapping[str, Any], *, forgets_declared: bool = False
    ) -> QueueView:
        """Override settings; None takes an override away. Workers heed it at once.

        The fields are those of `PATCH /v1/queues/{queue}`.
        """
        given = changes(settings)
        if forgets_declared:
            await queue_settings.forget(self._engine, name)
        if given:
            await queue_settings.override(self._engine, name, given)
        return await self._queue_or_empty(name)

    async def pauses(self) -> list[Pause]:
        """What is not handed out: queues, types, and types in one queue."""
        return await pauses.every(self._engine)

    async def pause_queue(self, name: str, *, type: str | None = None) -> QueueView:
        """Stop handing out its jobs, or those of one type."""
        await pauses.pause(self._engine, queue=name, type=type)
        return await self._queue_or_empty(name)

    async def resume_queue(self, name: str, *, type: str | None = None) -> QueueView:
        """Undo exactly that pause."""
        await pauses.resume(self._engine, queue=name, type=type)
        return await self._queue_or_empty(name)

    async def pause_type(self, name: str) -> None:
        """Stop handing out jobs of a type, in every queue."""
        await pauses.pause(self._engine, type=name)

    async def resume_type(self, name: str) -> None:
        """Undo the pause of a type. One in a single queue stands until it is undone there."""
        await pauses.resume(self._engine, type=name)

    async def _queue(self, name: str) -> QueueView | None:
        paused = await pauses.every(self._engine)
        counts = (await counts_of(self._engine, self._tenant, paused)).get(name)
        if counts is None:
            return None
        return queue_view(counts, paused, await queue_settings.get(self._engine, name))

    async def _queue_or_empty(self, name: str) -> QueueView:
        """The queue; an empty one where the tenant has no job in it."""
        found = await self._queue(name)
        if found is not None:
            return found
        flow = await queue_settings.get(self._engine, name)
        return queue_view(QueueCounts(queue=name), await pauses.every(self._engine), flow)


async def counts_of(
    engine: Engine,
    tenant: str | None,
    paused: Sequence[Pause],
    *,
    may_estimate: bool = False,
) -> dict[str, QueueCounts]:
    """The queues that a tenant sees, by name: those in which it has jobs.

    Whoever sees all tenants sees those that only have settings or a pause as well: their
    names may be those of other tenants' queues.
    """
    found = await engine.counts(tenant=tenant, may_estimate=may_estimate)
    if tenant is not None:
        return {one.queue: one for one in found if one.has_jobs}
    known = {one.queue: one for one in found}
    for one in paused:
        if one.queue is not None and one.queue not in known:
            known[one.queue] = QueueCounts(queue=one.queue)
    return known


def queue_view(it: QueueCounts, paused: Iterable[Pause], flow: QueueFlow) -> QueueView:
    """A queue's document."""
    paused = list(paused)
    types = {one.type for one in paused if one.type and one.queue in (None, it.queue)}
    return QueueView(
        queue=it.queue,
        is_paused=it.is_paused or Pause(it.queue, None) in paused,
        paused_types=sorted(types),
        ready=it.ready,
        parked=it.parked,
        scheduled=it.scheduled,
        running=it.running,
        buffered=it.buffered,
        succeeded=it.succeeded,
        dead=it.dead,
        cancelled=it.cancelled,
        pruned=it.pruned,
        oldest_ready_at=moment(it.oldest_ready_at),
        is_estimate=it.is_estimate,
        settings=view(flow.effective),
        declared=view(flow.declared),
        overridden=view(flow.overridden),
    )
