"""Tenants: their documents, and what API, command line and SDK do with them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from longshore.core.account import CAPS, Tenant
from longshore.core.fair_queueing import HEAVIEST
from longshore.core.token_bucket import HIGHEST_RATE, LARGEST_BURST, LOWEST_RATE
from longshore.errors import ConfigError
from longshore.operations.fields import Name, instant
from longshore.operations.local import EngineOperations
from longshore.records import tenants

__all__ = [
    "TenantBody",
    "TenantList",
    "TenantOperations",
    "TenantPatch",
    "TenantView",
    "tenant_view",
    "with_settings",
]

Rate = Annotated[float, Meta(ge=LOWEST_RATE, le=HIGHEST_RATE)]
Burst = Annotated[int, Meta(ge=1, le=LARGEST_BURST)]
Weight = Annotated[int, Meta(ge=1, le=HEAVIEST)]
Queues = Annotated[int, Meta(ge=0, le=CAPS["max_queues"])]
Schedules = Annotated[int, Meta(ge=0, le=CAPS["max_schedules"])]
ScheduleRate = Annotated[float, Meta(ge=0, le=CAPS["max_schedule_rate"])]
Webhooks = Annotated[int, Meta(ge=0, le=CAPS["max_webhooks"])]
Keys = Annotated[int, Meta(ge=0, le=CAPS["max_keys"])]
TagsOfJob = Annotated[int, Meta(ge=0, le=CAPS["max_tags"])]
Streams = Annotated[int, Meta(ge=0, le=CAPS["max_streams"])]


class TenantBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant to create."""

    name: Name
    is_disabled: bool = False
    """Its keys are refused. Its jobs go on."""
    requires_idempotency_key: bool = False
    """Its jobs are not accepted without a key (400)."""
    rate: Rate | None = None
    """Jobs per second that it may submit; null: as many as it likes."""
    burst: Burst | None = None
    """Jobs that it may submit at once; null: what its rate brings in a second."""
    weight: Weight = 1
    """Its share of fair queues, against those of others."""
    max_queues: Queues = 1_000
    """Queues in which it may have jobs."""
    max_schedules: Schedules = 1_000
    max_schedule_rate: ScheduleRate | None = None
    """Jobs per second that its schedules may fire, all together; null: as its rate has it."""
    max_webhooks: Webhooks = 100
    max_keys: Keys = 100
    """Keys that are good: those that ended do not count."""
    max_tags: TagsOfJob = 32
    """Tags of one job."""
    max_streams: Streams | None = None
    """Streams of events that one API process keeps open for it; null: as the setting
    `api.max_tenant_streams` has it, which is never exceeded."""


class TenantPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a tenant; what is left out stays."""

    is_disabled: bool | UnsetType = UNSET
    requires_idempotency_key: bool | UnsetType = UNSET
    rate: Rate | UnsetType | None = UNSET
    burst: Burst | UnsetType | None = UNSET
    weight: Weight | UnsetType = UNSET
    """Its share of fair queues; claims heed it at once."""
    max_queues: Queues | UnsetType = UNSET
    max_schedules: Schedules | UnsetType = UNSET
    max_schedule_rate: ScheduleRate | UnsetType | None = UNSET
    max_webhooks: Webhooks | UnsetType = UNSET
    max_keys: Keys | UnsetType = UNSET
    max_tags: TagsOfJob | UnsetType = UNSET
    max_streams: Streams | UnsetType | None = UNSET


class TenantView(msgspec.Struct, frozen=True, kw_only=True):
    """One of those who share the store."""

    name: str
    is_disabled: bool
    requires_idempotency_key: bool
    rate: float | None
    burst: int | None
    weight: int
    """Its share of fair queues, against those of others."""
    max_queues: int
    max_schedules: int
    max_schedule_rate: float | None
    max_webhooks: int
    max_keys: int
    max_tags: int
    max_streams: int | None
    created_at: datetime | None
    """Null: the tenant `default`, which was always there."""


class TenantList(msgspec.Struct, frozen=True):
    """Tenants, by name."""

    tenants: list[TenantView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class TenantOperations(EngineOperations):
    """What is done with tenants on an engine.

    Settings are the fields of `POST /v1/tenants` and `PATCH /v1/tenants/{tenant}`.
    """

    async def tenants(self) -> list[TenantView]:
        """Every tenant, by name."""
        return [tenant_view(one) for one in await tenants.every(self._engine)]

    async def tenant(self, name: str) -> TenantView:
        """The tenant, or TenantNotFoundError."""
        return tenant_view(await tenants.get(self._engine, name))

    async def create_tenant(self, name: str, settings: Mapping[str, Any]) -> TenantView:
        """Create a tenant; a ConfigError when there is one of its name that is not the same."""
        wanted = with_settings(Tenant(name=name), settings)
        return tenant_view(await tenants.create(self._engine, wanted))

    async def change_tenant(self, name: str, settings: Mapping[str, Any]) -> TenantView:
        """Change these settings, or TenantNotFoundError. API processes heed it in seconds."""
        return tenant_view(
            await tenants.change(self._engine, name, lambda it: with_settings(it, settings))
        )

    async def delete_tenant(self, name: str) -> None:
        """Delete it with its keys; TenantInUseError while it has jobs or schedules."""
        await tenants.delete(self._engine, name)


def with_settings(tenant: Tenant, settings: Mapping[str, Any]) -> Tenant:
    """The tenant with these settings, which are checked when it is stored, or ConfigError."""
    if refused := sorted(settings.keys() - set(TenantPatch.__struct_fields__)):
        raise ConfigError(f"{refused[0]} is not a setting of tenants")
    return replace(tenant, **settings)


def tenant_view(it: Tenant) -> TenantView:
    """A tenant's document."""
    return TenantView(
        name=it.name,
        is_disabled=it.is_disabled,
        requires_idempotency_key=it.requires_idempotency_key,
        rate=it.rate,
        burst=it.burst,
        weight=it.weight,
        max_queues=it.max_queues,
        max_schedules=it.max_schedules,
        max_schedule_rate=it.max_schedule_rate,
        max_webhooks=it.max_webhooks,
        max_keys=it.max_keys,
        max_tags=it.max_tags,
        max_streams=it.max_streams,
        created_at=instant(it.created_at) if it.created_at else None,
    )
