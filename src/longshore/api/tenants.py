"""The routes of tenants and of their API keys."""

from datetime import timedelta
from typing import Any

import msgspec
from msgspec import UNSET

from longshore.api import caps
from longshore.api.encoding import encode
from longshore.api.listing import PageQuery, page
from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core.account import DEFAULT_TENANT, Grant, Scope
from longshore.errors import ConfigError
from longshore.operations.fields import Id, Name
from longshore.operations.keys import (
    KeyBody,
    KeyList,
    KeyOperations,
    KeyView,
    MintedView,
    RotateKeyBody,
    key_view,
)
from longshore.operations.tenants import (
    TenantBody,
    TenantList,
    TenantOperations,
    TenantPatch,
    TenantView,
    tenant_view,
)
from longshore.records import api_keys, tenants

__all__ = ["ROUTES"]


class TenantPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a tenant."""

    tenant: Id


class KeyPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names an API key."""

    id: Id


class KeyQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose keys; everybody's, unless given."""

    tenant: Name | None = None


async def list_tenants(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Tenants, by name."""
    found, cursor = page(
        await tenants.every(call.service.engine),
        call.query,
        lambda one: (one.name,),
        of=("tenants",),
    )
    return Answer(200, encode(TenantList([tenant_view(one) for one in found], cursor)))


async def create_tenant(call: Call[Nothing, Nothing, TenantBody]) -> Answer:
    """Create a tenant; 409 if there is one of this name that is not the same."""
    settings = msgspec.structs.asdict(call.body)
    name = settings.pop("name")
    if call.body.burst is not None and call.body.rate is None:
        raise _useless_burst()
    try:
        told = await _tenants(call).create_tenant(name, settings)
    except ConfigError:
        # What else may be wrong with a tenant, the document's own limits have kept out.
        raise ProblemError(problem("name_taken")) from None
    return Answer(201, encode(told))


async def get_tenant(call: Call[TenantPath, Nothing, Nothing]) -> Answer:
    """One tenant."""
    return Answer(200, encode(await _tenants(call).tenant(call.path.tenant)))


async def change_tenant(call: Call[TenantPath, Nothing, TenantPatch]) -> Answer:
    """Change what the body names of a tenant. It is heeded everywhere within seconds."""
    given = msgspec.structs.asdict(call.body)
    settings = {name: value for name, value in given.items() if value is not UNSET}
    try:
        told = await _tenants(call).change_tenant(call.path.tenant, settings)
    except ConfigError:
        # The only rule that is about two settings together.
        raise _useless_burst() from None
    return Answer(200, encode(told))


async def delete_tenant(call: Call[TenantPath, Nothing, Nothing]) -> Answer:
    """Delete a tenant and its keys; 409 while it has jobs or schedules."""
    if call.path.tenant == DEFAULT_TENANT:
        raise invalid("tenant", "is always there; disable it instead")
    await _tenants(call).delete_tenant(call.path.tenant)
    return Answer(204)


async def list_keys(call: Call[Nothing, KeyQuery, Nothing]) -> Answer:
    """API keys, revoked ones too. Their secrets are not stored."""
    engine, tenant = call.service.engine, call.query.tenant
    found, cursor = page(
        await api_keys.every(engine, tenant=tenant),
        call.query,
        lambda one: (one.created_at, one.id),
        of=("keys", tenant),
    )
    now = await engine.now()
    return Answer(200, encode(KeyList([key_view(one, now) for one in found], cursor)))


async def create_key(call: Call[Nothing, Nothing, KeyBody]) -> Answer:
    """Make an API key. The answer is the only place where it is ever shown."""
    body, lifetime = call.body, call.body.lifetime_seconds
    if (body.queues or body.types) and Scope.WORK not in body.scopes:
        raise invalid("/scopes", "lacks `work`, which alone has queues and types")
    await caps.check_key(call.service.engine, body.tenant)
    try:
        told = await _keys(call).create_key(
            Grant(body.scopes, body.queues, body.types),
            tenant=body.tenant,
            label=body.label,
            lifetime=None if lifetime is None else timedelta(seconds=lifetime),
        )
    except ConfigError:
        detail = "reach all tenants with `work` and `admin`: such a key has the tenant null"
        raise invalid("/scopes", detail) from None
    return Answer(201, encode(told))


async def rotate_key(call: Call[KeyPath, Nothing, RotateKeyBody]) -> Answer:
    """Give a key a new secret. The one before stays good for a while, for whoever has it."""
    grace = timedelta(seconds=call.body.grace_seconds)
    return Answer(200, encode(await _keys(call).rotate_key(call.path.id, grace=grace)))


async def revoke_key(call: Call[KeyPath, Nothing, Nothing]) -> Answer:
    """End a key for good. It is refused everywhere within seconds."""
    return Answer(200, encode(await _keys(call).revoke_key(call.path.id)))


def _tenants(call: Call[Any, Any, Any]) -> TenantOperations:
    return TenantOperations(call.service.engine)


def _keys(call: Call[Any, Any, Any]) -> KeyOperations:
    return KeyOperations(call.service.engine)


def _useless_burst() -> ProblemError:
    return invalid("/burst", "is for a tenant with a rate")


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
        body=RotateKeyBody,
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
