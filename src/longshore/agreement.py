"""Schedules as they are stored, and changed in agreement with whoever else changes them."""

from collections.abc import Callable

import msgspec

from longshore.core.schedule import Schedule, declared
from longshore.engine import Engine
from longshore.errors import EngineBusyError, ScheduleNotFoundError

__all__ = ["change", "find", "get", "put", "replaced", "set_paused"]

_TRIES = 20
"""A schedule that fires ten times a second leaves room for many more."""


async def find(engine: Engine, name: str, tenant: str) -> Schedule | None:
    """The stored schedule, if there is one."""
    known = await engine.schedules(tenant=tenant)
    return next((one for one in known if one.name == name), None)


async def get(engine: Engine, name: str, tenant: str) -> Schedule:
    """The stored schedule, or ScheduleNotFoundError."""
    schedule = await find(engine, name, tenant)
    if schedule is None:
        raise ScheduleNotFoundError(name)
    return schedule


async def put(engine: Engine, wanted: Schedule) -> Schedule:
    """Store it in place of the one of its name, if there is one; a pause of that stays."""

    def decide(existing: Schedule | None, now: int) -> Schedule:
        return replaced(wanted, existing, now)

    return await _agreed(engine, wanted.name, wanted.tenant, decide)


async def change(
    engine: Engine, name: str, tenant: str, changes: Callable[[Schedule], Schedule]
) -> Schedule:
    """Store what `changes` makes of the schedule, or ScheduleNotFoundError.

    It is called again when somebody else changed the schedule in the same moment.
    """

    def decide(existing: Schedule | None, now: int) -> Schedule:
        if existing is None:
            raise ScheduleNotFoundError(name)
        return declared(changes(existing), now=now, existing=existing)

    return await _agreed(engine, name, tenant, decide)


async def set_paused(engine: Engine, name: str, tenant: str, *, is_paused: bool) -> Schedule:
    """Pause or resume the stored schedule, or ScheduleNotFoundError."""

    def changes(existing: Schedule) -> Schedule:
        return msgspec.structs.replace(existing, is_paused=is_paused)

    return await change(engine, name, tenant, changes)


def replaced(wanted: Schedule, existing: Schedule | None, now: int) -> Schedule:
    """What `put` would store in place of the existing one; a pause of that stays."""
    is_paused = wanted.is_paused or (existing is not None and existing.is_paused)
    wanted = msgspec.structs.replace(wanted, is_paused=is_paused)
    return declared(wanted, now=now, existing=existing)


async def _agreed(
    engine: Engine, name: str, tenant: str, decide: Callable[[Schedule | None, int], Schedule]
) -> Schedule:
    """Store what is decided in view of what is there, and still is when it is stored.

    Between the two the schedule may fire, be paused, or be changed by another process.
    """
    for _ in range(_TRIES):
        existing = await find(engine, name, tenant)
        wanted = decide(existing, await engine.now())
        if wanted == existing or await engine.put_schedule(wanted, seen=existing):
            return wanted
    raise EngineBusyError(f"schedule {name!r:.80} changes too often to be changed; try again")
