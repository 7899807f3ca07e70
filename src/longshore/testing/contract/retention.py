"""What is pruned: never more than the limit, the oldest first, and nothing that others need."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from longshore.contract import Engine, Losses, Retention
from longshore.core import settle
from longshore.core.consumer import Quarantined
from longshore.core.event import Name
from longshore.core.job import Verdict
from longshore.core.state import State
from longshore.records import flags, quarantine
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import DAY, HOUR, MINUTE, SECOND, a_job, an_id
from longshore.testing.manual import a_worker

YEARS = 3_650 * DAY
EVERYTHING = 1_000


def _but(**changes: int) -> Retention:
    """Keep all for years, but for this."""
    names = ("succeeded", "cancelled", "dead", "idempotency", "outbox", "audit", "consumer")
    return Retention(**{**dict.fromkeys(names, YEARS), **changes})


async def _keys(engine: Engine, clock: ManualClock) -> Retention:
    for number in range(3):
        await engine.submit([a_job(idempotency_key=f"key-{number}")])
        clock.advance(MINUTE)
    return _but(idempotency=0)


async def _events(engine: Engine, clock: ManualClock) -> Retention:
    for _ in range(3):
        await engine.submit([a_job()])
        clock.advance(MINUTE)
    return _but(outbox=0)


async def _passed_events(engine: Engine, clock: ManualClock) -> Retention:
    retention = await _events(engine, clock)
    cursor = await engine.take_cursor("kafka", holder="a", lease=DAY)
    assert cursor is not None
    last = (await engine.events(after=0, limit=10))[-1]
    await engine.advance(cursor, position=last.position)
    return retention


async def _finished(engine: Engine, clock: ManualClock) -> Retention:
    await engine.submit([a_job() for _ in range(3)])
    worker = await a_worker(engine, lease=DAY)
    for claim in await worker.claim(3):
        await worker.succeed(claim)
        clock.advance(MINUTE)
    return _but(succeeded=0)


async def _set_aside(engine: Engine, clock: ManualClock) -> Retention:
    cursor = await engine.take_cursor("kafka", holder="a", lease=DAY)
    assert cursor is not None
    for number in range(3):
        await engine.submit([a_job()])
        batch = (await engine.events(after=0, limit=10))[-1]
        aside = Quarantined(
            consumer="kafka",
            event_id=f"{number}",
            name=Name.SUBMITTED,
            job_id=an_id(),
            reason="too large",
            body=b"{}",
        )
        await engine.advance(
            cursor, position=batch.position, quarantined=[quarantine.put(aside, "default")]
        )
        clock.advance(MINUTE)
    return _but(dead=0)


async def _full_buckets(engine: Engine, clock: ManualClock) -> Retention:
    for number in range(3):
        await engine.borrow(f"bucket-{number}", rate=1.0, burst=9, want=1)
        clock.advance(MINUTE)
    return _but()


_Arrange = Callable[[Engine, ManualClock], Awaitable[Retention]]
_KINDS: list[_Arrange] = [_keys, _events, _passed_events, _finished, _set_aside]


_UNWANTED: list[_Arrange] = [*_KINDS, _full_buckets]


@pytest.mark.parametrize("arrange", _UNWANTED, ids=lambda one: one.__name__.strip("_"))
async def test_pruning_keeps_to_its_limit_whatever_it_prunes(
    engine: Engine, clock: ManualClock, arrange: _Arrange
) -> None:
    retention = await arrange(engine, clock)

    pruned = [await engine.prune(retention, limit=2) for _ in range(3)]

    assert pruned == [2, 1, 0]


@pytest.mark.parametrize("arrange", _KINDS, ids=lambda one: one.__name__.strip("_"))
async def test_what_is_not_old_enough_is_kept_whatever_it_is(
    engine: Engine, clock: ManualClock, arrange: _Arrange
) -> None:
    """Of three that are one, two and three minutes old, two are past their retention."""
    exact = await arrange(engine, clock)
    retention = _but(
        **{
            name: 90 * SECOND
            for name in ("succeeded", "dead", "idempotency", "outbox")
            if getattr(exact, name) == 0
        }
    )

    pruned = [await engine.prune(retention, limit=EVERYTHING) for _ in range(2)]

    assert pruned == [2, 0]


async def test_the_oldest_idempotency_keys_are_forgotten_first(
    engine: Engine, clock: ManualClock
) -> None:
    retention = await _keys(engine, clock)

    await engine.prune(retention, limit=2)

    answers = [
        (await engine.submit([a_job(idempotency_key=f"key-{number}")]))[0].verdict
        for number in range(3)
    ]
    assert answers == [Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.REPEATED]


@pytest.mark.parametrize("arrange", [_events, _passed_events], ids=["no reader", "read"])
async def test_the_oldest_events_are_forgotten_first(
    engine: Engine, clock: ManualClock, arrange: _Arrange
) -> None:
    retention = await arrange(engine, clock)
    before = await engine.events(after=0, limit=10)

    await engine.prune(retention, limit=2)

    assert await engine.events(after=0, limit=10) == before[2:]


async def test_pruning_a_job_leaves_history_progress_and_keys_of_others(
    engine: Engine, clock: ManualClock
) -> None:
    old = a_job(unique_key="old")
    kept = a_job(unique_key="kept")
    await engine.submit([old, kept])
    worker = await a_worker(engine, lease=DAY)
    claims = {claim.id: claim for claim in await worker.claim(2)}
    await worker.fail(claims[kept.id])
    clock.advance(MINUTE)
    await engine.promote(limit=1)
    (again,) = await worker.claim()
    await worker.report(again, 0.5, "half")
    await worker.report(claims[old.id], 0.9)
    await worker.succeed(claims[old.id])
    before = await engine.get(kept.id), await engine.attempts(kept.id)
    clock.advance(HOUR)

    pruned = await engine.prune(_but(succeeded=0), limit=EVERYTHING)

    answers = await engine.submit([a_job(unique_key="old"), a_job(unique_key="kept")])
    assert pruned == 1
    assert (await engine.get(kept.id), await engine.attempts(kept.id)) == before
    assert before[0].progress is not None
    assert [one.verdict for one in answers] == [Verdict.ACCEPTED, Verdict.UNIQUE]


async def test_a_job_that_took_over_a_unique_key_keeps_it_when_the_first_is_pruned(
    engine: Engine, clock: ManualClock
) -> None:
    first, second = a_job(unique_key="k"), a_job(unique_key="k")
    await engine.submit([first])
    worker = await a_worker(engine, lease=DAY)
    (claim,) = await worker.claim()
    await worker.succeed(claim)
    await engine.submit([second])
    clock.advance(MINUTE)

    pruned = await engine.prune(_but(succeeded=0), limit=EVERYTHING)

    (answer,) = await engine.submit([a_job(unique_key="k")])
    assert pruned == 1
    assert (answer.id, answer.verdict) == (second.id, Verdict.UNIQUE)


async def test_a_consumer_is_gone_since_it_was_given_up_first(
    engine: Engine, clock: ManualClock
) -> None:
    cursor = await engine.take_cursor("kafka", holder="a", lease=MINUTE)
    assert cursor is not None
    clock.advance(2 * HOUR)
    await engine.prune(_but(consumer=HOUR), limit=EVERYTHING)
    (given_up,) = await engine.consumers()
    clock.advance(2 * HOUR)

    await engine.prune(_but(consumer=HOUR), limit=EVERYTHING)

    (still,) = await engine.consumers()
    assert given_up.gone_at is not None
    assert still.gone_at == given_up.gone_at


async def test_a_live_session_is_never_pruned(engine: Engine, clock: ManualClock) -> None:
    worker = await a_worker(engine, lease=DAY)
    await engine.submit([a_job()])
    await worker.claim()
    clock.advance(HOUR)

    await engine.prune(_but(succeeded=0, dead=0), limit=EVERYTHING)

    assert [one.token for one in (await engine.sessions()).sessions] == [worker.session.token]


async def test_pruning_leaves_what_the_store_notes_of_others(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job()])
    lost, worker = await a_worker(engine), await a_worker(engine, lease=DAY)
    await lost.claim()
    await engine.end_session(lost.session.token, [])
    await flags.mute(engine, True)
    for claim in await worker.claim(2):
        await worker.succeed(claim)
    clock.advance(HOUR)

    pruned = await engine.prune(_but(succeeded=0), limit=EVERYTHING)

    assert pruned == 2
    assert (await engine.sessions()).losses == Losses(workers=1, jobs=1)
    assert await flags.is_muted(engine)


async def test_how_many_were_pruned_is_told_while_others_of_the_queue_are_there(
    engine: Engine, clock: ManualClock
) -> None:
    for queue in ("a", "b"):
        await engine.submit([a_job(queue=queue) for _ in range(2)])
    worker = await a_worker(engine, lease=DAY, queues=["a", "b"])
    first, *others = await worker.claim(4)
    await worker.succeed(first)
    clock.advance(HOUR)
    for claim in others:
        await worker.succeed(claim)

    told: list[dict[str, int]] = []
    for _ in range(3):
        await engine.prune(_but(succeeded=MINUTE), limit=EVERYTHING)
        told.append({one.queue: one.pruned for one in await engine.counts()})

    assert told == [{"a": 1, "b": 0}] * 3


async def test_of_a_batch_as_many_are_pruned_as_the_limit_lets(
    engine: Engine, clock: ManualClock
) -> None:
    """Jobs that were claimed and ended together may be stored together."""
    await engine.submit([a_job()])
    worker = await a_worker(engine, lease=DAY)
    (dead,) = await worker.claim()
    await worker.kill(dead)
    await engine.submit([a_job() for _ in range(5)])
    first, back, *others = await worker.claim(5)
    now = clock.now()
    ended = [first, *others]
    await worker.settle(
        settle.released(back),
        *(
            settle.succeeded(one, started_at=now, finished_at=now, result=one.id.hex().encode())
            for one in ended
        ),
    )
    clock.advance(HOUR)

    pruned = await engine.prune(_but(succeeded=0), limit=3)

    (counts,) = await engine.counts()
    assert pruned == 3
    assert (counts.ready, counts.succeeded, counts.dead, counts.pruned) == (1, 1, 1, 3)
    kept = await engine.get(others[-1].id)
    assert (kept.state, kept.result) == (State.SUCCEEDED, kept.id.hex().encode())
    assert (await engine.get(back.id)).state is State.READY


async def test_pruning_some_of_a_batch_leaves_all_that_is_known_of_the_others(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = [a_job() for _ in range(8)]
    await engine.submit(jobs[:4])
    await engine.submit(jobs[4:])
    worker = await a_worker(engine, lease=DAY)
    for claim in await worker.claim(8):
        await worker.fail(claim)
    clock.advance(MINUTE)
    await engine.promote(limit=8)
    claims = {claim.id: claim for claim in await worker.claim(8)}
    gone = [jobs[1], jobs[2], jobs[6]]
    kept = [job for job in jobs if job not in gone]
    for job in [*gone, *kept]:
        await worker.report(claims[job.id], 0.5, job.id.hex())
    for job in gone:
        await worker.succeed(claims[job.id], job.id)
    clock.advance(HOUR)
    for job in kept:
        await worker.succeed(claims[job.id], job.id)
    before = [(await engine.get(job.id), await engine.attempts(job.id)) for job in kept]

    pruned = await engine.prune(_but(succeeded=MINUTE), limit=EVERYTHING)

    assert pruned == len(gone)
    assert [(await engine.get(job.id), await engine.attempts(job.id)) for job in kept] == before
    assert [job.result for job, _ in before] == [job.id for job in kept]
    assert {len(attempts) for _, attempts in before} == {2}


@requires("ordering_keys")
async def test_what_waits_for_its_key_stays_when_the_rest_of_its_batch_is_pruned(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(ordering_key="k")])
    free, waits = a_job(), a_job(ordering_key="k", payload=b'{"n": 1}')
    await engine.submit([free, waits])
    worker = await a_worker(engine, lease=DAY)
    first, second = await worker.claim(9)
    await worker.succeed(second)
    clock.advance(HOUR)

    pruned = await engine.prune(_but(succeeded=MINUTE), limit=EVERYTHING)
    await worker.succeed(first)

    (claim,) = await worker.claim(9)
    assert (pruned, second.id) == (1, free.id)
    assert (claim.id, claim.payload) == (waits.id, waits.payload)


async def test_how_many_were_pruned_is_told_though_only_waiting_jobs_are_left(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine, lease=DAY)
    (claim,) = await worker.claim()
    await worker.succeed(claim)
    clock.advance(HOUR)

    await engine.prune(_but(succeeded=MINUTE), limit=EVERYTHING)

    (counts,) = await engine.counts()
    assert (counts.ready, counts.succeeded, counts.pruned) == (1, 0, 1)


async def test_the_oldest_events_are_forgotten_though_more_young_ones_were_read(
    engine: Engine, clock: ManualClock
) -> None:
    retention = await _passed_events(engine, clock)
    clock.advance(HOUR)
    await _passed_events(engine, clock)
    before = await engine.events(after=0, limit=10)

    pruned = await engine.prune(replace(retention, outbox=HOUR), limit=3)

    assert (len(before), pruned) == (6, 3)
    assert await engine.events(after=0, limit=10) == before[3:]


async def test_an_event_is_kept_though_one_of_an_older_clock_came_behind_it(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    clock.step(-2 * HOUR)
    await engine.submit([a_job()])
    clock.step(2 * HOUR)
    young, old = await engine.events(after=0, limit=10)
    cursor = await engine.take_cursor("kafka", holder="a", lease=DAY)
    assert cursor is not None
    await engine.advance(cursor, position=old.position)

    pruned = await engine.prune(_but(outbox=HOUR), limit=EVERYTHING)

    assert pruned == 1
    assert await engine.events(after=0, limit=10) == [young]
