"""Settings in two layers, in one record: what code declares, and what operators override."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar, cast

from msgspec.structs import replace

from longshore.contract.records import Delete, Found, Kind, Put, Record, Records, Ref
from longshore.core import limit_settings
from longshore.core.audit_record import AuditRecord
from longshore.core.limit_settings import (
    BreakerFlow,
    BreakerSettings,
    Layer,
    QueueFlow,
    QueueSettings,
)
from longshore.core.view import BrokenRecord
from longshore.errors import ConfigError
from longshore.records import access
from longshore.records.access import Change

__all__ = ["Layered"]

Flow = TypeVar("Flow", QueueFlow, BreakerFlow)
Settings = TypeVar("Settings", QueueSettings, BreakerSettings)


class Layered(Generic[Flow, Settings]):
    """Settings of one kind, each under a name."""

    def __init__(
        self,
        kind: Kind,
        *,
        decode: Callable[[int, Record], Flow],
        nothing: Callable[[str], Flow],
        silent: Settings,
        useless: Callable[[Settings, Mapping[str, object]], str | None],
        audit: Callable[[str, Layer, Settings], AuditRecord],
    ) -> None:
        """`decode` reads a record at a time of the engine's clock.

        `nothing` is what stands where there is no record, `silent` the settings that say
        nothing, and `useless` tells what is wrong with changes that leave settings without
        effect.
        """
        self._kind = kind
        self._decode = decode
        self._nothing = nothing
        self._silent: Settings = silent
        self._useless = useless
        self._audit = audit

    async def every(
        self, records: Records, broken: list[BrokenRecord] | None = None
    ) -> list[Flow]:
        """All of which something is said, by name."""
        found = await access.listed(records, self._kind)
        return access.decoded(found.records, partial(self._decode, found.now), broken)

    async def get(self, records: Records, name: str) -> Flow:
        """All that is said of one, which may be nothing."""
        ref = Ref(self._kind, name)
        found = await records.get_records([ref])
        return self._standing(ref, found.records[0], found.now)

    async def put(self, records: Records, name: str, layer: Layer, settings: Settings) -> None:
        """Replace a layer of what is said of one; settings that say nothing remove it."""
        await self._change(records, name, layer, lambda _: settings)

    async def override(
        self, records: Records, name: str, changes: Mapping[str, object]
    ) -> None:
        """Override some settings of one; None lets what is declared hold again."""

        def wanted(seen: Flow) -> Settings:
            settings = cast("Settings", replace(cast("Any", seen.overridden), **changes))
            effective = replace(cast("Any", seen), overridden=settings).effective
            if fault := self._useless(effective, changes):
                raise ConfigError(fault)
            return settings

        await self._change(records, name, Layer.OVERRIDDEN, wanted)

    async def declare(self, records: Records, wanted: Mapping[str, Settings]) -> None:
        """Let this be what code says of these. Reads once, and writes only what differs."""
        refs = [Ref(self._kind, name) for name in wanted]
        found = await records.get_records(refs)
        for ref, record in zip(refs, found.records, strict=True):
            if self._standing(ref, record, found.now).declared != wanted[ref.name]:
                await self.put(records, ref.name, Layer.DECLARED, wanted[ref.name])

    async def forget(self, records: Records, name: str) -> None:
        """Drop what code once declared of one; a worker that still does declares it again."""
        await self.put(records, name, Layer.DECLARED, self._silent)

    async def _change(
        self, records: Records, name: str, layer: Layer, wanted: Callable[[Flow], Settings]
    ) -> None:
        """Replace a layer by what is wanted in view of both.

        When neither says anything any more, the record is deleted.
        """
        ref = Ref(self._kind, name)

        def decide(found: Found) -> Change:
            (record,) = found.records
            before = self._standing(ref, record, found.now)
            settings = wanted(before)
            limit_settings.validate(name, settings)
            audit = self._audit(name, layer, settings)
            after = replace(before, **{layer.value: settings})
            version = 0 if record is None else record.version
            if not limit_settings.said(after.declared) and not limit_settings.said(
                after.overridden
            ):
                return Change([Delete(ref=ref, expected=version)], audit)
            body = limit_settings.write_body(after)
            return Change([Put(ref=ref, body=body, expected=version)], audit)

        await access.change(records, [ref], decide, f"the {ref.kind} {name!r}")

    def _standing(self, ref: Ref, record: Record | None, now: int) -> Flow:
        found = access.read_or_none(record, partial(self._decode, now))
        return found or self._nothing(ref.name)
