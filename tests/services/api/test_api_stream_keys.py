"""Streams of events end soon after the key that opened them."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from api_steps import served
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core.account import NewKey, Scope, Tenant
from longshore.engines import open_engine
from longshore.records import api_keys, tenants
from longshore.runtime.clock import SECOND
from longshore.runtime.keys import MintedKey, mint

WITHIN = 10.0
"""Seconds in which a stream has to end: what the guide on streams promises."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def a_key(
    engine: Engine, tenant: str | None = None, *, lifetime: int | None = None
) -> MintedKey:
    minted = mint()
    await api_keys.add(
        engine,
        NewKey(
            id=minted.id,
            digest=minted.digest,
            tenant=tenant,
            scopes=(Scope.READ,),
            lifetime=lifetime,
        ),
    )
    return minted


async def follow(address: tuple[str, int], key: MintedKey | None) -> Streams:
    """A stream that has begun."""
    bearer = b"" if key is None else b"Authorization: Bearer %s\r\n" % key.text.encode()
    reader, writer = await asyncio.open_connection(*address)
    head = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    writer.write(head + bearer + b"\r\n")
    said = await asyncio.wait_for(reader.readuntil(b"\n\n"), 20)
    assert b" 200 OK" in said
    return reader, writer


async def test_a_stream_ends_within_ten_seconds_of_its_key(engine: Engine):
    for name in ("deleted", "disabled", "kept"):
        await tenants.create(engine, Tenant(name=name))
    keys = {
        "revoked": await a_key(engine),
        "rotated": await a_key(engine),
        "expired": await a_key(engine, lifetime=3 * SECOND),
        "deleted": await a_key(engine, "deleted"),
        "disabled": await a_key(engine, "disabled"),
    }
    kept = await a_key(engine, "kept")
    async with served(engine) as address:
        streams = {name: await follow(address, key) for name, key in keys.items()}
        good = await follow(address, kept)

        await api_keys.revoke(engine, keys["revoked"].id)
        await api_keys.rotate(engine, keys["rotated"].id, mint().digest, grace=0)
        await tenants.delete(engine, "deleted")
        await tenants.change(engine, "disabled", lambda it: replace(it, is_disabled=True))
        ended, open_ = await asyncio.wait(
            [
                asyncio.create_task(reader.read(), name=name)
                for name, (reader, _) in streams.items()
            ],
            timeout=WITHIN,
        )
        is_good_open = not good[0].at_eof()

        assert {one.get_name() for one in open_} == set()
        assert {one.get_name() for one in ended} == keys.keys()
        assert is_good_open
        for _, writer in (*streams.values(), good):
            writer.close()


async def test_a_tenant_that_cannot_be_decoded_keeps_no_stream_of_another_open(tmp_path: Path):
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db")
    await engine.migrate()
    for name in ("broken", "other"):
        await tenants.create(engine, Tenant(name=name))
    broken, revoked = await a_key(engine, "broken"), await a_key(engine, "other")
    async with served(engine) as address:
        _, first = await follow(address, broken)
        reader, second = await follow(address, revoked)
        with closing(sqlite3.connect(tmp_path / "jobs.db", timeout=30)) as db, db:
            where = "kind = 'tenant' and name = 'broken'"
            words = f"update longshore_record set body = '[]' where {where}"
            assert db.execute(words).rowcount
        await api_keys.revoke(engine, revoked.id)

        await asyncio.wait_for(reader.read(), WITHIN)

        first.close()
        second.close()
    await engine.close()


async def test_a_stream_without_a_key_ends_when_the_store_gets_its_first_key(memory: Engine):
    async with served(memory) as address:
        reader, writer = await follow(address, None)

        await a_key(memory)
        async with asyncio.timeout(WITHIN):
            await reader.read()
        writer.close()
