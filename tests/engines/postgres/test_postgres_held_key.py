"""A transaction that holds an idempotency key holds up who asks for it, and nobody else."""

import asyncio
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from longshore.contract import Engine, JobFilter
from longshore.core.job import Submitted, Verdict
from longshore.engines import open_engine
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.engine import PostgresEngine
from longshore.errors import InFlightError
from longshore.testing.factories import a_job, an_id


@pytest.fixture
async def engine(empty_postgres_url: str) -> AsyncIterator[PostgresEngine]:
    engine = open_engine(empty_postgres_url)
    assert isinstance(engine, PostgresEngine)
    yield engine
    await engine.close()


async def submit(engine: Engine, key: str) -> Submitted:
    (answer,) = await engine.submit([a_job(idempotency_key=key, fingerprint=b"same")])
    return answer


async def many(engine: Engine, name: str) -> float:
    """Submit hundreds of jobs with keys, many at a time; the seconds that took."""
    begin = time.monotonic()

    async def caller(number: int) -> None:
        for turn in range(20):
            assert (await submit(engine, f"{name}.{number}.{turn}")).verdict is Verdict.ACCEPTED

    await asyncio.gather(*(caller(number) for number in range(32)))
    return time.monotonic() - begin


async def hold(engine: PostgresEngine, other: Connection, key: str) -> Submitted:
    found = engine.submit_on(other, [a_job(idempotency_key=key, fingerprint=b"same")])
    assert not isinstance(found, list)
    (answer,) = await found
    return answer


async def test_others_go_on_at_their_speed_while_many_ask_for_a_held_key(
    engine: PostgresEngine, other: Connection
):
    await many(engine, "warm")
    free = await many(engine, "free")

    async with other.transaction():
        holder = await hold(engine, other, "held")
        asking: list[asyncio.Task[Submitted]] = []

        async def ask() -> None:
            while True:
                asking.append(asyncio.create_task(submit(engine, "held")))
                await asyncio.sleep(0.02)

        asker = asyncio.create_task(ask())
        async with asyncio.timeout(30):
            held = await many(engine, "others")
        asker.cancel()
        assert not any(one.done() for one in asking)
    answers = await asyncio.gather(*asking)

    assert {(one.id, one.verdict) for one in answers} == {(holder.id, Verdict.REPEATED)}
    # A call that waits in the way of others costs a hundred times as much.
    assert held < 3 * free + 3.0, f"{held:.2f} s instead of {free:.2f} s"


async def test_whoever_waited_for_a_key_gets_it_when_its_holder_gives_up(
    engine: PostgresEngine, other: Connection
):
    transaction = other.transaction()
    await transaction.start()
    await hold(engine, other, "held")
    waiting = [asyncio.create_task(submit(engine, "held")) for _ in range(5)]
    assert (await submit(engine, "another")).verdict is Verdict.ACCEPTED
    assert not any(one.done() for one in waiting)

    await transaction.rollback()
    answers = await asyncio.gather(*waiting)

    assert len({one.id for one in answers}) == 1
    assert sorted(one.verdict for one in answers) == [Verdict.ACCEPTED, *[Verdict.REPEATED] * 4]
    assert (await submit(engine, "held")).id == answers[0].id
    assert (await engine.submit([a_job(id=an_id())]))[0].verdict is Verdict.ACCEPTED


async def test_a_key_that_is_given_up_is_had_at_once_though_many_wait_for_another(
    engine: PostgresEngine, other: Connection, empty_postgres_url: str
):
    third = await asyncpg.connect(empty_postgres_url)
    lent = third.transaction()
    async with other.transaction():
        await hold(engine, other, "hot")
        await lent.start()
        await hold(engine, third, "cold")
        hot = [asyncio.create_task(submit(engine, "hot")) for _ in range(400)]
        cold = asyncio.create_task(submit(engine, "cold"))
        # Long enough for every one of them to have asked, or to stand behind one who has.
        assert await asyncio.wait([cold], timeout=1.0) == (set(), {cold})

        await lent.rollback()
        begin = time.monotonic()
        async with asyncio.timeout(20):
            assert (await cold).verdict is Verdict.ACCEPTED
        took = time.monotonic() - begin
        assert not any(one.done() for one in hot)
    await asyncio.gather(*hot)
    await third.close()

    # Its longest pause is half a second; a turn behind 400 others takes four.
    assert took < 2.0


async def test_a_held_key_holds_up_no_other_job_of_a_call_whose_jobs_come_apart(
    engine: PostgresEngine, other: Connection
):
    keys = ["a", "held", None, "b"]
    async with other.transaction():
        await hold(engine, other, "held")
        first = [a_job(idempotency_key=key, fingerprint=b"same") for key in keys]
        second = [a_job(idempotency_key=key, fingerprint=b"same") for key in ["held", "c"]]

        # The second comes while it is known that the key is held.
        asked = [engine.submit(one, independent=True, max_wait=0.1) for one in (first, second)]
        answers, late = await asyncio.gather(*asked)
        with pytest.raises(InFlightError):
            await engine.submit([a_job(), a_job(idempotency_key="held")], max_wait=0.1)

    assert [(one.id, one.verdict) for one in answers] == [
        (job.id, Verdict.HELD if job.idempotency_key == "held" else Verdict.ACCEPTED)
        for job in first
    ]
    assert [one.verdict for one in late] == [Verdict.HELD, Verdict.ACCEPTED]
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 5


@pytest.mark.parametrize("comes_apart", [True, False], ids=["a call", "calls"])
@pytest.mark.parametrize("kind", ["idempotency_key", "unique_key", "ordering_key"])
async def test_many_keys_that_are_held_are_waited_for_as_long_as_one(
    kind: str, comes_apart: bool, engine: PostgresEngine, other: Connection
):
    keys = [f"held.{number}" for number in range(100)]
    jobs = [a_job(**{kind: key}) for key in [*keys, "a", "b"]]
    async with other.transaction():
        holding = engine.submit_on(other, [a_job(**{kind: key}) for key in keys])
        assert not isinstance(holding, list)
        await holding

        begin = time.monotonic()
        if comes_apart:
            answers = await engine.submit(jobs, independent=True, max_wait=0.5)
        else:
            found = await asyncio.gather(
                *[engine.submit([job], independent=True, max_wait=0.5) for job in jobs]
            )
            answers = [one for (one,) in found]
        took = time.monotonic() - begin

    assert [(one.id, one.verdict) for one in answers] == [
        (job.id, Verdict.HELD if number < len(keys) else Verdict.ACCEPTED)
        for number, job in enumerate(jobs)
    ]
    # One after the other, at 20 ms for each time that it is asked for, they take five seconds.
    assert took < 2.5


async def test_who_waits_too_long_for_a_key_hears_that_it_is_in_flight(
    engine: PostgresEngine, other: Connection
):
    async with other.transaction():
        holder = await hold(engine, other, "held")

        with pytest.raises(InFlightError):
            await engine.submit([a_job(idempotency_key="held")], max_wait=0.1)

    assert [job.id for job in (await engine.find(JobFilter(), limit=5)).jobs] == [holder.id]
    repeated = await submit(engine, "held")
    assert (repeated.verdict, repeated.created_at) == (Verdict.REPEATED, holder.created_at)
