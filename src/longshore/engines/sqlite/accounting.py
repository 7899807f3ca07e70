"""Tenants, API keys and buckets."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from longshore.core import account, bucket
from longshore.core.account import Access, ApiKey, NewKey, Tenant
from longshore.core.bucket import Borrowed, Limit
from longshore.core.view import BrokenRecord
from longshore.engines.sqlite.recording import recorded
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.writer import Writer
from longshore.errors import KeyNotFoundError, TenantInUseError, TenantNotFoundError
from longshore.runtime.decoding import RecordName, decode_each, decode_one, decode_or

__all__ = ["SqliteAccounts", "stored_tenants"]

T = TypeVar("T")

_json = msgspec.json.Encoder()
_definition = msgspec.json.Decoder(Tenant)
_Row = tuple[Any, ...]
_HAD_KEYS = {"name": "had_keys", "value": "yes"}
"""What `had_keys` reads: it stays when the last key goes with its tenant."""


class SqliteAccounts:
    """What an engine knows of those who ask."""

    _writer: Writer

    async def _read(self, body: Callable[[sqlite3.Connection], T]) -> T: ...

    async def put_tenant(self, tenant: Tenant, *, seen: Tenant | None = None) -> bool:
        """Create a tenant, or replace what was seen."""
        body = partial(_put_tenant, tenant, seen)
        return await self._writer.call(recorded("put_tenant", body, tenant=tenant))

    async def get_tenant(self, name: str) -> Tenant:
        """The tenant, or TenantNotFoundError."""
        return await self._read(lambda db: _existing(db, name))

    async def tenants(self) -> list[Tenant]:
        """Every tenant, by name."""
        return account.with_default(await self._read(stored_tenants))

    async def delete_tenant(self, name: str) -> None:
        """Remove a tenant without jobs."""
        body = partial(_delete_tenant, name)
        await self._writer.call(recorded("delete_tenant", body, name=name))

    async def add_key(self, key: NewKey) -> ApiKey:
        """Store a key, once."""
        account.validate_key(key)
        return await self._writer.call(recorded("add_key", partial(_add_key, key), key=key))

    async def keys(self, *, tenant: str | None = None) -> list[ApiKey]:
        """Every key, oldest first."""
        scope = {"tenant": tenant}
        return await self._read(lambda db: [_key(row) for row in db.execute(SQL.keys, scope)])

    async def had_keys(self) -> bool:
        """Whether there ever was a key."""
        return await self._read(lambda db: bool(db.execute(SQL.had_keys).fetchone()[0]))

    async def find_access(self, key_id: str) -> Access | None:
        """A key with its tenant."""
        return await self._read(lambda db: _access(db, key_id))

    async def rotate_key(self, key_id: str, digest: bytes, *, grace: int) -> ApiKey:
        """Give a key a new secret."""
        change = partial(account.rotated, new=digest, grace=grace)
        body = partial(_change_key, key_id, change)
        return await self._writer.call(recorded("rotate_key", body, key_id=key_id, grace=grace))

    async def revoke_key(self, key_id: str) -> ApiKey:
        """End a key."""
        body = partial(_change_key, key_id, account.revoked)
        return await self._writer.call(recorded("revoke_key", body, key_id=key_id))

    async def note_use(self, key_ids: Sequence[str]) -> None:
        """Remember that keys were used. A loss of power may undo it."""
        await self._writer.call(partial(_note_use, key_ids), durable=False)

    async def borrow(self, name: str, *, rate: float, burst: int, want: int) -> Borrowed:
        """Take tokens. A loss of power may give them back, long after they were of use."""
        limit = Limit(rate, burst)
        return await self._writer.call(partial(_borrow, name, limit, want), durable=False)


def stored_tenants(
    db: sqlite3.Connection, broken: list[BrokenRecord] | None = None
) -> list[Tenant]:
    """Every tenant that was put."""
    return decode_each(db.execute(SQL.tenants), _tenant, _tenant_name, broken)


def _put_tenant(tenant: Tenant, seen: Tenant | None, transaction: Transaction) -> bool:
    db = transaction.db
    row = db.execute(SQL.tenant_get, {"name": tenant.name}).fetchone()
    standing = account.unstored(tenant.name)
    if row is not None:
        standing = decode_or(None, partial(_tenant, row), _tenant_name(row))
    wanted = account.put(tenant, standing=standing, seen=seen, now=transaction.now)
    if wanted is None:
        return False
    definition = _json.encode(msgspec.structs.replace(wanted, created_at=0)).decode()
    scope = {"name": tenant.name, "definition": definition, "created_at": wanted.created_at}
    db.execute(SQL.tenant_put, scope)
    return True


def _delete_tenant(name: str, transaction: Transaction) -> None:
    db, scope = transaction.db, {"name": name}
    account.check_deletable(_existing(db, name))
    lines = db.execute(SQL.counts_of_tenant, {"tenant": name}).fetchall()
    schedules = db.execute(SQL.schedules, {"tenant": name}).fetchall()
    jobs = sum(line[2] for line in lines)
    if jobs or schedules:
        raise TenantInUseError(name, jobs, len(schedules))
    if db.execute(SQL.keys, {"tenant": name}).fetchone() is not None:
        db.execute(SQL.fact_put, _HAD_KEYS)
    db.execute(SQL.tenant_keys_delete, scope)
    db.execute(SQL.tenant_webhooks_delete, scope)
    db.execute(SQL.tenant_delete, scope)


def _add_key(new: NewKey, transaction: Transaction) -> ApiKey:
    db = transaction.db
    if new.tenant is not None:
        _ = _existing(db, new.tenant)
    known = _access(db, new.id)
    if known is not None:
        return account.known(new, known.key)
    key = account.stored(new, now=transaction.now)
    _store(db, key)
    db.execute(SQL.fact_put, _HAD_KEYS)
    return key


def _change_key(key_id: str, change: Callable[..., ApiKey], transaction: Transaction) -> ApiKey:
    found = _access(transaction.db, key_id)
    if found is None:
        raise KeyNotFoundError(key_id)
    key = change(found.key, now=transaction.now)
    _store(transaction.db, key)
    return key


def _note_use(key_ids: Sequence[str], transaction: Transaction) -> None:
    now = transaction.now
    ids = _json.encode(list(key_ids)).decode()
    scope = {"ids": ids, "now": now, "before": now - account.USE_NOTED_US}
    transaction.db.execute(SQL.key_use, scope)


def _borrow(name: str, limit: Limit, want: int, transaction: Transaction) -> Borrowed:
    db, now = transaction.db, transaction.now
    row = db.execute(SQL.bucket_get, {"name": name}).fetchone()
    empty_at, answer = bucket.borrow(row[0] if row else None, limit, want=want, now=now)
    scope = {"name": name, "empty_at": empty_at, "full_at": limit.full_at(empty_at)}
    db.execute(SQL.bucket_put, scope)
    return answer


def _standing(db: sqlite3.Connection, name: str) -> Tenant | None:
    row = db.execute(SQL.tenant_get, {"name": name}).fetchone()
    if row is None:
        return account.unstored(name)
    return decode_one(partial(_tenant, row), _tenant_name(row))


def _existing(db: sqlite3.Connection, name: str) -> Tenant:
    standing = _standing(db, name)
    if standing is None:
        raise TenantNotFoundError(name)
    return standing


def _access(db: sqlite3.Connection, key_id: str) -> Access | None:
    row = db.execute(SQL.key_get, {"id": key_id}).fetchone()
    if row is None:
        return None
    *facts, definition, since = row
    key = _key(tuple(facts))
    if key.tenant is None:
        return Access(key, None)
    if definition is None:
        return Access(key, account.unstored(key.tenant))
    stored = (definition, since, key.tenant)
    return Access(key, decode_one(partial(_tenant, stored), _tenant_name(stored)))


def _store(db: sqlite3.Connection, key: ApiKey) -> None:
    scope = {**msgspec.structs.asdict(key), "scopes": account.write_grant(key)}
    db.execute(SQL.key_put, scope)


def _tenant_name(row: _Row) -> RecordName:
    return RecordName("tenant", row[2], row[2])


def _tenant(row: _Row) -> Tenant:
    definition, created_at, _ = row
    return msgspec.structs.replace(_definition.decode(definition), created_at=created_at)


def _key(row: _Row) -> ApiKey:
    key_id, digest, tenant, scopes, label, created_at, expires_at = row[:7]
    revoked_at, last_used_at, previous, previous_until = row[7:]
    return ApiKey(
        **account.read_grant(scopes)._asdict(),
        id=key_id,
        digest=digest,
        tenant=tenant,
        label=label,
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        last_used_at=last_used_at,
        previous=previous,
        previous_until=previous_until,
    )
