"""A session on PostgreSQL whose answers get lost: sent again, each call counts once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from deaf_proxy import DeafProxy, Mishap, deaf_proxy

from longshore.contract import Engine, Exchanged
from longshore.core import settle
from longshore.core.job import Claim, Failure, JobId, Settlement
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.engines.postgres import settlement_plan
from longshore.engines.postgres.connection import Connection
from longshore.errors import EngineBusyError, EngineUnavailableError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import events_of
from longshore.testing.factories import MINUTE, SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker, reclaim_lapsed, reference

WAITING = "select count(*) from pg_locks where not granted"


@pytest.fixture
async def proxy(empty_postgres_url: str) -> AsyncIterator[tuple[DeafProxy, int]]:
    where = parse_qs(urlsplit(empty_postgres_url).query)
    async with deaf_proxy(f"{where['host'][0]}/.s.PGSQL.{where['port'][0]}") as found:
        yield found


@pytest.fixture
async def worker(
    proxy: tuple[DeafProxy, int], engine: Engine, clock: ManualClock
) -> AsyncIterator[ManualWorker]:
    """Reaches the server through the proxy only."""
    url = f"postgresql://postgres@127.0.0.1:{proxy[1]}/longshore?sslmode=disable"
    far = open_engine(url, clock=clock)
    worker = await a_worker(far)
    worker.engine = engine
    await worker.exchange()  # from here on a call is one request
    yield worker
    await far.close()


@pytest.fixture
async def _is_sound(worker: ManualWorker, observer: Connection) -> AsyncIterator[None]:
    """In the end no job is in two places or in none."""
    yield
    assert await observer.fetch("select * from longshore.misplaced()") == []


pytestmark = pytest.mark.usefixtures("_is_sound")


def lose(proxy: tuple[DeafProxy, int], mishap: Mishap = Mishap.ANSWER_LOST) -> None:
    proxy[0].next = mishap


async def sent_and_lost(worker: ManualWorker, **content: Any) -> dict[str, Any]:
    """Exchange, without an answer."""
    with pytest.raises(EngineUnavailableError):
        await worker.session.exchange(worker.number + 1, **content)
    return content


async def sent_again(worker: ManualWorker, content: dict[str, Any]) -> Exchanged:
    return await worker.exchange(**content)


async def mixed(worker: ManualWorker, claims: list[Claim]) -> list[Settlement]:
    """One of each kind, in no order, for the first five claims."""
    now = await worker.engine.now()
    times = {"started_at": now, "finished_at": now}
    why = Failure("ValueError", "no such user")
    return [
        settle.released(claims[3]),
        settle.succeeded(claims[0], result=b"7", **times),
        settle.killed(claims[2], why, "no use", **times),
        settle.snoozed(claims[4], SECOND, **times),
        settle.failed(claims[1], why, delay=SECOND, **times),
    ]


async def states(engine: Engine, *jobs: JobId) -> list[State]:
    return [(await engine.get(one)).state for one in jobs]


AFTER_MIXED = [
    State.SUCCEEDED,
    State.SCHEDULED,
    State.DEAD,
    State.READY,
    State.SCHEDULED,
]


async def test_a_lost_answer_sent_again_brings_the_same_claims_and_settles_once(
    worker: ManualWorker, proxy: tuple[DeafProxy, int], engine: Engine, observer: Connection
):
    jobs = [a_job() for _ in range(9)]
    await engine.submit(jobs)
    claims = await worker.claim(6)
    settlements = await mixed(worker, claims)
    started = [reference(claims[5])]

    lose(proxy)
    content = await sent_and_lost(worker, started=started, settlements=settlements, want=3)
    stored = await observer.fetch("select * from longshore.claim order by number, part")
    events = await engine.events(after=0, limit=1_000)
    answer = await sent_again(worker, content)

    # The one that was released has the oldest rank, so it is claimed again.
    assert [one.id for one in answer.claims] == [jobs[3].id, jobs[6].id, jobs[7].id]
    assert [one.delivery for one in answer.claims] == [2, 1, 1]
    assert answer.stale == []
    assert await observer.fetch("select * from longshore.claim order by number, part") == stored
    assert await engine.events(after=0, limit=1_000) == events
    assert await states(engine, *(job.id for job in jobs[:3])) == AFTER_MIXED[:3]
    for claim in [claims[5], *answer.claims]:
        assert (await worker.succeed(claim)).stale == []
    assert await worker.claim(9) != []
    assert (await engine.get(jobs[0].id)).result == b"7"
    assert len(await engine.attempts(jobs[1].id)) == 1


async def test_a_call_that_never_reached_the_server_is_applied_when_it_is_sent_again(
    worker: ManualWorker, proxy: tuple[DeafProxy, int], engine: Engine
):
    jobs = [a_job() for _ in range(6)]
    await engine.submit(jobs)
    claims = await worker.claim(6)
    content = {"settlements": await mixed(worker, claims), "want": 2}

    lose(proxy, Mishap.LATE)
    await sent_and_lost(worker, **content)
    assert await states(engine, *(job.id for job in jobs)) == [State.RUNNING] * 6
    answer = await sent_again(worker, content)

    assert (answer.stale, [one.id for one in answer.claims]) == ([], [jobs[3].id])
    await proxy[0].deliver()
    found = await states(engine, *(job.id for job in jobs[:5]))
    assert found == [*AFTER_MIXED[:3], State.RUNNING, AFTER_MIXED[4]]
    assert (await worker.succeed(claims[5])).stale == []


async def test_a_zombie_that_is_done_between_the_look_and_the_call_counts_instead_of_it(
    worker: ManualWorker, proxy: tuple[DeafProxy, int], engine: Engine
):
    jobs = [a_job() for _ in range(9)]
    await engine.submit(jobs)
    claims = await worker.claim(6)
    content = {"settlements": await mixed(worker, claims), "want": 3}

    lose(proxy, Mishap.LATE)
    await sent_and_lost(worker, **content)
    proxy[0].before_lane = proxy[0].deliver
    answer = await sent_again(worker, content)

    assert proxy[0].before_lane is None
    assert [one.id for one in answer.claims] == [jobs[3].id, jobs[6].id, jobs[7].id]
    assert answer.stale == []
    for claim in [claims[5], *answer.claims]:
        assert (await worker.succeed(claim)).stale == []
    assert (await events_of(engine, jobs[0].id)).count("job.succeeded") == 1


async def test_a_zombie_that_comes_many_calls_later_changes_nothing(
    worker: ManualWorker, proxy: tuple[DeafProxy, int], engine: Engine
):
    jobs = [a_job() for _ in range(9)]
    await engine.submit(jobs)
    claims = await worker.claim(6)
    content = {"settlements": await mixed(worker, claims), "want": 3}

    lose(proxy, Mishap.LATE)
    await sent_and_lost(worker, **content)
    answer = await sent_again(worker, content)
    for claim in answer.claims:
        await worker.succeed(claim)
    before = await engine.events(after=0, limit=1_000)
    await proxy[0].deliver()

    assert await engine.events(after=0, limit=1_000) == before
    assert (await worker.succeed(claims[5])).stale == []


async def test_a_zombie_that_still_works_is_waited_for(
    worker: ManualWorker, proxy: tuple[DeafProxy, int], engine: Engine, observer: Connection
):
    jobs = [a_job() for _ in range(9)]
    await engine.submit(jobs)
    claims = await worker.claim(6)
    content = {"settlements": await mixed(worker, claims), "want": 3}

    async with observer.transaction():
        await observer.execute("lock table longshore.outbox in share mode")
        lose(proxy, Mishap.CUT)
        await sent_and_lost(worker, **content)
        await until(observer, f"{WAITING} and relation = 'longshore.outbox'::regclass")
        again = asyncio.create_task(sent_again(worker, content))
        await until(observer, f"{WAITING} and locktype = 'transactionid'")
    answer = await again

    assert [one.id for one in answer.claims] == [jobs[3].id, jobs[6].id, jobs[7].id]
    assert answer.stale == []
    for claim in [claims[5], *answer.claims]:
        assert (await worker.succeed(claim)).stale == []


async def until(observer: Connection, statement: str) -> None:
    async with asyncio.timeout(10):
        while not await observer.fetchval(statement):
            await asyncio.sleep(0.005)


async def test_a_renewal_between_the_loss_and_the_call_leaves_its_claims_alone(
    worker: ManualWorker, proxy: tuple[DeafProxy, int], engine: Engine
):
    jobs = [a_job() for _ in range(9)]
    await engine.submit(jobs)
    claims = await worker.claim(6)
    content = {"settlements": await mixed(worker, claims), "want": 3}

    lose(proxy)
    await sent_and_lost(worker, **content)
    renewed = await worker.renew(holding=claims)
    answer = await sent_again(worker, content)

    assert renewed.released == 0
    assert set(renewed.lost) == {reference(one) for one in claims[:5]}
    assert [one.id for one in answer.claims] == [jobs[3].id, jobs[6].id, jobs[7].id]
    assert answer.stale == []
    assert (await worker.succeed(answer.claims[0])).stale == []


async def test_claims_of_a_lost_answer_that_is_never_asked_for_again_go_back_uncharged(
    worker: ManualWorker, proxy: tuple[DeafProxy, int], engine: Engine
):
    jobs = [a_job() for _ in range(5)]
    await engine.submit(jobs)
    mine = await worker.claim(2)

    lose(proxy)
    await sent_and_lost(worker, want=3)
    worker.number += 1  # it gave up on the call
    renewed = await worker.renew(holding=mine)

    assert (renewed.released, renewed.lost) == (3, [])
    again = await worker.claim(5)
    assert [one.id for one in again] == [job.id for job in jobs[2:]]
    assert {(one.delivery, one.attempt, one.lapses) for one in again} == {(2, 0, 0)}
    for claim in [*mine, *again]:
        assert (await worker.succeed(claim)).stale == []


async def test_what_a_lost_answer_handed_to_a_worker_that_died_comes_back(
    worker: ManualWorker, proxy: tuple[DeafProxy, int], engine: Engine, clock: ManualClock
):
    jobs = [a_job() for _ in range(5)]
    await engine.submit(jobs)
    mine = await worker.claim(2)

    lose(proxy)
    await sent_and_lost(worker, settlements=(await mixed_successes(worker, mine)), want=3)
    clock.advance(MINUTE)

    assert await reclaim_lapsed(engine) == 3
    assert await states(engine, *(job.id for job in jobs)) == [
        *[State.SUCCEEDED] * 2,
        *[State.READY] * 3,
    ]


async def mixed_successes(worker: ManualWorker, claims: list[Claim]) -> list[Settlement]:
    now = await worker.engine.now()
    return [settle.succeeded(one, started_at=now, finished_at=now) for one in claims]


@pytest.mark.parametrize("late", [0.0, 60.0], ids=["moved out", "told by the journal"])
async def test_an_exchange_sent_again_after_its_answer_changes_neither_store_nor_book(
    worker: ManualWorker, engine: Engine, monkeypatch: pytest.MonkeyPatch, late: float
):
    jobs = [a_job() for _ in range(4)]
    await engine.submit(jobs)
    claims = await worker.claim(4)
    monkeypatch.setattr(settlement_plan, "_LATE", 60.0)
    await worker.succeed(claims[1])
    monkeypatch.setattr(settlement_plan, "_LATE", late)  # as if it had been a while ago

    repeated = await worker.repeat()

    assert repeated.stale == []
    for claim in (claims[0], claims[2], claims[3]):
        assert (await worker.succeed(claim)).stale == []
    assert await states(engine, *(job.id for job in jobs)) == [State.SUCCEEDED] * 4


async def test_lost_answers_leave_no_journal_behind(
    worker: ManualWorker, proxy: tuple[DeafProxy, int], engine: Engine, observer: Connection
):
    await engine.submit([a_job() for _ in range(8)])
    claims = await worker.claim(8)
    for claim in claims[:7]:
        lose(proxy)
        content = await sent_and_lost(
            worker, settlements=await mixed_successes(worker, [claim])
        )
        assert (await sent_again(worker, content)).stale == []
    assert await observer.fetchval("select count(*) from longshore.journal") == 7

    await worker.succeed(claims[7])
    await worker.exchange()

    assert await observer.fetchval("select count(*) from longshore.journal") == 0


async def test_a_session_whose_claims_changed_beneath_it_reads_them_and_goes_on(
    worker: ManualWorker, engine: Engine, observer: Connection
):
    jobs = [a_job(priority=number + 1) for number in range(3)]
    await engine.submit(jobs)
    claims = await worker.claim(3)
    assert len({one.handle >> 12 for one in claims}) == 3
    gone = claims[1].handle >> 12
    await observer.execute("delete from longshore.claim where segment = $1", gone)
    settlements = await mixed_successes(worker, claims)

    with pytest.raises(EngineBusyError):
        await worker.exchange(settlements=settlements)
    answer = await worker.exchange(settlements=settlements)

    assert answer.stale == [reference(claims[1])]
    assert await worker.claim(1) == []
    assert await states(engine, jobs[0].id, jobs[2].id) == [State.SUCCEEDED] * 2
    # No call of ours leaves a job nowhere; take away what is left of it.
    await observer.execute("delete from longshore.locator where segment = $1", gone)
    await observer.execute("delete from longshore.segment where segment = $1", gone)


async def test_a_renewal_whose_commit_fails_once_is_made_again_in_full(
    worker: ManualWorker, engine: Engine, observer: Connection, proxy: tuple[DeafProxy, int]
):
    jobs = [a_job() for _ in range(4)]
    await engine.submit(jobs)
    claims = await worker.claim(4)
    await observer.execute(FAILS_ONCE)
    try:
        renewed = await worker.renew(holding=claims[:1])
    finally:
        await observer.execute("drop function public.fail_once() cascade")
        await observer.execute("drop sequence public.failures")

    assert renewed.released == 3
    again = await worker.claim(4)
    assert [one.id for one in again] == [job.id for job in jobs[1:]]
    assert (await worker.succeed(claims[0])).stale == []


# A sequence does not forget what a transaction that was rolled back took from it.
FAILS_ONCE = """
create sequence public.failures;
create function public.fail_once() returns trigger language plpgsql as $$
begin
    if nextval('public.failures') = 1 then
        raise exception 'not now' using errcode = '40001';
    end if;
    return null;
end
$$;
create constraint trigger fail_once after update on longshore.session
    deferrable initially deferred for each row execute function public.fail_once();
"""
