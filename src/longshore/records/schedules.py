"""Schedules: their definitions, and what is due."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from longshore.contract import Steward
from longshore.contract.records import ANY, Delete, Found, Kind, Put, Record, Records, Ref
from longshore.core import audit_record
from longshore.core.schedule import DueSchedule, Schedule, has_times_of, validate
from longshore.core.view import BrokenRecord
from longshore.errors import ScheduleNotFoundError
from longshore.records import access
from longshore.records.access import Change

__all__ = ["change", "delete", "due", "every", "find", "get", "put"]

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Schedule)


async def find(records: Records, name: str, tenant: str) -> Schedule | None:
    """The schedule as it is stored, if there is one."""
    (record,) = (await records.get_records([_ref(name, tenant)])).records
    return None if record is None else access.read(record, _decode)


async def get(records: Records, name: str, tenant: str) -> Schedule:
    """The schedule as it is stored, or ScheduleNotFoundError."""
    found = await find(records, name, tenant)
    if found is None:
        raise ScheduleNotFoundError(name)
    return found


async def every(
    records: Records, *, tenant: str | None = None, broken: list[BrokenRecord] | None = None
) -> list[Schedule]:
    """Every schedule, by name."""
    return await access.every(records, Kind.SCHEDULE, _decode, tenant=tenant, broken=broken)


async def put(records: Records, schedule: Schedule) -> None:
    """Create the schedule, or replace its definition and its next due time.

    What it fired before stays known.
    """
    validate(schedule)
    change = Put(
        ref=_ref(schedule.name, schedule.tenant),
        body=_body(schedule),
        expected=ANY,
        due=_due(schedule),
    )
    await access.write(records, change, audit=audit_record.schedule_put(schedule))


async def change(
    records: Records,
    name: str,
    tenant: str,
    decide: Callable[[Schedule | None, int], Schedule],
) -> Schedule:
    """Store what is decided in view of what is there at a time of the engine's clock.

    Unless the times change the next due time is left alone, so a schedule that fires meanwhile
    keeps its place, and firing is never in the way.
    """
    ref = _ref(name, tenant)
    wanted: Schedule | None = None

    def decided(found: Found) -> Change:
        nonlocal wanted
        (record,) = found.records
        existing = None if record is None else access.read_or_none(record, _decode)
        wanted = decide(existing, found.now)
        wanted = replace(wanted, next_due=_due(wanted))
        validate(wanted)
        if wanted == existing:
            return Change([])
        keeps_place = (
            existing is not None
            and wanted.next_due == existing.next_due
            # Else whoever fires it meanwhile leaves a due time that is not one of the new ones.
            and has_times_of(wanted, existing)
        )
        put = Put(
            ref=ref,
            body=_body(wanted),
            expected=0 if record is None else record.version,
            due=UNSET if keeps_place else wanted.next_due,
        )
        return Change([put], audit_record.schedule_put(wanted))

    await access.change(records, [ref], decided, f"the schedule {name!r:.80}")
    assert wanted is not None
    return wanted


async def delete(records: Records, name: str, tenant: str = "default") -> None:
    """Remove it, or ScheduleNotFoundError. Jobs it fired stay."""
    ref = _ref(name, tenant)

    def decide(found: Found) -> Change:
        if found.records == (None,):
            raise ScheduleNotFoundError(name)
        return Change([Delete(ref=ref)], audit_record.schedule_deleted(name, tenant))

    await access.change(records, [ref], decide, f"the schedule {name!r:.80}")


async def due(engine: Steward, *, limit: int) -> list[DueSchedule]:
    """Schedules whose time has come, the earliest first.

    Those that cannot be decoded stay due, and do not crowd out the others.
    """
    asked = limit
    while True:
        found = await engine.due_schedules(limit=asked)
        broken: list[BrokenRecord] = []
        schedules = access.decoded([one.record for one in found.schedules], _decode, broken)
        by_name = {(one.record.tenant, one.record.name): one for one in found.schedules}
        if len(found.schedules) < asked or len(schedules) >= limit:
            dues = [(one, by_name[one.tenant, one.name]) for one in schedules[:limit]]
            return [
                DueSchedule(one, found.now, due.is_last_job_live, due.record.version)
                for one, due in dues
            ]
        asked = limit + len(broken)


def _ref(name: str, tenant: str) -> Ref:
    return Ref(Kind.SCHEDULE, name, tenant)


def _due(schedule: Schedule) -> int | None:
    return None if schedule.is_paused else schedule.next_due


def _body(schedule: Schedule) -> bytes:
    return _encode(replace(schedule, next_due=None, last_due=None, last_job=None))


def _decode(record: Record) -> Schedule:
    return replace(
        _decoder.decode(record.body),
        name=record.name,
        tenant=record.tenant,
        next_due=record.due,
        last_due=record.last_due,
        last_job=record.last_job,
    )
