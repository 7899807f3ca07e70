"""PostgreSQL under real processes, while the server and its connections are hit.

Nothing is lost, nothing is settled twice, no job runs again for it, and every process is back
at work by itself.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random

import asyncpg
import pytest
from postgres_yard import BACK_WITHIN, Field, Trouble, a_server, asked, faced

from longshore_lab.servers import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("postgres_server")]
log = logging.getLogger(__name__)

OURS = "application_name like 'longshore%' and datname = current_database()"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with a_server(deadlock_timeout="100ms") as server:
        yield server


@asynccontextmanager
async def soon(rng: Random, _: Field) -> AsyncIterator[None]:
    await asyncio.sleep(rng.uniform(0.3, 1.0))
    yield


def crashes(
    times: int, *, when: Callable[[Random, Field], AbstractAsyncContextManager[None]] = soon
) -> Trouble:
    """Crash the server inside of that, again and again, and let it be down for a while."""

    async def trouble(site: Field) -> None:
        rng = Random(times)
        for _ in range(times):
            async with when(rng, site):
                await asyncio.to_thread(site.server.stop, immediate=True)
            await asyncio.sleep(rng.uniform(0.0, 2.0))
            await asyncio.to_thread(site.server.start)
            await site.everyone_works()

    return trouble


@pytest.mark.slow
async def test_a_server_that_crashes_under_load_loses_and_doubles_nothing(tmp_path: Path):
    with a_server() as server:
        site = await faced(server, tmp_path, crashes(1))

    assert max(site.back_after) < BACK_WITHIN


@pytest.mark.prove
async def test_twenty_crashes_of_the_server_lose_and_double_nothing(tmp_path: Path):
    with a_server() as server:
        site = await faced(server, tmp_path, crashes(20))

    assert max(site.back_after) < BACK_WITHIN


# Where the log was when something was claimed; and who claimed again what a crash took back.
CLAIMS = """
create unlogged table public.claimed (position pg_lsn);
create table public.restored (token bigint);
create function public.note() returns trigger language plpgsql as $$
begin
    if current_query() like '%claim_add:%' then
        insert into public.restored select token from fresh;
    else
        insert into public.claimed values (pg_current_wal_insert_lsn());
    end if;
    return null;
end
$$;
create trigger note after insert on longshore.claim referencing new table as fresh
    for each statement execute function public.note()
"""
UNWRITTEN = "select count(*) from public.claimed where position > pg_current_wal_flush_lsn()"


@asynccontextmanager
async def once_a_claim_is_unwritten(rng: Random, site: Field) -> AsyncIterator[None]:
    await asyncio.sleep(rng.uniform(0.0, 0.3))
    async with site.observer() as observer:
        async with asyncio.timeout(20):
            while not await observer.fetchval(UNWRITTEN):
                await asyncio.sleep(0.002)
        yield


@pytest.mark.prove
async def test_twenty_crashes_that_take_claims_back_let_no_job_run_twice(tmp_path: Path):
    """The server writes a claim when something else has to be written, and not before."""
    with a_server(wal_writer_delay="10s", autovacuum="off") as server:
        site = await faced(
            server, tmp_path, crashes(20, when=once_a_claim_is_unwritten), prepared_by=CLAIMS,
            batch=3, pace=0.15, slow_scale=0.5,
        )  # fmt: skip
        told = await asked(site.trial.url, "select from public.restored")

    restored = int(told.removeprefix("SELECT "))
    log.info("claims that were made again: %d", restored)
    # Twelve on a calm machine, six on a busy one, where more is written before it is down.
    assert restored >= 3
    assert max(site.back_after) < BACK_WITHIN


# A keeper renews and does nothing else for a while; a worker soon asks something else.
HIT = f"""
    select {{how}}(a.pid), a.state,
           case when a.application_name <> 'longshore' then substr(a.application_name, 11)
                when a.state = 'idle' and a.query like '-- session_renew:%'
                     and a.state_change < clock_timestamp() - interval '2 seconds' then 'keeper'
                else 'pool' end as role
      from pg_stat_activity a
     where {OURS} and ($1 = '' or state = $1) order by random() limit 1
"""


END, INTERRUPT = "pg_terminate_backend", "pg_cancel_backend"


def hits(times: int, *hows: str) -> Trouble:
    """End or interrupt single connections, idle ones and those in the middle of a call."""

    async def trouble(site: Field) -> None:
        rng = Random(times)
        async with site.observer() as observer:
            for _ in range(times):
                how = rng.choice(hows)
                state = rng.choice(["", "active", "active"])
                for hit in await observer.fetch(HIT.format(how=how), state):
                    # To interrupt one that does nothing does nothing.
                    site.hit[hit["role"]] += how == END or hit["state"] == "active"
                await asyncio.sleep(rng.expovariate(1 / 0.03))
        log.info("hit: %s", site.hit)
        await site.everyone_works()

    return trouble


@pytest.mark.slow
async def test_connections_that_are_hit_at_any_point_lose_and_double_nothing(
    server: PostgresServer, tmp_path: Path
):
    await faced(server, tmp_path, hits(120, END, INTERRUPT))


@pytest.mark.prove
@pytest.mark.parametrize(
    ("how", "roles"),
    [(END, {"lane", "pool", "listener", "keeper"}), (INTERRUPT, {"lane", "pool"})],
)
async def test_thousands_of_hits_on_connections_lose_and_double_nothing(
    server: PostgresServer, tmp_path: Path, how: str, roles: set[str]
):
    site = await faced(server, tmp_path, hits(3_000, how), lease_seconds=20.0)

    assert roles <= set(+site.hit)


@pytest.mark.prove
async def test_a_server_without_free_connections_holds_up_the_work_and_no_more(
    tmp_path: Path,
):
    async def trouble(site: Field) -> None:
        async with site.observer() as observer:
            hogs: list[asyncpg.Connection] = []
            # Whoever loses a connection now finds that another took its place.
            for _ in range(60):
                await observer.fetch(HIT.format(how=END), "")
                try:
                    hogs.append(await asyncpg.connect(site.trial.url))
                except asyncpg.TooManyConnectionsError:
                    await asyncio.sleep(0.01)
            assert len(hogs) > 20
            await asyncio.sleep(1.0)
            for hog in hogs:
                await hog.close()
        await site.everyone_works()

    with a_server(max_connections="50") as server:
        await faced(server, tmp_path, trouble)


CALM = """
create or replace function public.mishap() returns trigger language plpgsql as $$
begin
    return null;
end
$$
"""
RISKY = """
create or replace function public.mishap() returns trigger language plpgsql as $$
declare
    states constant text[] := '{40001,40P01,55P03,57014,53200,53100}';
begin
    if random() < 0.02 then
        raise exception 'mishap in %', tg_table_name
            using errcode = states[1 + floor(random() * cardinality(states))::integer];
    end if;
    return null;
end
$$
"""
# Each statement may fail, and so may each commit.
MISHAPS = """
do $$
declare
    name text;
begin
    for name in select relname from pg_class
                 where relnamespace = 'longshore'::regnamespace and relkind = 'r'
    loop
        execute format('create trigger early after insert or update or delete on longshore.%I'
                       ' for each statement execute function public.mishap()', name);
        execute format('create constraint trigger late after insert or update or delete'
                       ' on longshore.%I deferrable initially deferred'
                       ' for each row execute function public.mishap()', name);
    end loop;
end
$$
"""


@pytest.mark.slow
async def test_conflicts_deadlocks_and_timeouts_in_any_statement_lose_and_double_nothing(
    server: PostgresServer, tmp_path: Path
):
    async def trouble(site: Field) -> None:
        before = server.log.count("mishap in")
        async with site.observer() as observer:
            await observer.execute(RISKY)
            async with asyncio.timeout(20):
                while server.log.count("mishap in") - before <= 50:
                    await asyncio.sleep(0.1)
            await observer.execute(CALM)
        await site.everyone_works()

    await faced(server, tmp_path, trouble, prepared_by=f"{CALM}; {MISHAPS}")


LOCKS = (
    "lock table longshore.ready in access exclusive mode",
    "lock table longshore.claim in share row exclusive mode",
    "select * from longshore.session for update",
    "select * from longshore.ready for update",
    "select * from longshore.scheduled for update",
    "lock table longshore.outbox in exclusive mode",
)


@pytest.mark.prove
async def test_locks_that_others_hold_for_a_while_hold_up_the_work_and_no_more(
    server: PostgresServer, tmp_path: Path
):
    async def trouble(site: Field) -> None:
        async with site.observer() as observer:
            for lock in LOCKS:
                async with observer.transaction():
                    await observer.execute("set local lock_timeout = '5s'")
                    await observer.execute(lock)
                    await asyncio.sleep(0.4)
                await site.everyone_works()

    await faced(server, tmp_path, trouble)


@pytest.mark.slow
async def test_an_exchange_in_a_deadlock_is_sent_again(server: PostgresServer, tmp_path: Path):
    """Someone holds a row that we need and wants one that we hold, again and again."""

    async def trouble(site: Field) -> None:
        before = server.log.count("deadlock detected")
        async with site.observer() as observer, asyncio.timeout(30):
            while server.log.count("deadlock detected") - before < 3:
                try:
                    async with observer.transaction():
                        await observer.execute("set local deadlock_timeout = '5s'")
                        await observer.execute("set local lock_timeout = '1s'")
                        await observer.execute("lock table longshore.finished in share mode")
                        await asyncio.sleep(0.03)
                        await observer.execute("select * from longshore.session for update")
                except (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError):
                    pass
        await site.everyone_works()

    await faced(server, tmp_path, trouble)


def pinned(seconds: float) -> Trouble:
    """Somebody keeps a snapshot, so that nothing which is deleted can be cleaned up."""

    async def trouble(site: Field) -> None:
        async with site.observer() as pin, site.observer() as observer:
            await pin.execute("begin isolation level repeatable read")
            await pin.execute("select count(*) from longshore.ready")
            ended: list[int] = [await observer.fetchval(FINISHED)]
            slow: list[float] = []
            for _ in range(2):
                slow.append(await slow_claim(observer, seconds / 2))
                ended.append(await observer.fetchval(FINISHED))
            first, second = ended[1] - ended[0], ended[2] - ended[1]
            dead = await observer.fetchval(
                "select sum(n_dead_tup) from pg_stat_user_tables where schemaname = 'longshore'"
            )
            log.info("%d jobs, then %d; %s dead rows", first, second, dead)
            log.info("p99 of a claim: %.1f ms, then %.1f ms", *(one * 1e3 for one in slow))
            assert second > 0.7 * first
            # A load that a slow claim still carries would hide it.
            assert slow[1] < 3 * slow[0] + 0.03

    return trouble


FINISHED = "select coalesce(sum(size), 0)::bigint from longshore.finished"
CLAIM = """
    select c.taken from longshore.claim(
        -1, 1, $1, array(select distinct queue from longshore.ready),
        array(select distinct type from longshore.ready where type <> ''), 5) c
"""


async def slow_claim(observer: asyncpg.Connection, seconds: float) -> float:
    """The p99 of claims like those of workers, made now and then and rolled back at once."""
    took: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        claim = observer.transaction()
        await claim.start()
        begin = time.monotonic()
        await observer.fetch(CLAIM, int(1e6 * time.time()))
        took.append(time.monotonic() - begin)
        await claim.rollback()
        await asyncio.sleep(0.02)
    calm = sorted(took[5:])  # at first the connection plans it
    return calm[len(calm) * 99 // 100]


@pytest.mark.prove
async def test_a_pinned_snapshot_does_not_slow_the_work_down(
    server: PostgresServer, tmp_path: Path
):
    await faced(server, tmp_path, pinned(4.0))


@pytest.mark.prove
async def test_a_snapshot_pinned_for_ten_minutes_does_not_bring_the_work_down(
    server: PostgresServer, tmp_path: Path
):
    await faced(server, tmp_path, pinned(600.0), jobs=1_000_000)
