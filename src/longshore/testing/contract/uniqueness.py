import asyncio

import pytest

from longshore.contract import Engine, JobFilter
from longshore.core.job import NewJob, Submitted, UniqueUntil, Verdict
from longshore.core.state import TERMINAL, State, Verb
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import bare, snapshot
from longshore.testing.factories import HOUR, SECOND, a_job, a_settlement
from longshore.testing.manual import LEASE, a_worker, reclaim_lapsed


def _unique(until: UniqueUntil = UniqueUntil.FINISHED, **changes: object) -> NewJob:
    return a_job(unique_key="user:7", unique_until=until, **changes)


@pytest.mark.parametrize("until", UniqueUntil)
@pytest.mark.parametrize("delay", [0, HOUR], ids=["ready", "scheduled"])
async def test_a_waiting_job_keeps_a_second_one_out(
    engine: Engine, until: UniqueUntil, delay: int
) -> None:
    holder = _unique(until, delay=delay)
    await engine.submit([holder])
    before = await snapshot(engine, holder.id)

    (answer,) = await engine.submit([_unique(until)])

    assert answer == Submitted(holder.id, Verdict.UNIQUE)
    assert await snapshot(engine, holder.id) == before


@pytest.mark.parametrize(
    ("until", "verdict"),
    [(UniqueUntil.STARTED, Verdict.ACCEPTED), (UniqueUntil.FINISHED, Verdict.UNIQUE)],
)
async def test_a_running_job_keeps_others_out_only_until_finished(
    engine: Engine, until: UniqueUntil, verdict: Verdict
) -> None:
    await engine.submit([_unique(until)])
    worker = await a_worker(engine)
    await worker.claim()

    (answer,) = await engine.submit([_unique(until)])

    assert answer.verdict is verdict


async def test_the_holder_says_how_long_it_keeps_others_out(engine: Engine) -> None:
    await engine.submit([_unique(UniqueUntil.FINISHED)])
    worker = await a_worker(engine)
    await worker.claim()

    (answer,) = await engine.submit([_unique(UniqueUntil.STARTED)])

    assert answer.verdict is Verdict.UNIQUE


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_a_finished_job_keeps_nobody_out(engine: Engine, state: State) -> None:
    first = _unique()
    await engine.submit([first])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    ways = {
        State.SUCCEEDED: worker.succeed,
        State.DEAD: worker.kill,
        State.CANCELLED: worker.stop,
    }
    await ways[state](claim)
    second = _unique()

    (answer,) = await engine.submit([second])
    (third,) = await engine.submit([_unique()])

    assert bare(answer) == Submitted(second.id, Verdict.ACCEPTED)
    assert third == Submitted(second.id, Verdict.UNIQUE)


async def test_a_job_that_waits_for_its_retry_keeps_others_out(
    engine: Engine, clock: ManualClock
) -> None:
    first = _unique()
    await engine.submit([first])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.fail(claim)
    (scheduled,) = await engine.submit([_unique()])
    clock.advance(SECOND)
    await engine.promote(limit=1)

    (ready,) = await engine.submit([_unique()])

    assert scheduled == ready == Submitted(first.id, Verdict.UNIQUE)


async def test_a_job_whose_worker_died_keeps_others_out(
    engine: Engine, clock: ManualClock
) -> None:
    first = _unique()
    await engine.submit([first])
    worker = await a_worker(engine)
    await worker.claim()
    clock.advance(LEASE)
    await reclaim_lapsed(engine)

    (answer,) = await engine.submit([_unique()])

    assert answer == Submitted(first.id, Verdict.UNIQUE)


async def test_a_replayed_job_keeps_others_out_again(engine: Engine) -> None:
    first = _unique()
    await engine.submit([first])
    await engine.change("cancel", [first.id], reason="changed my mind")
    await engine.change("replay", [first.id])

    (answer,) = await engine.submit([_unique()])

    assert answer == Submitted(first.id, Verdict.UNIQUE)


async def test_a_purged_job_keeps_nobody_out(engine: Engine) -> None:
    first = _unique()
    await engine.submit([first])
    await engine.change("cancel", [first.id], reason="changed my mind")
    await engine.change("purge", [first.id])

    (answer,) = await engine.submit([_unique()])

    assert answer.verdict is Verdict.ACCEPTED


async def test_a_unique_job_inside_one_batch_is_stored_once(engine: Engine) -> None:
    first, second, other = _unique(), _unique(), a_job(unique_key="user:8")

    answers = await engine.submit([first, second, other])

    assert [bare(answer) for answer in answers] == [
        Submitted(first.id, Verdict.ACCEPTED),
        Submitted(first.id, Verdict.UNIQUE),
        Submitted(other.id, Verdict.ACCEPTED),
    ]


async def test_a_unique_job_from_many_callers_at_once_is_stored_once(engine: Engine) -> None:
    jobs = [_unique() for _ in range(20)]

    answers = await asyncio.gather(*(engine.submit([job]) for job in jobs))

    assert [answer.verdict for (answer,) in answers].count(Verdict.ACCEPTED) == 1
    assert len({answer.id for (answer,) in answers}) == 1
    assert len((await engine.find(JobFilter(), limit=50)).jobs) == 1


async def test_a_unique_job_sent_again_is_a_repeat_of_itself(engine: Engine) -> None:
    job = _unique()
    await engine.submit([job])

    (answer,) = await engine.submit([job])

    assert bare(answer) == Submitted(job.id, Verdict.REPEATED)


async def test_tenants_do_not_keep_each_other_out(engine: Engine) -> None:
    answers = await engine.submit([_unique(tenant="acme"), _unique(tenant="other")])

    assert [answer.verdict for answer in answers] == [Verdict.ACCEPTED, Verdict.ACCEPTED]


async def test_each_unique_key_of_a_batch_is_held_by_its_own_first_job(engine: Engine) -> None:
    names = [(tenant, key) for tenant in ("acme", "other") for key in ("user:7", "user:8")]
    firsts = [a_job(tenant=tenant, unique_key=key) for tenant, key in names]

    answers = await engine.submit(
        [*firsts, *(a_job(tenant=tenant, unique_key=key) for tenant, key in names)]
    )

    assert [bare(answer) for answer in answers] == [
        *(Submitted(job.id, Verdict.ACCEPTED) for job in firsts),
        *(Submitted(job.id, Verdict.UNIQUE) for job in firsts),
    ]


async def test_a_job_that_conflicts_inside_its_batch_takes_no_unique_key(
    engine: Engine,
) -> None:
    first = a_job(idempotency_key="order:7", fingerprint=b"a")
    conflicting = _unique(idempotency_key="order:7", fingerprint=b"b")
    after = _unique()

    answers = await engine.submit([first, conflicting, after])

    assert [bare(answer) for answer in answers] == [
        Submitted(first.id, Verdict.ACCEPTED),
        Submitted(first.id, Verdict.CONFLICT),
        Submitted(after.id, Verdict.ACCEPTED),
    ]


async def test_a_conflicting_job_takes_no_unique_key(engine: Engine) -> None:
    await engine.submit([a_job(idempotency_key="order:7", fingerprint=b"a")])
    conflicting = _unique(idempotency_key="order:7", fingerprint=b"b")
    await engine.submit([conflicting])

    (answer,) = await engine.submit([_unique()])

    assert answer.verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("is_claimed_again", [False, True])
async def test_each_unique_key_of_a_batch_is_held_as_long_as_its_own_job_holds_it(
    engine: Engine, is_claimed_again: bool
) -> None:
    """Neighbours in a batch, and those at the same place of another, are in other states."""
    worker, other = await a_worker(engine), await a_worker(engine)
    ends = [worker.release, worker.fail, worker.start, worker.succeed, worker.kill, worker.stop]
    keys = [[f"{batch}:{place}" for place in range(6)] for batch in ("a", "b")]
    for batch in keys:
        await engine.submit([a_job(unique_key=key) for key in batch])
    claims = await worker.claim(12)
    for end, claim in zip([*ends, *ends[3:], *ends[:3]], claims, strict=True):
        await end(claim)
    if is_claimed_again:
        assert [claim.delivery for claim in await other.claim(2)] == [2, 2]

    answers = [
        (await engine.submit([a_job(unique_key=key)]))[0] for batch in keys for key in batch
    ]

    holds, free = [Verdict.UNIQUE] * 3, [Verdict.ACCEPTED] * 3
    assert [answer.verdict for answer in answers] == [*holds, *free, *free, *holds]


@pytest.mark.parametrize("verb", [Verb.RELEASE, Verb.RETRY, Verb.SUCCEED])
async def test_a_unique_key_is_not_held_by_what_its_neighbours_came_to(
    engine: Engine, clock: ManualClock, verb: Verb
) -> None:
    """Those before and behind it in its batch are settled together."""
    await engine.submit([a_job(unique_key=f"user:{place}") for place in range(3)])
    worker = await a_worker(engine)
    before, between, behind = await worker.claim(3)
    await (worker.fail if verb is Verb.SUCCEED else worker.kill)(between)
    await worker.settle(a_settlement(before, verb), a_settlement(behind, verb))
    if verb is Verb.SUCCEED:
        clock.advance(SECOND)
        await engine.promote(limit=10)
        await worker.claim()

    (answer,) = await engine.submit([a_job(unique_key="user:1")])

    is_held = verb is Verb.SUCCEED
    assert answer.verdict is (Verdict.UNIQUE if is_held else Verdict.ACCEPTED)


async def test_a_unique_job_that_waits_for_its_turn_in_order_keeps_others_out(
    engine: Engine,
) -> None:
    """The first of the line runs, and kept others out only until then."""
    first = _unique(UniqueUntil.STARTED, ordering_key="anna")
    second, third = (a_job(ordering_key="anna", unique_key=f"user:{n}") for n in (8, 9))
    await engine.submit([first, second])
    await engine.submit([third])
    worker = await a_worker(engine)
    assert [claim.id for claim in await worker.claim(3)] == [first.id]

    again = _unique(UniqueUntil.STARTED)
    answers = [
        (await engine.submit([job]))[0]
        for job in (a_job(unique_key="user:8"), a_job(unique_key="user:9"), again)
    ]

    assert [bare(answer) for answer in answers] == [
        Submitted(second.id, Verdict.UNIQUE),
        Submitted(third.id, Verdict.UNIQUE),
        Submitted(again.id, Verdict.ACCEPTED),
    ]


async def test_a_unique_key_that_changes_hands_stays_with_its_holder_in_other_tenants(
    engine: Engine,
) -> None:
    first, other = _unique(tenant="acme"), _unique(tenant="other")
    await engine.submit([first, other])
    await engine.change("cancel", [first.id], reason="changed my mind")
    (next_one,) = await engine.submit([_unique(tenant="acme")])

    (answer,) = await engine.submit([_unique(tenant="other")])

    assert next_one.verdict is Verdict.ACCEPTED
    assert answer == Submitted(other.id, Verdict.UNIQUE)
