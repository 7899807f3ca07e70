import asyncio
from typing import Any

import pytest

from longshore.contract import Engine, Retention
from longshore.core.job import NewJob, Submitted, Verdict
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import DAY, HOUR, MINUTE, SECOND, a_job
from longshore.testing.manual import a_worker


def _keyed(**options: Any) -> NewJob:
    return a_job(idempotency_key="order:7", fingerprint=b"a", **options)


async def _as_kept(engine: Engine, answer: Submitted) -> tuple[object, ...]:
    job = await engine.get(answer.id)
    return job.created_at, job.run_at, job.state


def _as_told(answer: Submitted) -> tuple[object, ...]:
    return answer.created_at, answer.run_at, answer.state


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delay": HOUR},
        {"run_at": 1},
        {"idempotency_key": "order:7"},
        {"idempotency_key": "order:7", "delay": HOUR},
        {"unique_key": "user:7", "run_at": 4_000_000_000 * SECOND},
    ],
)
async def test_an_accepted_job_is_answered_with_its_times(
    engine: Engine, options: dict[str, Any]
) -> None:
    await engine.submit([a_job()])

    (alone,) = await engine.submit([a_job(**options)])

    assert alone.verdict is Verdict.ACCEPTED
    assert _as_told(alone) == await _as_kept(engine, alone)


async def test_each_job_of_a_batch_is_answered_with_its_own_times(engine: Engine) -> None:
    batch = [a_job(), a_job(delay=HOUR), a_job(run_at=1), a_job(priority=1, delay=MINUTE)]
    keyed = [_keyed(delay=DAY), a_job(unique_key="u"), a_job(delay=SECOND)]

    answers = await engine.submit(batch) + await engine.submit(keyed)

    for answer in answers:
        assert _as_told(answer) == await _as_kept(engine, answer)


async def test_times_are_right_where_some_of_a_batch_are_known(engine: Engine) -> None:
    first = _keyed(delay=HOUR)
    (known,) = await engine.submit([first])
    same = a_job(delay=MINUTE)
    passed = a_job(run_at=1)

    answers = await engine.submit(
        [a_job(delay=DAY), _keyed(delay=HOUR), same, same, first, passed]
    )

    assert [answer.verdict for answer in answers] == [
        Verdict.ACCEPTED,
        Verdict.REPEATED,
        Verdict.ACCEPTED,
        Verdict.REPEATED,
        Verdict.REPEATED,
        Verdict.ACCEPTED,
    ]
    for answer in answers:
        assert _as_told(answer) == await _as_kept(engine, answer)
    assert _as_told(answers[1]) == _as_told(answers[4]) == _as_told(known)


async def test_times_are_right_on_a_clock_that_was_set_back(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    clock.step(-HOUR)
    jobs = [a_job(), a_job(delay=MINUTE), _keyed(), a_job(idempotency_key="b", delay=2 * DAY)]

    answers = [(await engine.submit([job]))[0] for job in jobs] + await engine.submit(
        [a_job(), a_job(delay=MINUTE)]
    )

    for answer in answers:
        assert _as_told(answer) == await _as_kept(engine, answer)
    (again,) = await engine.submit([_keyed()])
    assert _as_told(again) == _as_told(answers[2])


@pytest.mark.parametrize("delay", [0, MINUTE])
async def test_a_repeat_with_a_key_is_answered_as_the_first_was_whatever_came_of_the_job(
    engine: Engine, clock: ManualClock, delay: int
) -> None:
    job = _keyed(delay=delay)
    (first,) = await engine.submit([job])
    clock.advance(delay)
    await engine.promote(limit=10)
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.snooze(claim, HOUR)
    (retried,) = await engine.submit([_keyed(delay=delay)])
    (sent_again,) = await engine.submit([job])
    await engine.change("cancel", [first.id], reason="changed my mind")
    await engine.change("replay", [first.id])
    (replayed,) = await engine.submit([_keyed(delay=delay)])
    await engine.change("cancel", [first.id], reason="changed my mind")
    clock.advance(HOUR)
    await engine.prune(Retention(cancelled=0), limit=10)

    (pruned,) = await engine.submit([_keyed(delay=delay)])

    assert retried == sent_again == replayed == pruned
    assert retried == Submitted(first.id, Verdict.REPEATED, first.created_at, first.run_at)


async def test_a_repeat_without_a_key_is_answered_as_the_job_stands(
    engine: Engine, clock: ManualClock
) -> None:
    job = a_job(delay=MINUTE)
    (first,) = await engine.submit([job])
    told: list[tuple[int, int]] = []

    async def send_again() -> None:
        (again,) = await engine.submit([job])
        assert (again.id, again.verdict) == (job.id, Verdict.REPEATED)
        kept = await engine.get(job.id)
        assert (again.created_at, again.run_at) == (kept.created_at, kept.run_at)
        told.append((again.created_at, again.run_at))

    await send_again()
    clock.advance(MINUTE)
    await engine.promote(limit=10)
    await send_again()
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await send_again()
    await worker.snooze(claim, HOUR)
    await send_again()
    await engine.change("cancel", [job.id], reason="changed my mind")
    await send_again()

    assert {created_at for created_at, _ in told} == {first.created_at}
    assert told[3][1] == clock.now() + HOUR


async def test_many_who_use_a_key_at_once_are_answered_alike(engine: Engine) -> None:
    answers = await asyncio.gather(*(engine.submit([_keyed(delay=HOUR)]) for _ in range(20)))

    assert len({_as_told(answer) for (answer,) in answers}) == 1
    assert _as_told(answers[0][0]) == await _as_kept(engine, answers[0][0])


async def test_what_was_kept_out_is_answered_without_times(engine: Engine) -> None:
    await engine.submit([a_job(unique_key="user:7"), _keyed()])

    answers = await engine.submit(
        [a_job(unique_key="user:7"), a_job(idempotency_key="order:7", fingerprint=b"b")]
    )

    assert [(answer.verdict, answer.created_at, answer.run_at) for answer in answers] == [
        (Verdict.UNIQUE, 0, 0),
        (Verdict.CONFLICT, 0, 0),
    ]


async def test_a_job_sent_again_under_the_key_of_another_is_answered_with_its_own_times(
    engine: Engine, clock: ManualClock
) -> None:
    (first,) = await engine.submit([_keyed()])
    clock.advance(HOUR)
    job = a_job(delay=MINUTE)
    (sent,) = await engine.submit([job])
    clock.advance(SECOND)

    (again,) = await engine.submit([_keyed(id=job.id)])

    assert (again.id, again.verdict) == (job.id, Verdict.REPEATED)
    assert (again.created_at, again.run_at) == (sent.created_at, sent.run_at)
    assert first.created_at != sent.created_at


async def test_jobs_without_keys_that_are_sent_again_are_each_answered_with_their_own_times(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = [a_job(delay=HOUR), a_job(delay=MINUTE), a_job()]
    sent: list[Submitted] = []
    for job in jobs:
        sent += await engine.submit([job])
        clock.advance(SECOND)

    again = await engine.submit(jobs)

    assert [(one.created_at, one.run_at) for one in again] == [
        (one.created_at, one.run_at) for one in sent
    ]
