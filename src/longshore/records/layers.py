"""Settings in two layers, in one record: what code declares, and what operators override."""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from longshore.contract.records import Delete, Found, Put, Record, Records, Ref
from longshore.core import flow
from longshore.core.audit_record import AuditRecord
from longshore.core.flow import (
    BreakerFlow,
    BreakerSettings,
    Layer,
    QueueFlow,
    QueueSettings,
)
from longshore.records import access
from longshore.records.access import Change

__all__ = ["put"]

Flow = TypeVar("Flow", QueueFlow, BreakerFlow)
Settings = TypeVar("Settings", QueueSettings, BreakerSettings)


async def put(
    records: Records,
    ref: Ref,
    layer: Layer,
    *,
    standing: Callable[[Record | None, int], Flow],
    wanted: Callable[[Flow], Settings],
    audit: Callable[[Settings], AuditRecord],
) -> None:
    """Replace a layer by what is wanted in view of both.

    When neither says anything any more, the record is deleted. `standing` decodes it at a time
    of the engine's clock.
    """

    def decide(found: Found) -> Change:
        (record,) = found.records
        before = standing(record, found.now)
        settings = wanted(before)
        flow.validate(ref.name, settings)
        after = replace(before, **{layer.value: settings})
        version = 0 if record is None else record.version
        if not flow.said(after.declared) and not flow.said(after.overridden):
            return Change([Delete(ref=ref, expected=version)], audit(settings))
        body = flow.write_body(after)
        return Change([Put(ref=ref, body=body, expected=version)], audit(settings))

    await access.change(records, [ref], decide, f"the {ref.kind} {ref.name!r}")
