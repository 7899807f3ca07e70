"""Jobs of several types and tenants share segments and spans on PostgreSQL."""

from collections.abc import AsyncIterator

import pytest

from longshore.contract import Engine, JobFilter
from longshore.core import settle
from longshore.core.event import Name
from longshore.core.job import Claim, Failure, JobId, NewJob, Settlement
from longshore.core.priority_rank import strict_rank
from longshore.core.state import State
from longshore.engines.postgres.connection import Connection
from longshore.records import pauses
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import all_events
from longshore.testing.factories import MINUTE, SECOND, a_job
from longshore.testing.manual import a_worker

KINDS = [("mail", "acme"), ("image", "acme"), ("mail", "zeta"), ("report", "zeta")]


@pytest.fixture
async def db(db: Connection) -> AsyncIterator[Connection]:
    yield db
    assert await db.fetch("select * from longshore.misplaced()") == []


def jobs_of(count: int, **options: int) -> list[NewJob]:
    kinds = (KINDS[number % len(KINDS)] for number in range(count))
    return [a_job(type=kind, tenant=tenant, **options) for kind, tenant in kinds]


def succeeded(claim: Claim) -> Settlement:
    return settle.succeeded(claim, started_at=1, finished_at=2)


def failed(claim: Claim) -> Settlement:
    why = Failure("ValueError", "no such user")
    return settle.failed(claim, why, delay=SECOND, started_at=1, finished_at=2)


async def told_of(engine: Engine, job_id: JobId) -> list[tuple[Name, str, str]]:
    events = [one for one in await all_events(engine) if one.job_id == job_id]
    return [(one.name, one.type, one.tenant) for one in events]


async def rows(db: Connection, table: str) -> int:
    return await db.fetchval(f"select count(*) from longshore.{table}")


async def test_a_batch_of_many_kinds_is_one_span_all_its_life(
    engine: Engine, db: Connection
) -> None:
    worker = await a_worker(engine, types=("mail", "image", "report"))
    jobs = jobs_of(200)
    await engine.submit(jobs)
    assert (await rows(db, "segment"), await rows(db, "ready")) == (1, 1)

    claims = await worker.claim(200)
    assert [(one.id, one.type, one.tenant) for one in claims] == [
        (job.id, job.type, job.tenant) for job in jobs
    ]
    assert await rows(db, "claim") == 1

    await worker.settle(*map(succeeded, claims))
    assert await rows(db, "finished") == 1
    (counts,) = await engine.counts(tenant="zeta")
    assert counts.succeeded == 100
    names = (Name.SUBMITTED, Name.STARTED, Name.SUCCEEDED)
    expected = [(name, "report", "zeta") for name in names]
    assert await told_of(engine, jobs[3].id) == expected


async def test_a_span_is_parted_for_a_worker_that_does_not_serve_all_its_types(
    engine: Engine, db: Connection
) -> None:
    worker = await a_worker(engine, types=("mail",))
    await engine.submit(jobs_of(40))

    claims = await worker.claim(100)

    assert len(claims) == 20
    assert {one.type for one in claims} == {"mail"}
    left = await db.fetch("select type, types, size from longshore.ready order by type")
    assert [tuple(row) for row in left] == [("image", None, 10), ("report", None, 10)]


async def test_a_paused_type_is_left_behind_in_its_place(
    engine: Engine, db: Connection
) -> None:
    worker = await a_worker(engine, types=("mail", "image", "report"))
    first, second = jobs_of(8), jobs_of(8)
    await engine.submit(first)
    await engine.submit(second)
    await pauses.pause(engine, type="image")

    others = await worker.claim(100)
    await pauses.resume(engine, type="image")
    images = await worker.claim(100)

    assert "image" not in {one.type for one in others}
    expected = [job.id for job in [*first, *second] if job.type == "image"]
    assert [one.id for one in images] == expected
    assert len(others) + len(images) == 16


async def test_jobs_go_back_with_their_types_and_only_theirs(
    engine: Engine, db: Connection, clock: ManualClock
) -> None:
    worker = await a_worker(engine, types=("mail", "image", "report"))
    await engine.submit(jobs_of(8))
    claims = await worker.claim(8)

    await worker.settle(
        *map(settle.released, claims[:2]),
        *(failed(one) for one in claims[2:] if one.type == "mail"),
        *(succeeded(one) for one in claims[2:] if one.type != "mail"),
    )
    ready = await db.fetchrow("select type, types from longshore.ready")
    later = await db.fetch("select type, types from longshore.scheduled")
    clock.advance(2 * SECOND)
    await engine.promote(limit=100)
    again = await worker.claim(8)

    assert ready is not None
    assert tuple(ready) == ("", ["image", "mail"])
    assert {tuple(row) for row in later} == {("mail", None)}
    assert sorted(one.type for one in again) == ["image", "mail", "mail", "mail", "mail"]


async def test_retries_go_together_and_none_is_early_or_late_by_over_a_quarter(
    engine: Engine, db: Connection, clock: ManualClock
) -> None:
    worker = await a_worker(engine, types=("mail", "image", "report"))
    await engine.submit(jobs_of(40))
    claims = await worker.claim(40)
    delays = {
        one.id: (30 + 7 * number % 40) * SECOND // 40 for number, one in enumerate(claims)
    }
    why = Failure("ValueError", "no such user")

    await worker.settle(
        *(
            settle.failed(one, why, delay=delays[one.id], started_at=1, finished_at=2)
            for one in claims
        )
    )

    found = await engine.find(JobFilter(), limit=100)
    waits = {job.id: job.run_at - clock.now() for job in found.jobs}
    assert all(delays[name] <= wait <= delays[name] * 5 / 4 for name, wait in waits.items())
    assert await rows(db, "scheduled") <= 4


async def test_snoozed_jobs_wait_as_long_as_each_of_them_said(
    engine: Engine, db: Connection, clock: ManualClock
) -> None:
    worker = await a_worker(engine, types=("mail", "image", "report"))
    await engine.submit(jobs_of(8))
    claims = await worker.claim(8)
    delays = {one.id: SECOND + number for number, one in enumerate(claims)}

    await worker.settle(
        *(settle.snoozed(one, delays[one.id], started_at=1, finished_at=2) for one in claims)
    )

    found = await engine.find(JobFilter(), limit=100)
    assert {job.id: job.run_at - clock.now() for job in found.jobs} == delays


async def test_a_listing_shows_only_the_kind_that_was_asked_for(
    engine: Engine, db: Connection
) -> None:
    jobs = jobs_of(40)
    await engine.submit(jobs)

    mails = await engine.find(JobFilter(type="mail"), limit=100)
    of_zeta = await engine.find(JobFilter(tenant="zeta", state=State.READY), limit=100)

    assert {one.id for one in mails.jobs} == {job.id for job in jobs if job.type == "mail"}
    assert {one.id for one in of_zeta.jobs} == {job.id for job in jobs if job.tenant == "zeta"}
    (counts,) = await engine.counts(tenant="acme")
    assert counts.ready == 20


async def test_promoted_jobs_are_told_of_by_their_own_names(
    engine: Engine, db: Connection, clock: ManualClock
) -> None:
    jobs = jobs_of(8, delay=MINUTE)
    await engine.submit(jobs)
    assert await rows(db, "scheduled") == 1
    clock.advance(MINUTE)

    await engine.promote(limit=3)
    await engine.promote(limit=100)

    for job in jobs:
        told = await told_of(engine, job.id)
        assert told[-1] == (Name.READY, job.type, job.tenant)


async def test_nothing_is_left_of_what_a_deleted_job_carried(
    engine: Engine, db: Connection
) -> None:
    worker = await a_worker(engine)
    secret = b'{"card":"4111 1111"}'
    jobs = [a_job(payload=payload, tags=("vip",)) for payload in (b"{}", secret, b'{"a":1}')]
    await engine.submit(jobs)
    await worker.settle(*map(succeeded, await worker.claim(3)))

    await engine.change("purge", [jobs[1].id])

    row = await db.fetchrow("select payloads, attributes::text as own from longshore.segment")
    assert row is not None
    assert b"4111" not in row["payloads"]
    assert row["own"].count("vip") == 2
    assert [(await engine.get(job.id)).payload for job in jobs[::2]] == [b"{}", b'{"a":1}']


@pytest.mark.parametrize("count", [1, 3], ids=["alone", "together"])
@pytest.mark.parametrize("priority", [1, 5, 9])
@pytest.mark.parametrize("delay", [0, MINUTE], ids=["now", "later"])
async def test_the_server_ranks_jobs_as_the_core_does(
    engine: Engine, db: Connection, clock: ManualClock, count: int, priority: int, delay: int
) -> None:
    await engine.submit([a_job(priority=priority, delay=delay) for _ in range(count)])

    rank = await db.fetchval(
        "select rank from longshore.ready union all select rank from longshore.scheduled"
    )

    assert rank == strict_rank(priority, clock.now() + delay, punctual=delay > 0)
