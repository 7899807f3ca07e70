"""Webhook endpoints."""

from functools import partial

import msgspec

from longshore.core import account, door, webhook
from longshore.core.door import Door, Refusal
from longshore.core.view import BrokenRecord
from longshore.core.webhook import Endpoint
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.holding import Row
from longshore.engines.postgres.recording import recording
from longshore.engines.postgres.sql import SQL
from longshore.errors import TenantNotFoundError, WebhookNotFoundError
from longshore.runtime.decoding import RecordName, decode_each, decode_one, decode_or

__all__ = ["PostgresEndpoints", "stored_webhooks"]

_json = msgspec.json.Encoder()
_definition = msgspec.json.Decoder(Endpoint)
_door = msgspec.json.Decoder(Door)
_TRIES = 20
"""Of a door at which others come and go. A place that is not given back lapses."""


class PostgresEndpoints:
    """Where tenants want to hear of what happens."""

    @property
    def _open(self) -> Database: ...

    async def put_webhook(self, endpoint: Endpoint, *, seen: Endpoint | None = None) -> bool:
        """Create an endpoint, or replace what was seen."""
        webhook.validate(endpoint)
        database = recording(self._open, "put_webhook", endpoint=endpoint, seen=seen)
        return await database.transact(partial(_put, database.now(), endpoint, seen))

    async def get_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> Endpoint:
        """The endpoint, or WebhookNotFoundError."""
        found = await self._open.fetch(SQL.webhook_get, endpoint_id, tenant)
        if not found:
            raise WebhookNotFoundError(endpoint_id)
        return decode_one(partial(_endpoint, found[0]), _name(found[0]))

    async def webhooks(self, *, tenant: str | None = None) -> list[Endpoint]:
        """Every endpoint, oldest first."""
        return await stored_webhooks(self._open, tenant)

    async def delete_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> None:
        """Remove an endpoint."""
        order = {"endpoint_id": endpoint_id, "tenant": tenant}
        database = recording(self._open, "delete_webhook", **order)
        if not await database.fetch(SQL.webhook_delete, endpoint_id, tenant):
            raise WebhookNotFoundError(endpoint_id)

    async def enter_webhook(
        self, endpoint_id: str, holder: str, *, most: int, lease: int
    ) -> Refusal | None:
        """Let a delivery go to an endpoint."""
        for _ in range(_TRIES):
            seen, now = await self._door(endpoint_id)
            standing = _decoded_door(endpoint_id, seen)
            behind, refusal = door.enter(standing, holder, most=most, lease=lease, now=now)
            if refusal is not None:
                return refusal
            if await self._put_door(endpoint_id, behind, seen):
                return None
        return Refusal()

    async def leave_webhook(
        self, endpoint_id: str, holder: str, *, is_success: bool | None
    ) -> None:
        """Give the place back, and tell how it went."""
        for _ in range(_TRIES):
            try:
                seen, now = await self._door(endpoint_id)
            except WebhookNotFoundError:
                return
            standing = _decoded_door(endpoint_id, seen)
            behind = door.leave(standing, holder, is_success=is_success, now=now)
            if await self._put_door(endpoint_id, behind, seen):
                return

    async def _door(self, endpoint_id: str) -> tuple[str, int]:
        found = await self._open.fetch(SQL.webhook_door, endpoint_id, self._open.now())
        if not found:
            raise WebhookNotFoundError(endpoint_id)
        return found[0]["door"], found[0]["now"]

    async def _put_door(self, endpoint_id: str, behind: Door, seen: str) -> bool:
        text = _json.encode(behind).decode()
        return bool(await self._open.fetch(SQL.webhook_door_set, endpoint_id, text, seen))


async def stored_webhooks(
    database: Database, tenant: str | None, broken: list[BrokenRecord] | None = None
) -> list[Endpoint]:
    """Every endpoint, oldest first."""
    return decode_each(await database.fetch(SQL.webhooks, tenant), _endpoint, _name, broken)


async def _put(
    clock: int | None, endpoint: Endpoint, seen: Endpoint | None, connection: Connection
) -> bool:
    # The tenant stays while this is under way: one that goes takes its endpoints along.
    row = await connection.fetchrow(SQL.tenant_stay, endpoint.tenant)
    if row is None and account.unstored(endpoint.tenant) is None:
        raise TenantNotFoundError(endpoint.tenant)
    row = await connection.fetchrow(SQL.webhook_lock, endpoint.id)
    now: int = await connection.fetchval(SQL.clock, clock)
    standing = None
    if row is not None:
        standing = decode_or(None, partial(_endpoint, row), _name(row))
    wanted = webhook.put(endpoint, standing=standing, seen=seen, now=now)
    if wanted is None:
        return False
    definition = _json.encode(wanted).decode()
    if row is not None:
        await connection.execute(SQL.webhook_set, wanted.id, definition)
        return True
    facts = (wanted.id, wanted.tenant, wanted.created_at, definition)
    if await connection.fetchval(SQL.webhook_add, *facts) is None:
        # Someone else was first, and is to be seen by now.
        return await _put(clock, endpoint, seen, connection)
    return True


def _decoded_door(endpoint_id: str, text: str) -> Door:
    """How the door stands; open, where that cannot be decoded."""
    name = RecordName("webhook's door", endpoint_id)
    return decode_or(Door(), partial(_door.decode, text), name)


def _name(row: Row) -> RecordName:
    return RecordName("webhook", row["id"], row["tenant"])


def _endpoint(row: Row) -> Endpoint:
    found = _definition.decode(row["definition"])
    return msgspec.structs.replace(found, created_at=row["created_at"])
