import asyncio

import pytest

from longshore.core.job import Submitted, Verdict
from longshore.core.state import State
from longshore.engine import Engine, JobFilter, Retention
from longshore.errors import JobNotFoundError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import bare, snapshot
from longshore.testing.factories import DAY, HOUR, NewJob, a_job
from longshore.testing.manual import a_worker


def _keyed(key: str = "order:7", content: bytes = b"a", tenant: str = "default") -> NewJob:
    return a_job(idempotency_key=key, fingerprint=content, tenant=tenant)


async def test_a_key_used_again_with_the_same_content_stands_for_the_first_job(
    engine: Engine,
) -> None:
    first = _keyed()
    await engine.submit([first])
    before = await snapshot(engine, first.id)

    (answer,) = await engine.submit([_keyed()])

    assert bare(answer) == Submitted(first.id, Verdict.REPEATED)
    assert await snapshot(engine, first.id) == before


async def test_a_key_used_again_with_other_content_is_a_conflict(engine: Engine) -> None:
    first = _keyed()
    await engine.submit([first])
    before = await snapshot(engine, first.id)
    other = _keyed(content=b"b")

    (answer,) = await engine.submit([other])

    assert answer == Submitted(first.id, Verdict.CONFLICT)
    assert await snapshot(engine, first.id) == before
    with pytest.raises(JobNotFoundError):
        await engine.get(other.id)


async def test_a_conflict_does_not_keep_its_neighbours_out(engine: Engine) -> None:
    await engine.submit([_keyed()])
    before, behind = a_job(), a_job()

    answers = await engine.submit([before, _keyed(content=b"b"), behind])

    assert [answer.verdict for answer in answers] == [
        Verdict.ACCEPTED,
        Verdict.CONFLICT,
        Verdict.ACCEPTED,
    ]


async def test_a_key_repeated_inside_one_batch_is_used_once(engine: Engine) -> None:
    first, same, other = _keyed(), _keyed(), _keyed(content=b"b")

    answers = await engine.submit([first, same, other])

    assert [bare(answer) for answer in answers] == [
        Submitted(first.id, Verdict.ACCEPTED),
        Submitted(first.id, Verdict.REPEATED),
        Submitted(first.id, Verdict.CONFLICT),
    ]


async def test_a_key_that_nobody_holds_takes_no_patience(engine: Engine) -> None:
    answers = await asyncio.gather(*[engine.submit([_keyed()], patience=0) for _ in range(5)])

    verdicts = [answer.verdict for (answer,) in answers]
    assert sorted(verdicts) == [Verdict.ACCEPTED, *[Verdict.REPEATED] * 4]


async def test_a_key_from_many_callers_at_once_makes_one_job(engine: Engine) -> None:
    jobs = [_keyed() for _ in range(20)]

    answers = await asyncio.gather(*(engine.submit([job]) for job in jobs))

    assert len({answer.id for (answer,) in answers}) == 1
    assert [answer.verdict for (answer,) in answers].count(Verdict.ACCEPTED) == 1
    assert len((await engine.find(JobFilter(), limit=50)).jobs) == 1


async def test_a_key_holds_after_its_job_has_finished_and_even_gone(engine: Engine) -> None:
    first = _keyed()
    await engine.submit([first])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.succeed(claim)
    (finished,) = await engine.submit([_keyed()])
    await engine.purge([first.id])

    (gone,) = await engine.submit([_keyed()])

    assert bare(finished) == bare(gone) == Submitted(first.id, Verdict.REPEATED)


async def test_a_key_is_free_again_after_its_retention(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([_keyed()])
    retention = Retention(idempotency=DAY)
    clock.advance(DAY - 1)
    await engine.prune(retention, limit=100)
    (early,) = await engine.submit([_keyed(content=b"b")])
    clock.advance(2)
    await engine.prune(retention, limit=100)

    (late,) = await engine.submit([_keyed(content=b"b")])

    assert (early.verdict, late.verdict) == (Verdict.CONFLICT, Verdict.ACCEPTED)


async def test_tenants_do_not_share_keys(engine: Engine) -> None:
    jobs = [_keyed(tenant="acme"), _keyed(tenant="other", content=b"b")]

    answers = await engine.submit(jobs)

    assert [answer.verdict for answer in answers] == [Verdict.ACCEPTED, Verdict.ACCEPTED]


async def test_each_key_of_a_batch_stands_for_its_own_first_job(engine: Engine) -> None:
    names = [(tenant, key) for tenant in ("acme", "other") for key in ("order:7", "order:8")]
    firsts = [_keyed(key, tenant=tenant) for tenant, key in names]

    answers = await engine.submit(
        [*firsts, *(_keyed(key, tenant=tenant) for tenant, key in names)]
    )

    assert [bare(answer) for answer in answers] == [
        *(Submitted(job.id, Verdict.ACCEPTED) for job in firsts),
        *(Submitted(job.id, Verdict.REPEATED) for job in firsts),
    ]


async def test_a_key_of_another_tenant_is_no_repeat_beside_one_that_is(engine: Engine) -> None:
    first = _keyed(tenant="acme")
    await engine.submit([first])
    other, same = _keyed(tenant="other"), _keyed("order:8", tenant="acme")

    answers = await engine.submit([_keyed(tenant="acme"), other, same])

    assert [bare(answer) for answer in answers] == [
        Submitted(first.id, Verdict.REPEATED),
        Submitted(other.id, Verdict.ACCEPTED),
        Submitted(same.id, Verdict.ACCEPTED),
    ]


async def test_a_job_sent_again_is_a_repeat_whatever_its_key(engine: Engine) -> None:
    job = _keyed()
    await engine.submit([job])

    (answer,) = await engine.submit([a_job(id=job.id, idempotency_key="another")])
    (free,) = await engine.submit([_keyed("another")])

    assert bare(answer) == Submitted(job.id, Verdict.REPEATED)
    assert free.verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("content", [b"a", b"b"])
async def test_a_job_sent_twice_in_one_batch_is_a_repeat_of_itself_whatever_its_key(
    engine: Engine, content: bytes
) -> None:
    """The second one's key stands for another job: its id goes first."""
    known = _keyed()
    await engine.submit([known])
    job = _keyed("another")

    answers = await engine.submit(
        [job, a_job(id=job.id, idempotency_key="order:7", fingerprint=content)]
    )

    assert [bare(answer) for answer in answers] == [
        Submitted(job.id, Verdict.ACCEPTED),
        Submitted(job.id, Verdict.REPEATED),
    ]


async def test_a_job_that_was_kept_out_as_not_unique_uses_up_no_key(engine: Engine) -> None:
    holder = a_job(unique_key="user:7")
    await engine.submit([holder])
    kept_out = a_job(unique_key="user:7", idempotency_key="order:7", fingerprint=b"a")
    await engine.submit([kept_out])
    await engine.cancel([holder.id], reason="changed my mind")

    (answer,) = await engine.submit([_keyed(content=b"b")])

    assert answer.verdict is Verdict.ACCEPTED
    assert (await engine.get(answer.id)).state is State.READY


async def test_a_key_also_holds_for_a_scheduled_job(engine: Engine) -> None:
    first = a_job(idempotency_key="order:7", delay=HOUR)
    await engine.submit([first])

    (answer,) = await engine.submit([a_job(idempotency_key="order:7", delay=HOUR)])

    assert bare(answer) == Submitted(first.id, Verdict.REPEATED)
