import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import Failure
from longshore.core.state import SETTLING, State, Verb, after
from longshore.errors import IllegalTransitionError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import numbers, snapshot
from longshore.testing.factories import HOUR, MINUTE, SECOND, a_job, a_settlement
from longshore.testing.manual import a_worker, reference


@pytest.mark.parametrize("verb", sorted(SETTLING))
async def test_settling_moves_the_job_where_the_state_machine_says(
    engine: Engine, verb: Verb
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()

    answer = await worker.settle(a_settlement(claim, verb))

    job = await engine.get(claim.id)
    assert answer.stale == []
    assert job.state is after(State.RUNNING, verb)
    assert (job.worker, job.delivery) == (None, 1)


NUMBERS: list[tuple[Verb, dict[str, bool], tuple[int, ...]]] = [
    (Verb.SUCCEED, {}, (1, 1, 0, 0, 0)),
    (Verb.RETRY, {"charge": True}, (1, 1, 1, 0, 0)),
    (Verb.KILL, {"charge": True}, (1, 1, 1, 0, 0)),
    (Verb.RETRY, {"crash": True}, (1, 1, 0, 1, 0)),
    (Verb.KILL, {"crash": True}, (1, 1, 0, 1, 0)),
    (Verb.SNOOZE, {}, (1, 1, 0, 0, 0)),
    (Verb.RELEASE, {}, (1, 1, 0, 0, 0)),
    (Verb.CANCEL, {}, (1, 1, 0, 0, 0)),
    (Verb.RECLAIM, {"crash": True}, (1, 1, 0, 1, 0)),
    (Verb.RECLAIM, {"lapse": True}, (1, 1, 0, 0, 1)),
]


@pytest.mark.parametrize(("verb", "costs", "expected"), NUMBERS)
@pytest.mark.parametrize("reported", [True, False], ids=["start known", "start unknown"])
async def test_a_start_counts_once_whether_it_was_reported_before_or_with_the_settlement(
    engine: Engine,
    clock: ManualClock,
    verb: Verb,
    costs: dict[str, bool],
    expected: tuple[int, ...],
    reported: bool,
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    if reported:
        await worker.start(claim)

    await worker.settle(a_settlement(claim, verb, started_at=clock.now(), **costs))

    assert numbers(await engine.get(claim.id)) == expected


@pytest.mark.parametrize("verb", sorted(SETTLING - {Verb.SUCCEED}))
async def test_what_never_started_is_no_attempt(engine: Engine, verb: Verb) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()

    await worker.settle(a_settlement(claim, verb))

    assert numbers(await engine.get(claim.id)) == (1, 0, 0, 0, 0)


async def test_a_start_and_its_settlement_may_travel_together(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    now = clock.now()

    await worker.exchange(
        started=[reference(claim)],
        settlements=[settle.succeeded(claim, started_at=now, finished_at=now)],
    )

    assert numbers(await engine.get(claim.id)) == (1, 1, 0, 0, 0)


async def test_a_start_of_a_claim_that_is_gone_is_ignored(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker, other = await a_worker(engine), await a_worker(engine)
    (stale,) = await worker.claim()
    await worker.release(stale)
    (fresh,) = await other.claim()

    answer = await worker.start(stale)

    assert answer.stale == []
    assert numbers(await engine.get(fresh.id)) == (2, 0, 0, 0, 0)


async def test_success_keeps_the_result_and_the_times(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    started, finished = clock.now() + SECOND, clock.now() + 3 * SECOND
    clock.advance(MINUTE // 6)

    await worker.settle(
        settle.succeeded(
            claim, started_at=started, finished_at=finished, result=b'{"sum":\x007}'
        )
    )

    job = await engine.get(claim.id)
    assert (job.started_at, job.finished_at) == (started, finished)
    assert job.result == b'{"sum":\x007}'
    assert (job.failure, job.reason) == (None, None)


async def test_a_retry_is_due_by_the_engines_clock_and_keeps_the_failure(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    why = settle.failure("ValueError", "no such user: Łódź", "Traceback\n  …")
    now = clock.now()
    clock.advance(SECOND)

    await worker.settle(
        settle.failed(claim, why, delay=MINUTE, started_at=now, finished_at=now)
    )

    job = await engine.get(claim.id)
    assert (job.state, job.run_at) == (State.SCHEDULED, clock.now() + MINUTE)
    assert job.failure == why
    assert job.finished_at is None


async def test_a_job_remembers_its_last_failure_after_it_succeeded(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    why = Failure("ValueError", "once")
    await worker.fail(claim, why)
    clock.advance(SECOND)
    await engine.promote(limit=1)
    (claim,) = await worker.claim()

    await worker.succeed(claim)

    job = await engine.get(claim.id)
    assert (job.state, job.failure) == (State.SUCCEEDED, why)


async def test_a_killed_job_is_dead_and_says_why(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()

    await worker.kill(claim, "the account is closed")

    job = await engine.get(claim.id)
    assert (job.state, job.reason) == (State.DEAD, "the account is closed")
    assert job.finished_at == clock.now()
    assert job.failure is not None
    assert job.failure.message == "the account is closed"


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
async def test_a_job_that_always_fails_is_dead_after_exactly_its_attempts(
    engine: Engine, clock: ManualClock, max_attempts: int
) -> None:
    new = a_job(max_attempts=max_attempts)
    await engine.submit([new])
    worker = await a_worker(engine, lease=HOUR)
    runs = 0
    while claims := await worker.claim():
        runs += 1
        await worker.fail(claims[0])
        clock.advance(SECOND)
        await engine.promote(limit=1)

    job = await engine.get(new.id)

    assert (job.state, job.reason) == (State.DEAD, "exhausted")
    assert runs == max_attempts
    assert numbers(job) == (max_attempts, max_attempts, max_attempts, 0, 0)


async def test_a_snooze_costs_no_failure_however_often(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job(max_attempts=1)
    await engine.submit([new])
    worker = await a_worker(engine, lease=HOUR)
    for _ in range(3):
        (claim,) = await worker.claim()
        await worker.snooze(claim, MINUTE)
        clock.advance(MINUTE)
        await engine.promote(limit=1)

    job = await engine.get(new.id)

    assert job.state is State.READY
    assert numbers(job) == (3, 3, 0, 0, 0)


async def test_snoozing_one_of_a_batch_leaves_the_others_alone(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(5)])
    worker = await a_worker(engine)
    claims = await worker.claim(5)

    await worker.snooze(claims[2], 5 * MINUTE)

    jobs = [await engine.get(claim.id) for claim in claims]
    assert (jobs[2].state, jobs[2].run_at) == (State.SCHEDULED, clock.now() + 5 * MINUTE)
    assert numbers(jobs[2]) == (1, 1, 0, 0, 0)
    others = [job for job in jobs if job is not jobs[2]]
    assert {job.state for job in others} == {State.RUNNING}
    assert {numbers(job) for job in others} == {(1, 0, 0, 0, 0)}


@pytest.mark.parametrize("verb", sorted(SETTLING))
async def test_ending_one_of_a_batch_leaves_the_others_to_end_as_they_will(
    engine: Engine, clock: ManualClock, verb: Verb
) -> None:
    await engine.submit([a_job() for _ in range(3)])
    worker = await a_worker(engine)
    before, claim, behind = await worker.claim(3)
    await worker.settle(a_settlement(claim, verb, delay=MINUTE))
    now = clock.now()

    answer = await worker.settle(
        settle.succeeded(behind, started_at=now, finished_at=now), settle.released(before)
    )

    assert answer.stale == []
    assert (await engine.get(before.id)).state is State.READY
    assert (await engine.get(claim.id)).state is after(State.RUNNING, verb)
    assert (await engine.get(behind.id)).state is State.SUCCEEDED


async def test_settling_and_claiming_travel_together(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = [a_job(), a_job(), a_job()]
    await engine.submit(jobs)
    worker = await a_worker(engine)
    first, second = await worker.claim(2)
    now = clock.now()

    answer = await worker.exchange(
        settlements=[
            settle.succeeded(first, started_at=now, finished_at=now),
            settle.released(second),
        ],
        want=5,
    )

    assert [(claim.id, claim.delivery) for claim in answer.claims] == [
        (jobs[1].id, 2),
        (jobs[2].id, 1),
    ]


async def test_a_session_that_waits_for_more_settles_what_it_holds(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    held, lost = await worker.claim(2)
    await worker.release(lost)
    other = await a_worker(engine)
    await other.claim()
    for _ in range(2):
        assert await worker.claim() == []

    refused = await worker.exchange(settlements=[settle.released(lost)], want=1)
    again = await worker.repeat()
    now = await engine.now()
    ended = settle.succeeded(held, started_at=now, finished_at=now)
    taken = await worker.exchange(settlements=[ended], want=1)

    assert refused.stale == again.stale == [(lost.handle, lost.delivery)]
    assert (taken.stale, taken.claims) == ([], [])
    assert (await engine.get(held.id)).state is State.SUCCEEDED


async def test_jobs_of_a_batch_that_end_together_keep_their_own_times(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(3)])
    worker = await a_worker(engine)
    claims = await worker.claim(3)
    began = clock.now()
    clock.advance(10 * SECOND)
    times = [(began + place * SECOND, began + (9 - place) * SECOND) for place in range(3)]

    await worker.settle(
        *(
            settle.succeeded(claim, started_at=started_at, finished_at=finished_at)
            for claim, (started_at, finished_at) in zip(claims, times, strict=True)
        )
    )

    jobs = [await engine.get(claim.id) for claim in claims]
    assert [(job.started_at, job.finished_at) for job in jobs] == times


async def test_claims_of_several_exchanges_are_settled_in_one(engine: Engine) -> None:
    await engine.submit([a_job() for _ in range(4)])
    worker = await a_worker(engine)
    claims = [*await worker.claim(1), *await worker.claim(2), *await worker.claim(1)]

    answer = await worker.settle(*(settle.released(claim) for claim in reversed(claims)))

    assert answer.stale == []
    assert (await engine.counts())[0].ready == 4


@pytest.mark.parametrize("verb", sorted(set(Verb) - SETTLING))
async def test_a_verb_that_ends_no_claim_is_refused_whole(engine: Engine, verb: Verb) -> None:
    await engine.submit([a_job(), a_job(), a_job()])
    worker = await a_worker(engine)
    good, bad = await worker.claim(2)
    before = await snapshot(engine, good.id, bad.id)

    with pytest.raises(IllegalTransitionError) as caught:
        await worker.exchange(
            settlements=[settle.released(good), a_settlement(bad, verb)], want=1
        )

    assert (caught.value.state, caught.value.verb) == (State.RUNNING, verb)
    assert await snapshot(engine, good.id, bad.id) == before
    assert len(await worker.claim(5)) == 1


async def test_a_retry_cannot_be_claimed_before_it_is_due(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.fail(claim)
    clock.advance(SECOND - 1)
    await engine.promote(limit=10)

    assert await worker.claim() == []


async def test_a_job_put_off_before_it_began_waits_and_nothing_counts(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()

    await worker.settle(settle.put_off(claim, MINUTE))

    job = await engine.get(claim.id)
    assert (job.state, job.run_at) == (State.SCHEDULED, clock.now() + MINUTE)
    assert numbers(job) == (1, 0, 0, 0, 0)


async def test_a_condemned_job_is_dead_without_another_start(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()

    await worker.settle(settle.condemned(claim))

    job = await engine.get(claim.id)
    assert (job.state, job.reason, job.started_at) == (State.DEAD, "poison", None)
    assert numbers(job) == (1, 0, 0, 0, 0)
    (end,) = await engine.attempts(claim.id)
    assert (end.outcome, end.started_at) == ("condemned", None)
