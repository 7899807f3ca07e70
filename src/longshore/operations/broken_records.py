"""Stored records that cannot be decoded: lists leave them out, and this names them."""

import msgspec

from longshore.core.view import BrokenRecord
from longshore.operations.local import EngineOperations
from longshore.records import broken

__all__ = ["BrokenRecordList", "BrokenRecordOperations"]


class BrokenRecordList(msgspec.Struct, frozen=True):
    """Records that cannot be decoded, by kind and name."""

    records: list[BrokenRecord]
    cursor: str | None
    """Where the next page begins; null at the end."""


class BrokenRecordOperations(EngineOperations):
    """What is done with broken records on an engine."""

    async def broken_records(self) -> list[BrokenRecord]:
        """Schedules, settings, tenants and webhooks that are stored and cannot be decoded."""
        return await broken.every(self._engine)
