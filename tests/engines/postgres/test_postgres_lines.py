"""Lines of ordering keys beside the transactions of callers and handlers."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from ways import by_asyncpg

from longshore.core import settle
from longshore.core.job import Claim
from longshore.core.state import State
from longshore.engines.postgres.engine import PostgresEngine
from longshore.engines.postgres.session import PostgresSession
from longshore.engines.postgres.url import from_url
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker, reference


@pytest.fixture
async def engine(empty_postgres_url: str) -> AsyncIterator[PostgresEngine]:
    engine = from_url(empty_postgres_url)
    yield engine
    await engine.close()


async def test_a_callers_transaction_joins_a_line_when_it_commits_and_others_go_on(
    engine: PostgresEngine, empty_postgres_url: str
) -> None:
    first, second, dropped, other = (a_job(ordering_key=key) for key in "kkko")
    async with by_asyncpg(empty_postgres_url) as way:
        await way.submit(engine, [first, second])
        await engine.submit([other, a_job()])
        await way.commit()
    async with by_asyncpg(empty_postgres_url) as way:
        await way.submit(engine, [dropped])
        await way.rollback()
    worker = await a_worker(engine)

    claims = await worker.claim(9)

    assert len(claims) == 3
    line = await engine.line("default", "k")
    assert line is not None
    assert (line.inside, line.parked, line.last) == (1, 1, first.id)
    await worker.succeed(next(one for one in claims if one.id == first.id))
    assert [one.id for one in await worker.claim(9)] == [second.id]


async def test_a_job_that_ends_in_its_handlers_transaction_lets_the_next_one_in(
    engine: PostgresEngine,
) -> None:
    jobs = [a_job(ordering_key="k") for _ in range(3)]
    await engine.submit(jobs)
    worker = await a_worker(engine)
    (claim,) = await worker.claim(9)
    assert isinstance(worker.session, PostgresSession)

    async with worker.session.transaction(reference(claim), started_at=1):
        pass
    end = settle.succeeded(claim, started_at=1, finished_at=2)
    answer = await worker.exchange(settlements=[end], want=9)

    assert [one.id for one in answer.claims or await worker.claim(9)] == [jobs[1].id]
    assert (await engine.get(jobs[0].id)).state is State.SUCCEEDED
    await engine.end_session(worker.session.token, [])
    again = await a_worker(engine)
    assert [one.id for one in await again.claim(9)] == [jobs[1].id]


@pytest.mark.parametrize("is_buried", [False, True])
async def test_a_job_that_was_deleted_since_its_handlers_transaction_leaves_its_line(
    engine: PostgresEngine, empty_postgres_url: str, *, is_buried: bool
) -> None:
    jobs = [a_job(ordering_key="k") for _ in range(3)]
    await engine.submit(jobs)
    worker = await a_worker(engine)
    (claim,) = await worker.claim(9)
    assert isinstance(worker.session, PostgresSession)
    async with worker.session.transaction(reference(claim), started_at=1):
        pass

    await engine.change("purge", [claim.id])
    if is_buried:
        await engine.end_session(worker.session.token, [])
        worker = await a_worker(engine)

    assert [one.id for one in await worker.claim(9)] == [jobs[1].id]
    assert await worker.claim(9) == []
    await _is_sound(empty_postgres_url)


async def test_a_span_whose_first_job_was_deleted_leaves_its_lines(
    engine: PostgresEngine, empty_postgres_url: str
) -> None:
    jobs = [a_job(ordering_key=key) for key in "abc" for _ in range(2)]
    await engine.submit(jobs)
    worker = await a_worker(engine)
    first, *others = sorted(await worker.claim(9), key=lambda one: one.id)
    await worker.succeed(first)
    await engine.change("purge", [first.id])

    ends = [settle.succeeded(one, started_at=1, finished_at=2) for one in others]
    await engine.end_session(worker.session.token, ends)
    worker = await a_worker(engine)

    assert {one.id for one in await worker.claim(9)} == {one.id for one in jobs[1::2]}
    await _is_sound(empty_postgres_url)


async def _is_sound(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        assert await connection.fetch("select * from longshore.misplaced()") == []
    finally:
        await connection.close()


@pytest.mark.parametrize("is_buried", [False, True])
async def test_jobs_that_share_a_span_leave_their_lines_one_by_one_and_once(
    engine: PostgresEngine, empty_postgres_url: str, *, is_buried: bool
) -> None:
    jobs = [a_job(ordering_key=key, type=key) for key in "abc" for _ in range(3)]
    firsts, seconds = jobs[::3], jobs[1::3]
    await engine.submit(jobs)
    connection = await asyncpg.connect(empty_postgres_url)
    worker = await a_worker(engine, types=["a", "b", "c"])
    claims = await worker.claim(9)
    assert {one.id for one in claims} == {one.id for one in firsts}
    assert await connection.fetchval("select count(*) from longshore.claim") == 1
    assert isinstance(worker.session, PostgresSession)

    async with worker.session.transaction(reference(claims[0]), started_at=1):
        pass  # its line waits for whoever writes next, and the others run on
    if is_buried:
        await engine.end_session(worker.session.token, [])
        worker = await a_worker(engine, types=["a", "b", "c"])
        found = await worker.claim(9)
        expected = [seconds[0], *firsts[1:]]
    else:
        found = (await worker.exchange(want=9)).claims
        expected = seconds[:1]

    assert sorted(one.id for one in found) == sorted(one.id for one in expected)
    assert await connection.fetch("select * from longshore.misplaced()") == []
    held = found if is_buried else [claims[1], *found]
    ends = [settle.succeeded(one, started_at=1, finished_at=2) for one in held]
    await worker.exchange(settlements=ends)
    lines = [await engine.line("default", key) for key in "ab"]
    assert [(one.inside, one.parked, one.last) for one in lines if one] == [
        (1, 0, jobs[2].id),
        (1, 1, jobs[4].id),
    ]
    assert await connection.fetch("select * from longshore.misplaced()") == []
    await connection.close()


async def test_two_processes_that_submit_to_each_others_lines_both_get_through(
    engine: PostgresEngine, empty_postgres_url: str
) -> None:
    other = from_url(empty_postgres_url)
    keys = [f"k{number}" for number in range(8)]
    await asyncio.gather(
        *(
            one.submit([a_job(ordering_key=key) for key in order for _ in range(3)])
            for _ in range(4)
            for one, order in ((engine, keys), (other, keys[::-1]))
        )
    )
    one, two = await a_worker(engine), await a_worker(other)
    done = 0
    held: dict[int, list[Claim]] = {one.session.token: [], two.session.token: []}
    for _ in range(1_000):
        for worker in (one, two):
            ends = [
                settle.succeeded(claim, started_at=1, finished_at=2)
                for claim in held[worker.session.token]
            ]
            held[worker.session.token] = (
                await worker.exchange(settlements=ends, want=5)
            ).claims
            done += len(ends)
        if done == 192:
            break
    assert done == 192
    connection = await asyncpg.connect(empty_postgres_url)
    assert await connection.fetch("select * from longshore.misplaced()") == []
    assert await connection.fetchval("select count(*) from longshore.line") == 0
    await connection.close()
    await other.close()
