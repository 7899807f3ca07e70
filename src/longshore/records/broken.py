"""Records that are stored and cannot be decoded."""

from longshore.contract.records import Records
from longshore.core.view import BrokenRecord
from longshore.records import (
    api_keys,
    breaker_settings,
    pauses,
    queue_settings,
    schedules,
    tenants,
    webhooks,
)

__all__ = ["every"]


async def every(records: Records) -> list[BrokenRecord]:
    """Schedules, settings, pauses, tenants, keys and webhooks that cannot be decoded.

    Every list leaves such a record out, and logs a warning once; a call for this record alone
    raises BrokenRecordError. Storing it anew replaces it.
    """
    found: list[BrokenRecord] = []
    await schedules.every(records, broken=found)
    await queue_settings.every(records, found)
    await breaker_settings.every(records, found)
    await pauses.every(records, found)
    await tenants.every(records, found)
    await api_keys.every(records, broken=found)
    await webhooks.every(records, broken=found)
    return found
