import pytest

from longshore.contract import Engine
from longshore.core.job import Verdict
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.core.schedule import Firing, Shot
from longshore.errors import QueueFullError
from longshore.records import queue_settings, schedules
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import HOUR, MINUTE, a_job, a_schedule
from longshore.testing.manual import a_worker

DEEP = QueueSettings(max_depth=3)
SOONEST, LATEST = 1.0, 30.0
"""Bounds of `retry_after`: the next count is a second away, or more if counting is slow."""


async def test_a_queue_that_is_deep_enough_takes_no_more(engine: Engine) -> None:
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, DEEP)
    await engine.submit([a_job(queue="mail"), a_job(queue="mail", delay=HOUR)])
    await engine.submit([a_job(queue="mail")])
    late, other = a_job(queue="mail"), a_job(queue="other")

    with pytest.raises(QueueFullError) as refused:
        await engine.submit([other, late])

    assert refused.value.queue == "mail"
    assert SOONEST <= refused.value.retry_after <= LATEST
    (mail,) = await engine.counts()
    assert (mail.queue, mail.ready, mail.scheduled) == ("mail", 2, 1)
    await engine.submit([other])


async def test_a_submit_sent_again_to_a_full_queue_is_answered_as_before(
    engine: Engine,
) -> None:
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, DEEP)
    jobs = [a_job(queue="mail") for _ in range(5)]
    first = await engine.submit(jobs)

    again = await engine.submit(jobs)

    assert [one.id for one in again] == [one.id for one in first]
    assert {one.verdict for one in again} == {Verdict.REPEATED}


async def test_a_key_that_comes_again_to_a_full_queue_is_answered_as_before(
    engine: Engine,
) -> None:
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, QueueSettings(max_depth=1))
    (first,) = await engine.submit([a_job(queue="mail", idempotency_key="k")])

    again, other = [
        (await engine.submit([a_job(queue="mail", idempotency_key="k", fingerprint=content)]))[
            0
        ]
        for content in (b"", b"other")
    ]

    assert (again.id, again.verdict) == (first.id, Verdict.REPEATED)
    assert (again.created_at, again.run_at) == (first.created_at, first.run_at)
    assert (other.id, other.verdict) == (first.id, Verdict.CONFLICT)
    with pytest.raises(QueueFullError):
        await engine.submit([a_job(queue="mail", idempotency_key="new")])
    with pytest.raises(QueueFullError):
        await engine.submit([a_job(queue="mail", idempotency_key="k", tenant="acme")])


async def test_jobs_that_come_apart_are_refused_each_for_itself(engine: Engine) -> None:
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, QueueSettings(max_depth=1))
    (first,) = await engine.submit([a_job(queue="mail", idempotency_key="k")])
    late, other = a_job(queue="mail"), a_job(queue="other")
    again = a_job(queue="mail", idempotency_key="k")

    answers = await engine.submit([late, again, other], independent=True)

    assert [(one.id, one.verdict) for one in answers] == [
        (late.id, Verdict.FULL),
        (first.id, Verdict.REPEATED),
        (other.id, Verdict.ACCEPTED),
    ]
    assert sorted((one.queue, one.ready) for one in await engine.counts()) == [
        ("mail", 1),
        ("other", 1),
    ]


async def test_a_queue_takes_jobs_again_when_it_has_room_or_no_limit(engine: Engine) -> None:
    await queue_settings.put(engine, "mail", Layer.DECLARED, DEEP)
    await engine.submit([a_job(queue="mail") for _ in range(3)])
    worker = await a_worker(engine, queues=["mail"])
    await worker.claim(1)
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, DEEP)  # has the count taken anew

    await engine.submit([a_job(queue="mail")])
    with pytest.raises(QueueFullError):
        await engine.submit([a_job(queue="mail")])
    for layer in Layer:
        await queue_settings.put(engine, "mail", layer, QueueSettings())

    await engine.submit([a_job(queue="mail")])


async def test_a_tenant_that_has_enough_waiting_keeps_no_other_out(engine: Engine) -> None:
    mine = [a_job(queue="mail", tenant="acme", ordering_key="k") for _ in range(2)]
    others = [a_job(queue="mail", tenant="other"), a_job(queue="mail", tenant="third")]
    await engine.submit([*mine, a_job(queue="mail", tenant="acme", delay=HOUR), *others])
    limit = QueueSettings(max_depth_per_tenant=3)
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, limit)

    with pytest.raises(QueueFullError) as refused:
        await engine.submit([a_job(queue="mail", tenant="acme")])
    await engine.submit([a_job(queue="mail", tenant="other"), a_job(tenant="acme")])
    await engine.submit([a_job(queue="mail", tenant="new")])
    worker = await a_worker(engine, queues=["mail"])
    await worker.claim(1)
    await queue_settings.put(engine, "mail", Layer.DECLARED, limit)  # has the count taken anew

    await engine.submit([a_job(queue="mail", tenant="acme")])

    told = refused.value
    assert (told.queue, told.tenant) == ("mail", "acme")
    assert SOONEST <= told.retry_after <= LATEST
    with pytest.raises(QueueFullError, match="'acme'"):
        await engine.submit([a_job(queue="mail", tenant="acme")])


async def test_a_schedule_whose_queue_is_full_stays_due(
    engine: Engine, clock: ManualClock
) -> None:
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, QueueSettings(max_depth=1))
    await engine.submit([a_job(queue="mail")])
    due = clock.now()
    await schedules.put(engine, a_schedule(queue="mail", next_due=due))
    shots = (Shot(due, a_job(queue="mail")),)
    firing = Firing("nightly", "default", due, shots, due + MINUTE)

    with pytest.raises(QueueFullError):
        await engine.fire(firing)
    (late,) = await schedules.due(engine, limit=10)
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, QueueSettings(max_depth=2))
    (answer,) = await engine.fire(firing)

    assert (late.schedule.next_due, late.schedule.last_due) == (due, None)
    assert answer.verdict is Verdict.ACCEPTED
    assert await engine.fire(firing) == []
