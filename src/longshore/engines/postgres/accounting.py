"""Tenants, API keys and buckets."""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from longshore.core import account, bucket
from longshore.core.account import Access, ApiKey, NewKey, Tenant
from longshore.core.bucket import Borrowed, Limit
from longshore.core.view import BrokenRecord
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.holding import Row
from longshore.engines.postgres.recording import recording
from longshore.engines.postgres.sql import SQL
from longshore.errors import KeyNotFoundError, TenantInUseError, TenantNotFoundError
from longshore.runtime.decoding import RecordName, decode_each, decode_one, decode_or

__all__ = ["PostgresAccounts", "stored_tenants"]

_json = msgspec.json.Encoder()
_definition = msgspec.json.Decoder(Tenant)
_HAD_KEYS = ("had_keys", "yes")
"""What `had_keys` reads: it stays when the last key goes with its tenant."""


class PostgresAccounts:
    """What an engine knows of those who ask."""

    @property
    def _open(self) -> Database: ...

    async def put_tenant(self, tenant: Tenant, *, seen: Tenant | None = None) -> bool:
        """Create a tenant, or replace what was seen."""
        account.validate_tenant(tenant)
        database = recording(self._open, "put_tenant", tenant=tenant)
        return await database.transact(partial(_put_tenant, database.now(), tenant, seen))

    async def get_tenant(self, name: str) -> Tenant:
        """The tenant, or TenantNotFoundError."""
        return _existing(name, await self._open.fetch(SQL.tenant_get, name))

    async def tenants(self) -> list[Tenant]:
        """Every tenant, by name."""
        return account.with_default(await stored_tenants(self._open))

    async def delete_tenant(self, name: str) -> None:
        """Remove a tenant without jobs."""
        database = recording(self._open, "delete_tenant", name=name)
        await database.transact(partial(_delete_tenant, name))

    async def add_key(self, key: NewKey) -> ApiKey:
        """Store a key, once."""
        account.validate_key(key)
        database = recording(self._open, "add_key", key=key)
        return await database.transact(partial(_add_key, database.now(), key))

    async def keys(self, *, tenant: str | None = None) -> list[ApiKey]:
        """Every key, oldest first."""
        return [_key(row) for row in await self._open.fetch(SQL.keys, tenant)]

    async def had_keys(self) -> bool:
        """Whether there ever was a key."""
        (row,) = await self._open.fetch(SQL.had_keys)
        return row["had_keys"]

    async def find_access(self, key_id: str) -> Access | None:
        """A key with its tenant."""
        found = await self._open.fetch(SQL.key_get, key_id)
        return _access(found[0]) if found else None

    async def rotate_key(self, key_id: str, digest: bytes, *, grace: int) -> ApiKey:
        """Give a key a new secret."""
        change = partial(account.rotated, new=digest, grace=grace)
        database = recording(self._open, "rotate_key", key_id=key_id, grace=grace)
        return await database.transact(partial(_change_key, database.now(), key_id, change))

    async def revoke_key(self, key_id: str) -> ApiKey:
        """End a key."""
        database = recording(self._open, "revoke_key", key_id=key_id)
        body = partial(_change_key, database.now(), key_id, account.revoked)
        return await database.transact(body)

    async def note_use(self, key_ids: Sequence[str]) -> None:
        """Remember that keys were used."""
        database = self._open
        age = account.USE_NOTED_US
        await database.fetch(SQL.key_use, list(key_ids), database.now(), age)

    async def borrow(self, name: str, *, rate: float, burst: int, want: int) -> Borrowed:
        """Take tokens."""
        limit = Limit(rate, burst)
        bucket.check(limit, want)
        database = self._open
        return await database.transact(partial(_borrow, database.now(), name, limit, want))


async def stored_tenants(
    database: Database, broken: list[BrokenRecord] | None = None
) -> list[Tenant]:
    """Every tenant that was put."""
    return decode_each(await database.fetch(SQL.tenants), _tenant, _tenant_name, broken)


async def _put_tenant(
    clock: int | None, tenant: Tenant, seen: Tenant | None, connection: Connection
) -> bool:
    row = await connection.fetchrow(SQL.tenant_lock, tenant.name)
    now: int = await connection.fetchval(SQL.clock, clock)
    standing = account.unstored(tenant.name)
    if row is not None:
        standing = decode_or(None, partial(_tenant, row), _tenant_name(row))
    wanted = account.put(tenant, standing=standing, seen=seen, now=now)
    if wanted is None:
        return False
    definition = _json.encode(msgspec.structs.replace(wanted, created_at=0)).decode()
    if row is not None:
        await connection.execute(SQL.tenant_set, tenant.name, definition)
        return True
    facts = (tenant.name, definition, wanted.created_at)
    if await connection.fetchval(SQL.tenant_add, *facts) is None:
        # Someone else was first, and is to be seen by now.
        return await _put_tenant(clock, tenant, seen, connection)
    return True


async def _delete_tenant(name: str, connection: Connection) -> None:
    account.check_deletable(_existing(name, await connection.fetch(SQL.tenant_lock, name)))
    lines = await connection.fetch(SQL.counts_of_tenant, name)
    jobs = sum(line["jobs"] for line in lines)
    schedules = await connection.fetch(SQL.schedules, name)
    if jobs or schedules:
        raise TenantInUseError(name, jobs, len(schedules))
    if await connection.fetch(SQL.keys, name):
        await connection.execute(SQL.fact_put, *_HAD_KEYS)
    await connection.execute(SQL.tenant_delete, name)


async def _add_key(clock: int | None, new: NewKey, connection: Connection) -> ApiKey:
    if new.tenant is not None:
        _ = _existing(new.tenant, await connection.fetch(SQL.tenant_stay, new.tenant))
    key = account.stored(new, now=await connection.fetchval(SQL.clock, clock))
    scopes = account.write_grant(key)
    facts = (key.id, key.digest, key.tenant, scopes, key.label, key.created_at, key.expires_at)
    await connection.execute(SQL.key_add, *facts)
    await connection.execute(SQL.fact_put, *_HAD_KEYS)
    row = await connection.fetchrow(SQL.key_lock, key.id)
    if row is None:
        raise KeyNotFoundError(key.id)
    return account.known(new, _key(row))


async def _change_key(
    clock: int | None, key_id: str, change: Callable[..., ApiKey], connection: Connection
) -> ApiKey:
    row = await connection.fetchrow(SQL.key_lock, key_id)
    if row is None:
        raise KeyNotFoundError(key_id)
    key = change(_key(row), now=await connection.fetchval(SQL.clock, clock))
    changes = (key.digest, key.revoked_at, key.previous, key.previous_until)
    await connection.execute(SQL.key_set, key_id, *changes)
    return key


async def _borrow(
    clock: int | None, name: str, limit: Limit, want: int, connection: Connection
) -> Borrowed:
    row = await connection.fetchrow(SQL.bucket_hold, name, clock)
    assert row is not None
    empty_at, answer = bucket.borrow(row["empty_at"], limit, want=want, now=row["now"])
    await connection.execute(SQL.bucket_put, name, empty_at, limit.full_at(empty_at))
    return answer


def _existing(name: str, found: Sequence[Row]) -> Tenant:
    standing = account.unstored(name)
    if found:
        standing = decode_one(partial(_tenant, found[0]), RecordName("tenant", name, name))
    if standing is None:
        raise TenantNotFoundError(name)
    return standing


def _access(row: Row) -> Access:
    key = _key(row)
    if key.tenant is None:
        return Access(key, None)
    if row["definition"] is None:
        return Access(key, account.unstored(key.tenant))
    name = RecordName("tenant", key.tenant, key.tenant)
    tenant = decode_one(partial(_definition.decode, row["definition"]), name)
    return Access(key, msgspec.structs.replace(tenant, created_at=row["tenant_since"]))


def _tenant_name(row: Row) -> RecordName:
    return RecordName("tenant", row["name"], row["name"])


def _tenant(row: Row) -> Tenant:
    tenant = _definition.decode(row["definition"])
    return msgspec.structs.replace(tenant, created_at=row["created_at"])


def _key(row: Row) -> ApiKey:
    return ApiKey(
        **account.read_grant(row["scopes"])._asdict(),
        id=row["id"],
        digest=row["digest"],
        tenant=row["tenant"],
        label=row["label"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
        previous=row["previous"],
        previous_until=row["previous_until"],
    )
