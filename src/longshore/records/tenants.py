"""Tenants: who shares the store, and what each may take of it."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from longshore.contract.records import Delete, Found, Kind, Put, Record, Records, Ref
from longshore.core import account, audit_record
from longshore.core.account import Tenant
from longshore.core.view import BrokenRecord
from longshore.errors import ConfigError, TenantNotFoundError
from longshore.records import access
from longshore.records.access import Change

__all__ = ["change", "create", "decode", "delete", "every", "get"]

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Tenant)


def decode(record: Record) -> Tenant:
    """The tenant of a record."""
    it = _decoder.decode(record.body)
    return replace(it, name=record.name, created_at=record.created_at)


async def get(records: Records, name: str) -> Tenant:
    """The tenant, or TenantNotFoundError."""
    (record,) = (await records.get_records([_ref(name)])).records
    if record is None:
        raise TenantNotFoundError(name)
    return access.read(record, decode)


async def every(records: Records, broken: list[BrokenRecord] | None = None) -> list[Tenant]:
    """Every tenant, by name."""
    return await access.every(records, Kind.TENANT, decode, broken=broken)


async def create(records: Records, tenant: Tenant) -> Tenant:
    """Create the tenant; a ConfigError when there is another of its name.

    Creating one that stands as it is wanted is harmless.
    """
    account.validate_tenant(tenant)

    def decide(found: Found) -> Change:
        (record,) = found.records
        if record is None:
            return Change([_put(tenant, 0)], audit_record.tenant_put(tenant))
        standing = access.read_or_none(record, decode)
        if standing is None:
            # One that cannot be decoded is replaced.
            return Change([_put(tenant, record.version)], audit_record.tenant_put(tenant))
        if replace(standing, created_at=0) != replace(tenant, created_at=0):
            raise ConfigError(f"there is a tenant {tenant.name!r} already; change it instead")
        return Change([])

    await access.change(records, [_ref(tenant.name)], decide, f"the tenant {tenant.name!r}")
    return await get(records, tenant.name)


async def change(records: Records, name: str, changes: Callable[[Tenant], Tenant]) -> Tenant:
    """Store what `changes` makes of the tenant, or TenantNotFoundError.

    It is called again when somebody else changed the tenant in the same moment.
    """

    def decide(found: Found) -> Change:
        (record,) = found.records
        if record is None:
            raise TenantNotFoundError(name)
        standing = access.read(record, decode)
        wanted = changes(standing)
        account.validate_tenant(wanted)
        if wanted == standing:
            return Change([])
        return Change([_put(wanted, record.version)], audit_record.tenant_put(wanted))

    await access.change(records, [_ref(name)], decide, f"the tenant {name!r}")
    return await get(records, name)


async def delete(records: Records, name: str) -> None:
    """Remove it with its keys and webhooks, or TenantNotFoundError.

    TenantInUseError while any job of it is kept, finished or not, or a schedule: nobody who
    takes its name later shall find them. The tenant `default` stays: ConfigError.
    """
    account.check_deletable(name)
    (record,) = (await records.get_records([_ref(name)])).records
    if record is None:
        raise TenantNotFoundError(name)
    await access.write(records, Delete(ref=_ref(name)), audit=audit_record.tenant_deleted(name))


def _ref(name: str) -> Ref:
    return Ref(Kind.TENANT, name)


def _put(tenant: Tenant, expected: int) -> Put:
    body = _encode(replace(tenant, created_at=0))
    return Put(ref=_ref(tenant.name), body=body, expected=expected)
