import asyncio

import pytest
from msgspec.structs import replace

from longshore.contract import Engine, JobFilter, Retention
from longshore.core.job import Submitted, Verdict
from longshore.core.state import State
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
    answers = await asyncio.gather(*[engine.submit([_keyed()], max_wait=0) for _ in range(5)])

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
    await engine.change("purge", [first.id])

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
    await engine.change("cancel", [holder.id], reason="changed my mind")

    (answer,) = await engine.submit([_keyed(content=b"b")])

    assert answer.verdict is Verdict.ACCEPTED
    assert (await engine.get(answer.id)).state is State.READY


async def test_a_key_also_holds_for_a_scheduled_job(engine: Engine) -> None:
    first = a_job(idempotency_key="order:7", delay=HOUR)
    await engine.submit([first])

    (answer,) = await engine.submit([a_job(idempotency_key="order:7", delay=HOUR)])

    assert bare(answer) == Submitted(first.id, Verdict.REPEATED)


@pytest.mark.parametrize("is_over", [False, True], ids=["waiting", "over"])
async def test_an_id_of_another_tenant_is_taken_and_nothing_is_told_of_its_job(
    engine: Engine, is_over: bool
) -> None:
    theirs = a_job(tenant="theirs", delay=0 if is_over else HOUR)
    await engine.submit([theirs])
    if is_over:
        worker = await a_worker(engine)
        (claim,) = await worker.claim()
        await worker.succeed(claim)
    before = await engine.get(theirs.id)
    mine = a_job(id=theirs.id, tenant="mine", idempotency_key="k", unique_key="u")
    neighbours = a_job(tenant="mine"), a_job(tenant="mine")

    (alone,) = await engine.submit([mine])
    among = await engine.submit([neighbours[0], mine, neighbours[1]])
    later = await engine.submit(
        [a_job(tenant="mine", idempotency_key="k"), a_job(tenant="mine", unique_key="u")]
    )

    assert alone == among[1] == Submitted(mine.id, Verdict.TAKEN)
    assert [one.verdict for one in (*among[::2], *later)] == [Verdict.ACCEPTED] * 4
    assert await engine.get(theirs.id) == before
    found = (await engine.find(JobFilter(tenant="mine"), limit=10)).jobs
    assert {job.id for job in found} == {one.id for one in (*neighbours, *later)}


async def test_an_id_that_two_tenants_submit_at_once_is_that_of_the_first(
    engine: Engine,
) -> None:
    first = a_job(tenant="theirs")
    second = a_job(id=first.id, tenant="mine", idempotency_key="k")

    answers = await engine.submit([first, second, first])
    (again,) = await engine.submit([a_job(tenant="mine", idempotency_key="k")])

    assert bare(answers[0]) == Submitted(first.id)
    assert answers[1] == Submitted(first.id, Verdict.TAKEN)
    assert bare(answers[2]) == Submitted(first.id, Verdict.REPEATED)
    assert again.verdict is Verdict.ACCEPTED
    assert (await engine.get(first.id)).tenant == "theirs"


async def test_an_id_of_another_tenant_is_as_good_as_a_new_one_for_a_key_that_is_known(
    engine: Engine,
) -> None:
    theirs, mine = a_job(tenant="theirs"), _keyed(tenant="mine")
    await engine.submit([theirs, mine])
    same = replace(_keyed(tenant="mine"), id=theirs.id)
    other = replace(_keyed(content=b"b", tenant="mine"), id=theirs.id)

    answers = await engine.submit([same, other])
    at_once = await engine.submit([new := a_job(tenant="theirs"), replace(same, id=new.id)])

    assert [bare(answer) for answer in answers] == [
        Submitted(mine.id, Verdict.REPEATED),
        Submitted(mine.id, Verdict.CONFLICT),
    ]
    assert bare(at_once[1]) == Submitted(mine.id, Verdict.REPEATED)
