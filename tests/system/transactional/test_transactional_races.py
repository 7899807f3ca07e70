"""A completion beside others who end, give back or reclaim the same job."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest
from transaction_steps import (
    assert_in_order,
    claimed,
    complete,
    events,
    lock_waits,
    outbox_is_locked,
    released,
    state_of,
    submitted,
    transaction,
    write,
    written,
)

from longshore import Longshore
from longshore.core import settle
from longshore.core.event import Name
from longshore.core.job import Claim
from longshore.core.state import State
from longshore.errors import LeaseLostError
from longshore.handle import JobHandle


@dataclass(frozen=True, slots=True)
class Commit:
    claim: Claim
    task: "asyncio.Task[None]"
    unlock: Callable[[], Awaitable[None]]

    async def let_go(self) -> None:
        """To its end."""
        await self.unlock()
        await self.task


@asynccontextmanager
async def a_commit_under_way(
    app: Longshore, url: str, db: Any
) -> AsyncIterator[tuple[JobHandle[Any], Any, Commit]]:
    """A job whose completion has passed the fence and waits to append to the outbox."""
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)
    async with outbox_is_locked(url) as unlock:
        completing = asyncio.create_task(complete(session, claim))
        await lock_waits(db, 1)
        yield handle, session, Commit(claim, completing, unlock)


@pytest.mark.parametrize("is_reclaimed", [False, True])
async def test_a_lost_lease_takes_the_writes_back(
    app: Longshore, db: Any, is_reclaimed: bool
) -> None:
    """The leases of others go on, and are of no use to the session that lost its own."""
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)
    await claimed(app, 0)
    ended = "update longshore.session set expires_at = 0 where token = $1"

    with pytest.raises(LeaseLostError):
        async with transaction(session, claim) as one:
            await write(one.connection, 1)
            await db.execute(ended, session.token)
            if is_reclaimed:
                await app.engine.end_session(session.token, [], grace=0)

    assert await written(db) == []
    assert await state_of(handle) is (State.READY if is_reclaimed else State.RUNNING)
    told = await events(app.engine, handle)
    assert Name.SUCCEEDED not in told
    await assert_in_order(db)


async def test_reclaim_waits_for_a_commit_under_way_and_heeds_it(
    app: Longshore, url: str, db: Any
) -> None:
    """The fence was passed, then the lease ends: the commit counts, and reclaim sees it."""
    async with a_commit_under_way(app, url, db) as (handle, session, commit):
        await db.execute("update longshore.session set expires_at = 0")
        reclaiming = asyncio.create_task(app.engine.end_session(session.token, [], grace=0))
        await lock_waits(db, 2)
        await commit.let_go()
        await reclaiming

    assert await written(db) == [1]
    assert await state_of(handle) is State.SUCCEEDED
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    assert await db.fetchval("select count(*) from longshore.journal") == 0
    await assert_in_order(db)


async def test_a_cancelled_handler_learns_of_it_when_its_commit_is_over(
    app: Longshore, url: str, db: Any
) -> None:
    """Else the worker would retry a job whose commit is still under way."""
    async with a_commit_under_way(app, url, db) as (handle, session, commit):
        for _ in range(3):
            commit.task.cancel()
            await asyncio.wait([commit.task], timeout=0.01)
        assert not commit.task.done()
        with pytest.raises(asyncio.CancelledError):
            await commit.let_go()

    assert await written(db) == [1]
    assert await state_of(handle) is State.SUCCEEDED
    await session.close()
    await assert_in_order(db)


async def test_a_job_is_not_given_back_while_it_is_being_committed(
    app: Longshore, url: str, db: Any
) -> None:
    """A worker that leaves gives back what still runs, such as a handler in its commit."""
    async with a_commit_under_way(app, url, db) as (handle, session, commit):
        held = [(commit.claim.handle, commit.claim.delivery)]
        renewed = await session.renew(number=1, held=held)
        settlements = [released(commit.claim)]
        giving_back = asyncio.create_task(session.exchange(2, settlements=settlements))
        await asyncio.wait([giving_back], timeout=0.05)
        assert not giving_back.done()
        await commit.let_go()
        answer = await giving_back

    assert (renewed.lost, answer.stale) == ([], [])
    assert await state_of(handle) is State.SUCCEEDED
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    await assert_in_order(db)


async def test_nor_when_the_commit_begins_while_that_waits_for_its_turn(
    app: Longshore, url: str, db: Any
) -> None:
    handle, _ = await submitted(app, 2)
    session, (claim, other) = await claimed(app, 2)
    async with outbox_is_locked(url) as unlock:
        started = [(other.handle, other.delivery)]
        before = asyncio.create_task(session.exchange(2, started=started))
        await lock_waits(db, 1)
        giving_back = asyncio.create_task(session.exchange(3, settlements=[released(claim)]))
        completing = asyncio.create_task(complete(session, claim))
        await lock_waits(db, 2)
        await unlock()
        await asyncio.gather(before, completing)
        answer = await giving_back

    assert answer.stale == []
    assert await state_of(handle) is State.SUCCEEDED
    await session.close()
    await assert_in_order(db)


async def test_a_job_that_was_given_back_cannot_be_completed(app: Longshore, db: Any) -> None:
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)
    with pytest.raises(LeaseLostError):
        async with transaction(session, claim) as one:
            await write(one.connection, 1)
            await session.exchange(2, settlements=[released(claim)])

    assert await written(db) == []
    assert await state_of(handle) is State.READY


async def end_by_settling(app: Longshore, session: Any, claims: list[Claim]) -> None:
    rest = [released(claims[n]) for n in (5, 6, 7, 8)]
    rest += [
        settle.succeeded(claims[n], started_at=1, finished_at=2, result=None) for n in (0, 2, 4)
    ]
    assert (await session.exchange(3, settlements=rest)).stale == []


async def end_by_closing(app: Longshore, session: Any, claims: list[Claim]) -> None:
    await session.close()


async def end_by_dying(app: Longshore, session: Any, claims: list[Claim]) -> None:
    database = cast(Any, app.engine).inner._database
    await database.fetch("update longshore.session set expires_at = 0")
    (lapsed,) = await app.engine.expired_sessions(grace=0, limit=10)
    assert {one.handle for one in lapsed.held} == {one.handle for one in claims[5:]}
    await app.engine.end_session(session.token, [], grace=0)


@pytest.mark.parametrize("doubt", [False, True])
@pytest.mark.parametrize("end", [end_by_settling, end_by_closing, end_by_dying])
async def test_completed_jobs_leave_the_others_of_their_span_alone(
    app: Longshore, url: str, db: Any, end: Any, doubt: bool
) -> None:
    handles = await submitted(app, 9)
    session, claims = await claimed(app, 9)
    for n in (0, 3, 4):
        await complete(session, claims[n], n)
        await assert_in_order(db)
    third = settle.succeeded(claims[3], started_at=1, finished_at=2, result=b"late")
    settlements = [third, released(claims[1])]
    if doubt:
        async with outbox_is_locked(url):
            lost = asyncio.create_task(session.exchange(2, settlements=settlements))
            await lock_waits(db, 1)
            lost.cancel()
            await asyncio.wait([lost])
    assert (await session.exchange(2, settlements=settlements)).stale == []
    held = [(one.handle, one.delivery) for n, one in enumerate(claims) if n not in (1, 3)]
    assert (await session.renew(number=2, held=held)).lost == []
    await complete(session, claims[2], 2)
    await end(app, session, claims)

    states = [await state_of(handle) for handle in handles]
    assert [n for n, state in enumerate(states) if state is State.SUCCEEDED] == [0, 2, 3, 4]
    assert states.count(State.READY) == 5
    assert await written(db) == [0, 2, 3, 4]
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    await assert_in_order(db)


async def test_a_start_that_is_on_record_is_told_once(
    app: Longshore, url: str, db: Any
) -> None:
    handles = await submitted(app, 3)
    session, claims = await claimed(app, 3)
    names = [(one.handle, one.delivery) for one in claims]
    await session.exchange(2, started=names[:1])
    await complete(session, claims[0])
    async with outbox_is_locked(url) as unlock:
        # A start under way is waited for, and one of a job under way is left to its end.
        telling = asyncio.create_task(session.exchange(3, started=names[1:2]))
        await lock_waits(db, 1)
        completing = [asyncio.create_task(complete(session, one)) for one in claims[1:]]
        await lock_waits(db, 2)
        await unlock()
        await asyncio.gather(telling, *completing)
    await session.exchange(4, started=names)

    for handle in handles:
        told = await events(app.engine, handle)
        assert told == [Name.SUBMITTED, Name.STARTED, Name.SUCCEEDED]
    await session.close()
    await assert_in_order(db)


async def test_a_start_that_a_commit_under_way_tells_is_not_told_besides(
    app: Longshore, url: str, db: Any
) -> None:
    async with a_commit_under_way(app, url, db) as (handle, session, commit):
        async with asyncio.timeout(5):
            await session.exchange(2, started=[(commit.claim.handle, commit.claim.delivery)])
        await commit.let_go()

    told = await events(app.engine, handle)
    assert told == [Name.SUBMITTED, Name.STARTED, Name.SUCCEEDED]
    await session.close()


async def test_a_lost_answer_beside_a_commit_disturbs_neither(
    app: Longshore, url: str, db: Any
) -> None:
    """The journal's numbers are given once, though its book is read again meanwhile."""
    handles = await submitted(app, 2)
    session, (claim, other) = await claimed(app, 2)
    started = [(other.handle, other.delivery)]
    async with outbox_is_locked(url) as unlock:
        completing = asyncio.create_task(complete(session, claim))
        await lock_waits(db, 1)
        lost = asyncio.create_task(session.exchange(2, started=started))
        await lock_waits(db, 2)
        lost.cancel()
        await asyncio.wait([lost])
        await lock_waits(db, 1)
        again = asyncio.create_task(session.exchange(2, started=started))
        await lock_waits(db, 2)
        await unlock()
        await asyncio.gather(completing, again)

    assert [await state_of(one) for one in handles] == [State.SUCCEEDED, State.RUNNING]
    await session.close()
    assert [await state_of(one) for one in handles] == [State.SUCCEEDED, State.READY]
    await assert_in_order(db)
