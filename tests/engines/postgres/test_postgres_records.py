"""Writes of records beside each other: none waits in a circle, no key is without its tenant."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from calls import until

from longshore.contract.records import ANY, Delete, Kind, Put, RecordFilter, Ref
from longshore.core.audit_record import AuditRecord
from longshore.engines import open_engine
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.engine import PostgresEngine
from longshore.engines.postgres.sql import SQL
from longshore.errors import CapReachedError, TenantInUseError, TenantNotFoundError

WAITING = """
    select count(*) from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'
       and pg_stat_clear_snapshot() is not null
"""
ORPHANS = """
    select count(*) from longshore.record r
     where r.kind in ('key', 'webhook') and r.tenant <> '' and not exists (
           select from longshore.record t where t.kind = 'tenant' and t.name = r.tenant)
"""
ADD = """
    insert into longshore.record (kind, name, tenant, body, created_at, changed_at, is_unique)
    values ('key', 'k1', 'acme', '{}', 1, 1, true)
"""
ACME, KEY = Ref(Kind.TENANT, "acme"), Ref(Kind.KEY, "k1", "acme")


def put(ref: Ref, body: bytes = b"{}", expected: int = 0, most: int | None = None) -> Put:
    if ref.kind is Kind.TENANT:
        body = b'{"name":"%s"}' % ref.name.encode()
    return Put(ref=ref, body=body, expected=expected, most=most)


@pytest.fixture
async def patient(empty_postgres_url: str, other: Connection) -> AsyncIterator[PostgresEngine]:
    """Its server never breaks a circle, so that a call in one does not end."""
    name = await other.fetchval("select quote_ident(current_database())")
    await other.execute(f"alter database {name} set deadlock_timeout = '10min'")
    engine = open_engine(empty_postgres_url)
    assert isinstance(engine, PostgresEngine)
    yield engine
    await engine.close()
    await other.execute(f"alter database {name} reset deadlock_timeout")


@pytest.mark.parametrize("is_steady", [True, False], ids=["all stand", "they come and go"])
async def test_writes_of_several_records_never_wait_in_a_circle(
    patient: PostgresEngine, is_steady: bool
) -> None:
    rng = random.Random(7)
    tenants = [Ref(Kind.TENANT, name) for name in ("acme", "other")]
    owned = [
        Ref(kind, f"{kind}-{tenant}", tenant)
        for kind in (Kind.KEY, Kind.WEBHOOK, Kind.SCHEDULE)
        for tenant in ("acme", "other", "default")
    ]
    obeyed = [
        Ref(kind, name) for kind in (Kind.QUEUE, Kind.BREAKER) for name in ("mail", "noop")
    ]
    await patient.write_records([put(ref) for ref in (*tenants, *owned, *obeyed)], audit=None)
    # Whoever changes a tenant, or counts, waits for others there and meets nobody further on.
    chosen = [*owned, *obeyed] if is_steady else [*tenants, *owned, *obeyed]
    most = None if is_steady else 50

    async def write() -> bool:
        changes = [
            Delete(ref=ref)
            if not is_steady and rng.random() < 0.3
            else put(ref, b"{}" if ref in obeyed else b"%d" % rng.randrange(99), ANY, most)
            for ref in rng.sample(chosen, 9)
        ]
        try:
            return (await patient.write_records(changes, audit=None)).conflict is None
        except (TenantNotFoundError, TenantInUseError):
            return False

    async with asyncio.timeout(25):
        done = [
            one for _ in range(8) for one in await asyncio.gather(*(write() for _ in range(8)))
        ]

    assert any(done)


async def test_a_tenant_is_deleted_with_the_key_that_is_just_made_for_it(
    engine: PostgresEngine, db: Connection, observer: Connection
) -> None:
    await engine.write_records([put(ACME)], audit=None)

    async with db.transaction():
        await db.fetch(SQL.records_hold, ["key"], ["k1"], [None], ["acme"], [], [], [])
        await db.execute(ADD)
        deleting = asyncio.create_task(engine.write_records([Delete(ref=ACME)], audit=None))
        await until(observer, WAITING)

    assert (await deleting).conflict is None
    assert (await engine.get_records([ACME, KEY])).records == (None, None)


async def test_no_key_is_made_for_a_tenant_that_is_just_deleted(
    engine: PostgresEngine, db: Connection, observer: Connection
) -> None:
    await engine.write_records([put(ACME)], audit=None)

    async with db.transaction():
        await db.fetch(SQL.records_hold, ["tenant"], ["acme"], [None], [], ["acme"], [], [])
        await db.execute("delete from longshore.record where kind = 'tenant' and name = 'acme'")
        making = asyncio.create_task(engine.write_records([put(KEY)], audit=None))
        await until(observer, WAITING)

    with pytest.raises(TenantNotFoundError):
        await making
    assert (await engine.get_records([KEY])).records == (None,)


async def test_whoever_comes_first_no_key_is_without_its_tenant(
    engine: PostgresEngine, db: Connection
) -> None:
    for _ in range(10):
        await engine.write_records([put(ACME, expected=ANY)], audit=None)
        await asyncio.gather(
            *(
                engine.write_records([put(Ref(Kind.KEY, f"k{n}", "acme"))], audit=None)
                for n in range(4)
            ),
            engine.write_records([Delete(ref=ACME)], audit=None),
            return_exceptions=True,
        )

        assert await db.fetchval(ORPHANS) == 0
        assert (await engine.get_records([ACME])).records == (None,)


async def test_one_of_many_tenants_gets_a_name_that_all_want(engine: PostgresEngine) -> None:
    names = [f"t{number}" for number in range(6)]
    await engine.write_records([put(Ref(Kind.TENANT, name)) for name in names], audit=None)
    wanted = [Ref(Kind.WEBHOOK, "same", name) for name in names]

    answers = await asyncio.gather(
        *(engine.write_records([put(ref, expected=ANY)], audit=None) for ref in wanted)
    )

    (winner,) = [ref for ref, one in zip(wanted, answers, strict=True) if not one.conflict]
    page = await engine.list_records(RecordFilter(kind=Kind.WEBHOOK), limit=9)
    assert [one.tenant for one in page.records] == [winner.tenant]


async def test_a_cap_holds_where_no_record_of_the_tenant_stands(engine: PostgresEngine) -> None:
    refs = [Ref(Kind.SCHEDULE, f"s{number}", "nowhere") for number in range(8)]

    answers = await asyncio.gather(
        *(engine.write_records([put(ref, most=3)], audit=None) for ref in refs),
        return_exceptions=True,
    )

    assert [isinstance(one, CapReachedError) for one in answers].count(True) == 5


async def test_only_what_may_be_lost_does_not_wait_for_the_disk(
    engine: PostgresEngine, db: Connection
) -> None:
    await db.execute("""
        create table public.commits (name text, mode text);
        grant all on public.commits to public;
        create function public.note_commit() returns trigger language plpgsql as $$
        begin
            insert into public.commits values (new.name, current_setting('synchronous_commit'));
            return null;
        end $$;
        create trigger note after insert on longshore.record
           for each row execute function public.note_commit()""")
    done = AuditRecord("key.use", "b")
    try:
        await engine.write_records([put(Ref(Kind.KEY_USE, "a"))], audit=None)
        await engine.write_records([put(Ref(Kind.KEY_USE, "b"))], audit=done)
        both = [put(Ref(Kind.KEY_USE, "c")), put(Ref(Kind.FLAG, "d"))]
        await engine.write_records(both, audit=None)
        await engine.write_records([put(Ref(Kind.FLAG, "e"))], audit=None)
        found = await db.fetch("select name, mode from public.commits order by name")
    finally:
        await db.execute("drop function public.note_commit() cascade")
        await db.execute("drop table public.commits")

    assert [row["mode"] for row in found] == ["off", "on", "on", "on", "on"]
