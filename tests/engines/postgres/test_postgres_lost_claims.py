"""Claims that a crash of the server took back: the worker that heard of one has it again.

Such claims do not wait for the disk. The server here writes its log only when it has to, so
every one of them is lost in a crash.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from deaf_proxy import Mishap, deaf_proxy

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import Claim, NewJob
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.errors import EngineUnavailableError, LeaseLostError
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker, reference
from longshore_lab.emptying import empty
from longshore_lab.servers import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("postgres_server")]

T = TypeVar("T")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(settings={"wal_writer_delay": "10s", "autovacuum": "off"}) as server:
        server.create("longshore")
        yield server


@pytest.fixture
async def engine(server: PostgresServer, clock: ManualClock) -> AsyncIterator[Engine]:
    """The holder's."""
    engine = open_engine(server.url("longshore"), clock=clock)
    await engine.migrate()
    await empty(server.url("longshore"))
    yield engine
    await engine.close()


@pytest.fixture
async def neighbour(
    engine: Engine, server: PostgresServer, clock: ManualClock
) -> AsyncIterator[ManualWorker]:
    """Another process, which never waited."""
    its = open_engine(server.url("longshore"), clock=clock)
    yield await a_worker(its, name="neighbour", types=["noop", "rare"])
    assert await asked(server, "select count(*) from longshore.misplaced()") == 0
    await its.close()


@pytest.fixture
async def holder(engine: Engine) -> ManualWorker:
    """Waits for work, so its next claim need not wait for the disk."""
    worker = await a_worker(engine, name="holder", types=["noop", "rare"])
    assert await worker.claim(10) == []
    return worker


async def asked(server: PostgresServer, statement: str) -> int:
    connection = await asyncpg.connect(server.url("longshore"))
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def crash(server: PostgresServer) -> None:
    await asyncio.to_thread(server.restart, immediate=True)
    assert await asked(server, "select count(*) from longshore.claim") == 0


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Call until the server is reached: each connection of before fails once."""
    for _ in range(20):
        try:
            return await call()
        except EngineUnavailableError:
            pass
    return await call()


async def claimed(worker: ManualWorker, *jobs: NewJob, want: int = 10) -> list[Claim]:
    await worker.engine.submit(jobs)
    claims = await worker.claim(want)
    assert len(claims) == min(want, len(jobs))
    return claims


async def state(engine: Engine, job: NewJob) -> State:
    return (await engine.get(job.id)).state


async def test_nobody_claims_what_its_worker_runs_and_the_worker_settles_it(
    holder: ManualWorker, neighbour: ManualWorker, engine: Engine, server: PostgresServer
):
    job = a_job()
    (claim,) = await claimed(holder, job)
    await crash(server)

    meanwhile = await insist(lambda: neighbour.claim(10))
    settled = await insist(lambda: holder.succeed(claim))
    afterwards = await neighbour.claim(10)

    assert meanwhile == afterwards == []
    assert settled.stale == []
    found = await engine.get(job.id)
    assert (found.state, found.attempt, found.delivery) == (State.SUCCEEDED, 1, 1)


async def test_claims_go_on_when_everyone_who_waited_was_heard_of(
    holder: ManualWorker, neighbour: ManualWorker, server: PostgresServer
):
    ours = [a_job(type="rare" if number % 3 else "noop") for number in range(10)]
    claims = await claimed(holder, *ours, want=4)
    await crash(server)

    renewed = await insist(lambda: holder.renew(holding=claims))
    rest = await insist(lambda: neighbour.claim(20))
    again = await holder.repeat()

    assert (renewed.lost, renewed.released) == ([], 0)
    assert [claim.id for claim in rest] == [job.id for job in ours[4:]]
    assert [reference(one) for one in again.claims] == [reference(one) for one in claims]


async def test_what_was_parted_by_type_is_claimed_again_out_of_the_whole(
    engine: Engine, neighbour: ManualWorker, server: PostgresServer
):
    specialist = await a_worker(engine, types=["rare"])
    assert await specialist.claim(10) == []
    ours = [a_job(type="rare" if number % 3 else "noop") for number in range(10)]
    await engine.submit(ours)
    claims = await specialist.claim(3)
    await crash(server)

    await insist(lambda: specialist.start(claims[0]))
    rest = await insist(lambda: neighbour.claim(20))
    settled = [(await specialist.succeed(claim)).stale for claim in claims]

    assert settled == [[], [], []]
    taken = {claim.id for claim in claims} | {claim.id for claim in rest}
    assert len(rest) == 7
    assert taken == {job.id for job in ours}


async def test_an_answer_that_nobody_heard_leaves_the_jobs_to_whoever_asks_first(
    neighbour: ManualWorker, server: PostgresServer, clock: ManualClock
):
    where = parse_qs(urlsplit(server.url()).query)
    async with deaf_proxy(f"{where['host'][0]}/.s.PGSQL.{where['port'][0]}") as (proxy, port):
        far = open_engine(
            f"postgresql://postgres@127.0.0.1:{port}/longshore?sslmode=disable", clock=clock
        )
        deaf = await a_worker(far)
        assert await deaf.claim(10) == []
        await neighbour.engine.submit([a_job()])
        proxy.next = Mishap.ANSWER_LOST
        with pytest.raises(EngineUnavailableError):
            await deaf.claim(10)
        await crash(server)

        early = await insist(lambda: neighbour.claim(10))
        (claim,) = await insist(lambda: deaf.claim(10))
        late = await neighbour.claim(10)
        settled = await deaf.succeed(claim)
        await far.close()

    assert early == late == []
    assert settled.stale == []


async def test_a_worker_that_does_not_come_back_is_waited_for_as_long_as_its_lease(
    holder: ManualWorker, neighbour: ManualWorker, server: PostgresServer, clock: ManualClock
):
    (claim,) = await claimed(holder, a_job())
    await crash(server)

    early = await insist(lambda: neighbour.claim(10))
    clock.advance(holder.session.lease - SECOND)
    await neighbour.session.renew()
    later = await neighbour.claim(10)
    clock.advance(SECOND)
    (again,) = await neighbour.claim(10)
    with pytest.raises(LeaseLostError):
        await insist(lambda: holder.succeed(claim))

    assert early == later == []
    assert again.id == claim.id
    assert (await neighbour.succeed(again)).stale == []


async def test_a_worker_that_was_buried_is_not_waited_for(
    holder: ManualWorker, neighbour: ManualWorker, server: PostgresServer
):
    (claim,) = await claimed(holder, a_job())
    await crash(server)

    assert await insist(lambda: neighbour.claim(10)) == []
    await neighbour.engine.end_session(holder.session.token, [])
    (again,) = await neighbour.claim(10)

    assert again.id == claim.id


async def test_what_someone_cancelled_meanwhile_stays_cancelled(
    holder: ManualWorker, neighbour: ManualWorker, server: PostgresServer
):
    one, two = a_job(), a_job()
    first, second = await claimed(holder, one, two)
    await crash(server)
    await insist(lambda: neighbour.engine.change("cancel", [one.id], reason="no need"))

    renewed = await insist(lambda: holder.renew(holding=[first, second]))
    stale = (await holder.succeed(first)).stale
    kept = (await holder.succeed(second)).stale

    assert renewed.lost == stale == [reference(first)]
    assert kept == []
    assert await state(neighbour.engine, one) is State.CANCELLED
    assert await state(neighbour.engine, two) is State.SUCCEEDED


async def test_a_handlers_transaction_commits_with_its_job_after_a_crash(
    holder: ManualWorker, neighbour: ManualWorker, engine: Engine, server: PostgresServer
):
    job = a_job()
    (claim,) = await claimed(holder, job)
    await crash(server)

    async def complete() -> None:
        async with holder.session.transaction(reference(claim), started_at=1) as completion:  # type: ignore[attr-defined]
            await completion.connection.execute("select 1")

    await insist(complete)
    others = await insist(lambda: neighbour.claim(10))

    assert others == []
    assert await state(neighbour.engine, job) is State.SUCCEEDED


async def test_a_crash_that_the_server_recovers_from_by_itself_is_one_too(
    holder: ManualWorker, neighbour: ManualWorker, server: PostgresServer
):
    (claim,) = await claimed(holder, a_job())
    connection = await asyncpg.connect(server.url("longshore"))
    os.kill(connection.get_server_pid(), signal.SIGKILL)
    with pytest.raises((asyncpg.PostgresConnectionError, OSError)):
        await connection.execute("select 1")

    assert await insist(lambda: neighbour.claim(10)) == []
    assert await asked(server, "select count(*) from longshore.claim") == 0
    assert (await insist(lambda: holder.succeed(claim))).stale == []


async def test_an_orderly_restart_loses_no_claim_and_holds_up_nobody(
    holder: ManualWorker, neighbour: ManualWorker, engine: Engine, server: PostgresServer
):
    (claim,) = await claimed(holder, a_job())
    idle = await a_worker(engine)
    assert await idle.claim() == []
    await asyncio.to_thread(server.restart)

    await insist(lambda: neighbour.engine.submit([a_job()]))
    others = await insist(lambda: neighbour.claim(10))
    settled = await insist(lambda: holder.succeed(claim))

    assert len(others) == 1
    assert settled.stale == []


async def test_a_claim_beside_a_settlement_and_one_of_a_worker_that_did_not_wait_are_on_disk(
    holder: ManualWorker, neighbour: ManualWorker, engine: Engine, server: PostgresServer
):
    (first,) = await claimed(neighbour, a_job())
    await asyncio.to_thread(server.restart, immediate=True)
    assert await asked(server, "select count(*) from longshore.claim") == 1

    await insist(lambda: neighbour.succeed(first))
    assert await insist(lambda: holder.claim(10)) == []
    (second,) = await claimed(holder, a_job())
    await engine.submit([a_job()])
    await holder.exchange(started=[reference(second)], want=1)
    await asyncio.to_thread(server.restart, immediate=True)
    assert await asked(server, "select count(*) from longshore.claim") == 2


async def test_a_frozen_worker_whose_keeper_renews_is_waited_for(
    holder: ManualWorker, neighbour: ManualWorker, server: PostgresServer, clock: ManualClock
):
    (claim,) = await claimed(holder, a_job())
    await crash(server)

    for _ in range(3):
        clock.advance(holder.session.lease - SECOND)
        await insist(lambda: neighbour.engine.renew(holder.session.token))
        await insist(neighbour.session.renew)
        assert await insist(lambda: neighbour.claim(10)) == []
    settled = await insist(lambda: holder.succeed(claim))

    assert settled.stale == []


async def test_a_worker_whose_lease_is_over_takes_nothing_back(
    holder: ManualWorker, neighbour: ManualWorker, server: PostgresServer, clock: ManualClock
):
    (claim,) = await claimed(holder, a_job())
    await crash(server)
    clock.advance(holder.session.lease - SECOND)
    await insist(neighbour.session.renew)
    clock.advance(SECOND)

    with pytest.raises(LeaseLostError):
        await insist(lambda: holder.succeed(claim))
    (again,) = await neighbour.claim(10)

    assert (again.id, again.delivery, again.lapses) == (claim.id, claim.delivery, 0)


async def test_exchanges_of_others_hide_no_claim_that_was_lost(
    holder: ManualWorker, neighbour: ManualWorker, engine: Engine, server: PostgresServer
):
    for _ in range(3):
        (done,) = await claimed(neighbour, a_job())
        await neighbour.succeed(done)
    job = a_job()
    (claim,) = await claimed(holder, job)
    assert holder.number < neighbour.number
    await crash(server)

    settled = await insist(lambda: holder.succeed(claim))

    assert settled.stale == []
    assert await state(engine, job) is State.SUCCEEDED


async def test_a_claim_beside_a_settlement_that_was_refused_is_on_disk(
    holder: ManualWorker, neighbour: ManualWorker, server: PostgresServer
):
    (others,) = await claimed(neighbour, a_job())
    await neighbour.engine.submit([a_job()])
    end = settle.succeeded(others, started_at=1, finished_at=1)

    answer = await holder.exchange(settlements=[end], want=1)
    await asyncio.to_thread(server.restart, immediate=True)
    again = await insist(holder.repeat)

    assert await asked(server, "select count(*) from longshore.claim") == 2
    assert (len(answer.claims), again.claims) == (1, answer.claims)
    assert answer.stale == again.stale == [reference(others)]


async def test_a_settlement_beside_the_claim_of_a_worker_that_waited_is_on_disk(
    holder: ManualWorker, neighbour: ManualWorker, engine: Engine, server: PostgresServer
):
    job = a_job()
    (first,) = await claimed(holder, job)
    assert await holder.claim(10) == []
    await engine.submit([a_job()])
    end = settle.succeeded(first, started_at=1, finished_at=1)

    answer = await holder.exchange(settlements=[end], want=1)
    await asyncio.to_thread(server.restart, immediate=True)

    assert await insist(lambda: state(neighbour.engine, job)) is State.SUCCEEDED
    assert (
        len(answer.claims) == await asked(server, "select count(*) from longshore.claim") == 1
    )
