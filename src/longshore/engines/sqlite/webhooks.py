"""Webhook endpoints."""

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from longshore.core import account, door, webhook
from longshore.core.door import Door, Refusal
from longshore.core.view import BrokenRecord
from longshore.core.webhook import Endpoint
from longshore.engines.sqlite.recording import recorded
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.writer import Writer
from longshore.errors import TenantNotFoundError, WebhookNotFoundError
from longshore.runtime.decoding import RecordName, decode_each, decode_one, decode_or

__all__ = ["SqliteEndpoints", "stored_webhooks"]

T = TypeVar("T")

_Row = tuple[str, int, str, str]
_json = msgspec.json.Encoder()
_definition = msgspec.json.Decoder(Endpoint)
_door = msgspec.json.Decoder(Door)


class SqliteEndpoints:
    """Where tenants want to hear of what happens."""

    _writer: Writer

    async def _read(self, body: Callable[[sqlite3.Connection], T]) -> T: ...

    async def put_webhook(self, endpoint: Endpoint, *, seen: Endpoint | None = None) -> bool:
        """Create an endpoint, or replace what was seen."""
        webhook.validate(endpoint)
        body = partial(_put, endpoint, seen)
        order = {"endpoint": endpoint, "seen": seen}
        return await self._writer.call(recorded("put_webhook", body, **order))

    async def get_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> Endpoint:
        """The endpoint, or WebhookNotFoundError."""
        found = await self._read(lambda db: _get(db, endpoint_id, tenant))
        if found is None:
            raise WebhookNotFoundError(endpoint_id)
        return found

    async def webhooks(self, *, tenant: str | None = None) -> list[Endpoint]:
        """Every endpoint, oldest first."""
        return await self._read(lambda db: stored_webhooks(db, tenant))

    async def delete_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> None:
        """Remove an endpoint."""
        body = partial(_delete, endpoint_id, tenant)
        order = {"endpoint_id": endpoint_id, "tenant": tenant}
        await self._writer.call(recorded("delete_webhook", body, **order))

    async def enter_webhook(
        self, endpoint_id: str, holder: str, *, most: int, lease: int
    ) -> Refusal | None:
        """Let a delivery go to an endpoint. A loss of power may undo it."""
        body = partial(_enter, endpoint_id, holder, most, lease)
        return await self._writer.call(body, durable=False)

    async def leave_webhook(
        self, endpoint_id: str, holder: str, *, is_success: bool | None
    ) -> None:
        """Give the place back, and tell how it went."""
        body = partial(_leave, endpoint_id, holder, is_success)
        await self._writer.call(body, durable=False)


def stored_webhooks(
    db: sqlite3.Connection, tenant: str | None, broken: list[BrokenRecord] | None = None
) -> list[Endpoint]:
    """Every endpoint, oldest first."""
    found = db.execute(SQL.webhooks, {"tenant": tenant})
    return decode_each(found, _endpoint, _name, broken)


def _put(endpoint: Endpoint, seen: Endpoint | None, transaction: Transaction) -> bool:
    db = transaction.db
    stored = db.execute(SQL.webhook_get, {"id": endpoint.id, "tenant": None}).fetchone()
    standing = None
    if stored is not None:
        standing = decode_or(None, partial(_endpoint, stored), _name(stored))
    wanted = webhook.put(endpoint, standing=standing, seen=seen, now=transaction.now)
    if wanted is None:
        return False
    row = db.execute(SQL.tenant_get, {"name": endpoint.tenant}).fetchone()
    if row is None and account.unstored(endpoint.tenant) is None:
        raise TenantNotFoundError(endpoint.tenant)
    scope = {
        "id": wanted.id,
        "tenant": wanted.tenant,
        "created_at": wanted.created_at,
        "definition": _json.encode(wanted).decode(),
    }
    db.execute(SQL.webhook_put, scope)
    return True


def _delete(endpoint_id: str, tenant: str | None, transaction: Transaction) -> None:
    scope = {"id": endpoint_id, "tenant": tenant}
    if transaction.db.execute(SQL.webhook_delete, scope).rowcount == 0:
        raise WebhookNotFoundError(endpoint_id)


def _enter(
    endpoint_id: str, holder: str, most: int, lease: int, transaction: Transaction
) -> Refusal | None:
    standing = _door_of(transaction.db, endpoint_id)
    if standing is None:
        raise WebhookNotFoundError(endpoint_id)
    behind, refusal = door.enter(standing, holder, most=most, lease=lease, now=transaction.now)
    if refusal is None:
        _put_door(transaction.db, endpoint_id, behind)
    return refusal


def _leave(
    endpoint_id: str, holder: str, is_success: bool | None, transaction: Transaction
) -> None:
    standing = _door_of(transaction.db, endpoint_id)
    if standing is not None:
        behind = door.leave(standing, holder, is_success=is_success, now=transaction.now)
        _put_door(transaction.db, endpoint_id, behind)


def _door_of(db: sqlite3.Connection, endpoint_id: str) -> Door | None:
    row = db.execute(SQL.webhook_door, {"id": endpoint_id}).fetchone()
    if row is None:
        return None
    name = RecordName("webhook's door", endpoint_id)
    return decode_or(Door(), partial(_door.decode, row[0]), name)


def _put_door(db: sqlite3.Connection, endpoint_id: str, behind: Door) -> None:
    scope = {"id": endpoint_id, "door": _json.encode(behind).decode()}
    db.execute(SQL.webhook_door_put, scope)


def _get(db: sqlite3.Connection, endpoint_id: str, tenant: str | None) -> Endpoint | None:
    row = db.execute(SQL.webhook_get, {"id": endpoint_id, "tenant": tenant}).fetchone()
    return None if row is None else decode_one(partial(_endpoint, row), _name(row))


def _name(row: _Row) -> RecordName:
    return RecordName("webhook", row[2], row[3])


def _endpoint(row: _Row) -> Endpoint:
    definition, created_at, *_ = row
    found = _definition.decode(definition)
    return msgspec.structs.replace(found, created_at=created_at)
