"""What the scheduler asks for. Safe in any number of processes at once."""

import msgspec

from longshore.contract.records import Record

__all__ = ["DueRecord", "DueSchedules"]


class DueRecord(msgspec.Struct, frozen=True):
    """A schedule whose time has come."""

    record: Record
    is_last_job_live: bool


class DueSchedules(msgspec.Struct, frozen=True):
    """Schedules whose time has come, the earliest first."""

    now: int
    """The engine's clock."""
    schedules: list[DueRecord]
