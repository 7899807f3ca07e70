"""Schedules: what API, command line and SDK do with them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from longshore.contract import Engine
from longshore.core import ids
from longshore.core import schedule as schedule_rules
from longshore.core.schedule import Schedule, extra_job
from longshore.core.state import State
from longshore.errors import JobNotFoundError, ScheduleNotFoundError
from longshore.operations.fields import micros
from longshore.operations.local import EngineOperations
from longshore.operations.schedule_documents import (
    Preview,
    SchedulePatch,
    ScheduleView,
    WholeSchedule,
    changed,
    due_times,
    schedule_view,
    whole_schedule,
)
from longshore.records import schedules

__all__ = [
    "ExtraJob",
    "ScheduleOperations",
    "StoredSchedule",
    "replaced",
    "store_schedules",
]


class StoredSchedule(NamedTuple):
    """A schedule that was put."""

    schedule: ScheduleView
    is_new: bool
    """There was none of this name."""


class ExtraJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a schedule submitted because someone asked, besides its due times."""

    id: str
    type: str
    queue: str
    tenant: str
    state: State
    tags: tuple[str, ...]


class ScheduleOperations(EngineOperations):
    """What is done with schedules on an engine.

    `tenant` says whose schedule is meant; None: that of the tenant for whom the engine is
    asked.
    """

    async def schedules(self) -> list[ScheduleView]:
        """Every schedule, by name."""
        found = await schedules.every(self._engine, tenant=self._tenant)
        found = sorted(found, key=lambda one: (one.name, one.tenant))
        return [schedule_view(one) for one in found]

    async def schedule(self, name: str, *, tenant: str | None = None) -> WholeSchedule:
        """The schedule with its last job and next due times, or ScheduleNotFoundError."""
        it = await schedules.get(self._engine, name, tenant or self._home)
        return whole_schedule(it, await self._last_state(it), await self._engine.now())

    async def put_schedule(self, wanted: Schedule) -> StoredSchedule:
        """Create the schedule of its tenant, or replace the one of its name.

        With the same times it keeps its place; new times count from now. A pause stays.
        """
        is_new = False

        def decide(existing: Schedule | None, now: int) -> Schedule:
            nonlocal is_new
            is_new = existing is None
            return replaced(wanted, existing, now)

        stored = await schedules.change(self._engine, wanted.name, wanted.tenant, decide)
        return StoredSchedule(schedule_view(stored), is_new)

    async def change_schedule(
        self, name: str, patch: SchedulePatch, *, tenant: str | None = None
    ) -> ScheduleView:
        """Change what the patch names of a schedule, or ScheduleNotFoundError."""
        return await self._change(name, tenant, lambda existing: changed(existing, patch))

    async def pause_schedule(self, name: str, *, tenant: str | None = None) -> ScheduleView:
        """Stop firing it. Due times that pass meanwhile are skipped."""
        return await self._change(name, tenant, lambda it: _paused(it, is_paused=True))

    async def resume_schedule(self, name: str, *, tenant: str | None = None) -> ScheduleView:
        """Fire it again, from the next due time on."""
        return await self._change(name, tenant, lambda it: _paused(it, is_paused=False))

    async def run_schedule(self, name: str, *, tenant: str | None = None) -> ExtraJob:
        """Submit one of its jobs now, besides its due times, paused or not."""
        it = await schedules.get(self._engine, name, tenant or self._home)
        job = extra_job(it, self._ids.make())
        (answer,) = await self._engine.submit([job])
        return ExtraJob(
            id=ids.text(answer.id),
            type=job.type,
            queue=job.queue,
            tenant=job.tenant,
            state=answer.state,
            tags=job.tags,
        )

    async def delete_schedule(self, name: str, *, tenant: str | None = None) -> None:
        """Remove it, or ScheduleNotFoundError. Jobs that it fired stay."""
        await schedules.delete(self._engine, name, tenant=tenant or self._home)

    async def preview_schedule(
        self,
        name: str,
        *,
        count: int = 10,
        after: datetime | None = None,
        tenant: str | None = None,
    ) -> Preview:
        """Its next due times, paused or not, from now or from `after` on."""
        it = await schedules.get(self._engine, name, tenant or self._home)
        start = await self._engine.now() if after is None else micros(after)
        return Preview(it.timezone, due_times(it, start, count))

    async def _change(
        self, name: str, tenant: str | None, changes: Callable[[Schedule], Schedule]
    ) -> ScheduleView:
        """Store what `changes` makes of the schedule, or ScheduleNotFoundError.

        It is called again when somebody else changed the schedule in the same moment.
        """

        def decide(existing: Schedule | None, now: int) -> Schedule:
            if existing is None:
                raise ScheduleNotFoundError(name)
            return schedule_rules.declared(changes(existing), now=now, existing=existing)

        stored = await schedules.change(self._engine, name, tenant or self._home, decide)
        return schedule_view(stored)

    async def _last_state(self, it: Schedule) -> State | None:
        """The state of its newest job, unless there is none any more."""
        if it.last_job is None:
            return None
        try:
            return (await self._engine.get(it.last_job)).state
        except JobNotFoundError:
            return None


async def store_schedules(engine: Engine, declared: Sequence[Schedule]) -> None:
    """Bring the engine's schedules up to these; nothing is written if they are the same.

    A schedule that someone paused stays paused, and one that is no longer declared stays: it
    may be another program's.
    """
    stored = {(one.tenant, one.name): one for one in await schedules.every(engine)}
    now = await engine.now()
    for wanted in declared:
        existing = stored.get((wanted.tenant, wanted.name))
        if existing is None or replaced(wanted, existing, now) != existing:
            await ScheduleOperations(engine).put_schedule(wanted)


def replaced(wanted: Schedule, existing: Schedule | None, now: int) -> Schedule:
    """What is stored in place of the existing schedule; a pause of that stays."""
    is_paused = wanted.is_paused or (existing is not None and existing.is_paused)
    return schedule_rules.declared(
        _paused(wanted, is_paused=is_paused), now=now, existing=existing
    )


def _paused(it: Schedule, *, is_paused: bool) -> Schedule:
    return msgspec.structs.replace(it, is_paused=is_paused)
