"""The routes of tenants and of their API keys."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore import tenancy
from longshore.api import caps
from longshore.api.fields import Name, instant, moment
from longshore.api.listing import PageQuery, page
from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.views import encode
from longshore.core.account import CAPS, DEFAULT_TENANT, ApiKey, Grant, Scope, Tenant
from longshore.core.bucket import HIGHEST_RATE, LARGEST_BURST, LOWEST_RATE
from longshore.core.fair import HEAVIEST
from longshore.errors import ConfigError

__all__ = ["ROUTES", "KeyView", "MintedView", "TenantView"]

_DAY_S = 86_400

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
TypePattern = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9_.:/@+*-]{1,128}\Z", examples=["email.*"])
]
Label = Annotated[str, Meta(max_length=200, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]


class TenantPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a tenant."""

    tenant: Name


class KeyPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names an API key."""

    id: Annotated[str, Meta(pattern=r"\A[0-9A-Za-z]{12}\Z")]


class KeyQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose keys; everybody's, unless given."""

    tenant: Name | None = None


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


class KeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API key to make."""

    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=len(Scope))]
    tenant: Name | None = DEFAULT_TENANT
    """Null: an operator's key, which stands for every tenant."""
    queues: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """With the scope `work`: the queues whose jobs it may claim; empty: any."""
    types: Annotated[tuple[TypePattern, ...], Meta(max_length=100)] = ()
    """With the scope `work`: the types of jobs that it may claim, `email.*` for all that begin
    so; empty: any."""
    label: Label = ""
    """For people, to know it by."""
    lifetime_seconds: Annotated[float, Meta(ge=1, le=315_360_000)] | None = None
    """Null: until it is revoked."""


class RotateBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to change the secret of a key."""

    grace_seconds: Annotated[float, Meta(ge=0, le=30 * _DAY_S)] = _DAY_S
    """The secret before stays good for so long."""


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
    created_at: datetime


class TenantList(msgspec.Struct, frozen=True):
    """Tenants, by name."""

    tenants: list[TenantView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of an API key; its secret is not."""

    id: str
    tenant: str | None
    """Null: an operator's, which stands for every tenant."""
    scopes: tuple[Scope, ...]
    queues: tuple[str, ...]
    """Whose jobs it may claim; empty: any."""
    types: tuple[str, ...]
    """Which types of jobs it may claim; empty: any."""
    label: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """To the minute."""
    previous_until: datetime | None
    """Until when the secret before the last rotation is good."""


class KeyList(msgspec.Struct, frozen=True):
    """API keys, oldest first."""

    keys: list[KeyView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class MintedView(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was made or rotated just now."""

    key: str
    """What to send as `Authorization: Bearer`. It is not shown again."""
    about: KeyView


async def list_tenants(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Tenants, by name."""
    found, cursor = page(
        await call.service.engine.tenants(),
        call.query,
        lambda one: (one.name,),
        of=("tenants",),
    )
    return Answer(200, encode(TenantList([_tenant(one) for one in found], cursor)))


async def create_tenant(call: Call[Nothing, Nothing, TenantBody]) -> Answer:
    """Create a tenant; 409 if there is one of this name that is not the same."""
    body = call.body
    wanted = _checked(
        Tenant(
            name=body.name,
            is_disabled=body.is_disabled,
            requires_idempotency_key=body.requires_idempotency_key,
            rate=body.rate,
            burst=body.burst,
            weight=body.weight,
            max_queues=body.max_queues,
            max_schedules=body.max_schedules,
            max_schedule_rate=body.max_schedule_rate,
            max_webhooks=body.max_webhooks,
            max_keys=body.max_keys,
            max_tags=body.max_tags,
            max_streams=body.max_streams,
        )
    )
    engine = call.service.engine
    if not await engine.put_tenant(wanted):
        raise ProblemError(problem("name_taken"))
    return Answer(201, encode(_tenant(await engine.get_tenant(body.name))))


async def get_tenant(call: Call[TenantPath, Nothing, Nothing]) -> Answer:
    """One tenant."""
    return Answer(200, encode(_tenant(await call.service.engine.get_tenant(call.path.tenant))))


async def change_tenant(call: Call[TenantPath, Nothing, TenantPatch]) -> Answer:
    """Change what the body names of a tenant. It is heeded everywhere within seconds."""
    given = {
        field: value
        for field in TenantPatch.__struct_fields__
        if (value := getattr(call.body, field)) is not UNSET
    }
    changed = await tenancy.change(
        call.service.engine,
        call.path.tenant,
        lambda seen: _checked(msgspec.structs.replace(seen, **given)),
    )
    return Answer(200, encode(_tenant(changed)))


async def delete_tenant(call: Call[TenantPath, Nothing, Nothing]) -> Answer:
    """Delete a tenant and its keys; 409 while it has jobs or schedules."""
    if call.path.tenant == DEFAULT_TENANT:
        raise ProblemError(problem("tenant_in_use", "The tenant `default` is always there."))
    await call.service.engine.delete_tenant(call.path.tenant)
    return Answer(204)


async def list_keys(call: Call[Nothing, KeyQuery, Nothing]) -> Answer:
    """API keys, revoked ones too. Their secrets are not stored."""
    tenant = call.query.tenant
    found, cursor = page(
        await call.service.engine.keys(tenant=tenant),
        call.query,
        lambda one: (one.created_at, one.id),
        of=("keys", tenant),
    )
    return Answer(200, encode(KeyList([_key(one) for one in found], cursor)))


async def create_key(call: Call[Nothing, Nothing, KeyBody]) -> Answer:
    """Make an API key. The answer is the only place where it is ever shown."""
    body, lifetime = call.body, call.body.lifetime_seconds
    if (body.queues or body.types) and Scope.WORK not in body.scopes:
        raise invalid("/scopes", "lacks `work`, which alone has queues and types")
    await caps.check_key(call.service.engine, body.tenant)
    try:
        minted, stored = await tenancy.make_key(
            call.service.engine,
            tenant=body.tenant,
            grant=Grant(body.scopes, body.queues, body.types),
            label=body.label,
            lifetime=None if lifetime is None else round(lifetime * 1e6),
        )
    except ConfigError:
        detail = "reach all tenants with `work` and `admin`: such a key has the tenant null"
        raise invalid("/scopes", detail) from None
    return Answer(201, encode(MintedView(key=minted.text, about=_key(stored))))


async def rotate_key(call: Call[KeyPath, Nothing, RotateBody]) -> Answer:
    """Give a key a new secret. The one before stays good for a while, for whoever has it."""
    grace = round(call.body.grace_seconds * 1e6)
    minted, stored = await tenancy.rotate_key(call.service.engine, call.path.id, grace=grace)
    return Answer(200, encode(MintedView(key=minted.text, about=_key(stored))))


async def revoke_key(call: Call[KeyPath, Nothing, Nothing]) -> Answer:
    """End a key for good. It is refused everywhere within seconds."""
    return Answer(200, encode(_key(await call.service.engine.revoke_key(call.path.id))))


def _checked(tenant: Tenant) -> Tenant:
    if tenant.burst is not None and tenant.rate is None:
        raise invalid("/burst", "is for a tenant with a rate")
    return tenant


def _tenant(it: Tenant) -> TenantView:
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
        created_at=instant(it.created_at),
    )


def _key(it: ApiKey) -> KeyView:
    return KeyView(
        id=it.id,
        tenant=it.tenant,
        scopes=it.scopes,
        queues=it.queues,
        types=it.types,
        label=it.label,
        created_at=instant(it.created_at),
        expires_at=moment(it.expires_at),
        revoked_at=moment(it.revoked_at),
        last_used_at=moment(it.last_used_at),
        previous_until=moment(it.previous_until),
    )


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/tenants",
        name="listTenants",
        handler=list_tenants,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        query=PageQuery,
        answers={200: TenantList},
        problems=("cursor",),
    ),
    Route(
        method="POST",
        path="/v1/tenants",
        name="createTenant",
        handler=create_tenant,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        body=TenantBody,
        problems=("name_taken",),
        answers={201: TenantView},
    ),
    Route(
        method="GET",
        path="/v1/tenants/{tenant}",
        name="getTenant",
        handler=get_tenant,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        parameters=TenantPath,
        problems=("tenant_not_found",),
        answers={200: TenantView},
    ),
    Route(
        method="PATCH",
        path="/v1/tenants/{tenant}",
        name="changeTenant",
        handler=change_tenant,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        parameters=TenantPath,
        body=TenantPatch,
        problems=("tenant_not_found",),
        answers={200: TenantView},
    ),
    Route(
        method="DELETE",
        path="/v1/tenants/{tenant}",
        name="deleteTenant",
        handler=delete_tenant,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        parameters=TenantPath,
        problems=("tenant_not_found", "tenant_in_use"),
        answers={204: None},
    ),
    Route(
        method="GET",
        path="/v1/keys",
        name="listKeys",
        handler=list_keys,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        query=KeyQuery,
        answers={200: KeyList},
        problems=("cursor",),
    ),
    Route(
        method="POST",
        path="/v1/keys",
        name="createKey",
        handler=create_key,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        body=KeyBody,
        problems=("tenant_not_found", "cap_reached"),
        answers={201: MintedView},
    ),
    Route(
        method="POST",
        path="/v1/keys/{id}:rotate",
        name="rotateKey",
        handler=rotate_key,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        parameters=KeyPath,
        body=RotateBody,
        is_body_required=False,
        problems=("key_not_found", "key_ended"),
        answers={200: MintedView},
    ),
    Route(
        method="DELETE",
        path="/v1/keys/{id}",
        name="revokeKey",
        handler=revoke_key,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        parameters=KeyPath,
        problems=("key_not_found",),
        answers={200: KeyView},
    ),
)
