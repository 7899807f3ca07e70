"""What happens to one queue, tenant, key, type or session leaves all others alone."""

from typing import Any

import pytest
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.fair_queueing import QUANTUM
from longshore.core.job import Claim, UniqueUntil, Verdict
from longshore.core.limit_settings import BreakerSettings, Layer, Order, QueueSettings
from longshore.core.schedule import Firing, Schedule, Shot
from longshore.core.state import State
from longshore.records import breaker_settings, queue_settings, schedules
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import numbers
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import DAY, HOUR, MINUTE, SECOND, a_job, a_schedule, an_id
from longshore.testing.manual import ManualWorker, a_worker, reference


async def _say(engine: Engine, queue: str, **settings: object) -> None:
    await queue_settings.put(
        engine, queue, Layer.OVERRIDDEN, replace(QueueSettings(), **settings)
    )


def _queues(claims: list[Claim]) -> list[str]:
    return sorted(claim.queue for claim in claims)


async def test_a_request_to_cancel_is_told_to_the_holder_alone(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    holder, other = await a_worker(engine), await a_worker(engine)
    (claim,), (kept,) = await holder.claim(), await other.claim()
    await engine.change("cancel", [claim.id], reason="no longer needed")

    answers = [await other.exchange(), await other.renew(holding=[kept])]
    told = await holder.exchange()

    assert [answer.cancel for answer in answers] == [[], []]
    assert told.cancel == [reference(claim)]


@pytest.mark.parametrize("is_ordered", [False, True])
async def test_settling_part_of_a_claim_leaves_every_other_claim_alone(
    engine: Engine, is_ordered: bool
) -> None:
    """Claims are told apart by session, by exchange, and by batch inside an exchange."""
    for batch in range(6):
        keys = [f"{batch}:{place}" if is_ordered else None for place in range(2)]
        await engine.submit([a_job(ordering_key=key) for key in keys])
    worker, other = await a_worker(engine), await a_worker(engine)
    done, *kept = [*await worker.claim(4), *await worker.claim(2)]
    others = [*await other.claim(4), *await other.claim(2)]

    await worker.succeed(done)

    states = [(await engine.get(one.id)).state for one in (*kept, *others)]
    answers = [
        await worker.settle(*(settle.released(one) for one in kept)),
        await other.settle(*(settle.released(one) for one in others)),
    ]
    assert states == [State.RUNNING] * 11
    assert [answer.stale for answer in answers] == [[], []]
    assert [(one.succeeded, one.ready) for one in await engine.counts()] == [(1, 11)]


async def test_settling_a_job_leaves_the_starts_of_others_on_record(engine: Engine) -> None:
    for _ in range(4):
        await engine.submit([a_job()])
    worker, other = await a_worker(engine), await a_worker(engine)
    done, last, kept = await worker.claim(3)
    (held,) = await other.claim()
    for claim in (done, last, kept):
        await worker.start(claim)
    await other.start(held)

    await worker.succeed(done)
    await worker.succeed(last)

    for claim in (kept, held):
        job = await engine.get(claim.id)
        assert (job.state, numbers(job)) == (State.RUNNING, (1, 1, 0, 0, 0))
        assert job.started_at is not None


async def test_a_request_to_cancel_stays_when_another_of_its_session_is_heeded(
    engine: Engine,
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    first, second = await worker.claim(2)
    await engine.change("cancel", [first.id, second.id], reason="no longer needed")

    await worker.stop(first)

    assert (await worker.exchange()).cancel == [reference(second)]


async def test_a_repeated_exchange_returns_its_own_claims_alone(engine: Engine) -> None:
    await engine.submit([a_job() for _ in range(6)])
    worker, other = await a_worker(engine), await a_worker(engine)
    await worker.claim()
    await other.claim()
    (last,) = await worker.claim()
    await other.claim()

    again = await worker.repeat()

    assert [claim.id for claim in again.claims] == [last.id]


@pytest.mark.parametrize("way", ["closed", "buried"])
async def test_a_session_that_ends_takes_nothing_from_others(engine: Engine, way: str) -> None:
    await _say(engine, "default", max_running=3)
    await engine.submit([a_job() for _ in range(5)])
    worker, other = await a_worker(engine), await a_worker(engine)
    kept = await worker.claim(2)
    await worker.start(kept[0])
    await engine.change("cancel", [kept[1].id], reason="no longer needed")
    await other.claim()
    before = [await engine.get(claim.id) for claim in kept]

    if way == "closed":
        await other.session.close()
    else:
        await engine.end_session(other.session.token, [])

    attached = await engine.attach_session(worker.session.token)
    answer = await attached.exchange(worker.number + 1, want=9)
    assert [await engine.get(claim.id) for claim in kept] == before
    assert (answer.cancel, len(answer.claims)) == ([reference(kept[1])], 1)


async def test_the_history_of_a_job_tells_nothing_of_others_held_with_it(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(3)])
    worker = await a_worker(engine)
    begun, back, late = await worker.claim(3)
    await worker.start(begun)
    started = clock.now()
    clock.advance(SECOND)

    await worker.settle(settle.released(back))
    await worker.start(late)
    await worker.release(late)
    await worker.release(begun)

    told = [(await engine.attempts(one.id))[-1] for one in (begun, back, late)]
    assert [(one.attempt, one.started_at) for one in told] == [
        (1, started),
        (0, None),
        (1, started + SECOND),
    ]


async def test_a_limit_counts_the_jobs_of_its_own_queue(engine: Engine) -> None:
    for queue in ("a", "b"):
        await _say(engine, queue, max_running=2)
    await engine.submit([a_job(queue=queue) for queue in "ab" for _ in range(5)])
    worker = await a_worker(engine, queues=("a", "b"))

    first = await worker.claim(10)
    done = next(claim for claim in first if claim.queue == "a")
    await worker.succeed(done)
    second = await worker.claim(10)

    assert _queues(first) == ["a", "a", "b", "b"]
    assert _queues(second) == ["a"]


async def test_a_rate_counts_the_jobs_of_its_own_queue(engine: Engine) -> None:
    for queue in ("a", "b"):
        await _say(engine, queue, rate=0.001, burst=2)
    await engine.submit([a_job(queue=queue) for queue in "ab" for _ in range(5)])
    worker = await a_worker(engine, queues=("a", "b"))

    first = await worker.claim(10, queues=["a"])
    second = await worker.claim(10, queues=["b"])

    assert (_queues(first), _queues(second)) == (["a", "a"], ["b", "b"])


async def test_a_limit_holds_nothing_back_where_nothing_waits(engine: Engine) -> None:
    await _say(engine, "full", max_running=1)
    await engine.submit([a_job(queue="full"), a_job(queue="plain")])
    worker = await a_worker(engine, queues=("full", "plain"))
    await worker.claim(1, queues=["full"])

    answer = await worker.exchange(want=5)

    assert _queues(answer.claims) == ["plain"]
    assert answer.look_in is None


async def test_what_runs_of_other_types_is_no_probe(engine: Engine, clock: ManualClock) -> None:
    said = BreakerSettings(failures=1, cooldown=SECOND, probes=1)
    await breaker_settings.put(engine, "noop", Layer.OVERRIDDEN, said)
    await engine.submit([a_job(), *(a_job(type="other") for _ in range(3))])
    worker = await a_worker(engine, types=("noop", "other"))
    claims = await worker.claim(4)
    await worker.fail(claims[0])
    clock.advance(SECOND)
    await engine.promote(limit=10)

    (probe,) = await worker.claim(4)

    assert (probe.id, probe.type) == (claims[0].id, "noop")


async def _two_fair_queues(engine: Engine, jobs: int) -> ManualWorker:
    for queue in ("a", "b"):
        await _say(engine, queue, order=Order.FAIR)
    await engine.submit(
        [
            a_job(queue=queue, tenant=tenant)
            for queue in ("a", "b")
            for tenant in ("x", "y")
            for _ in range(jobs)
        ]
    )
    return await a_worker(engine, queues=("a", "b"))


@pytest.mark.parametrize("many", [1, 2])
async def test_the_order_of_one_queue_is_not_that_of_another(
    engine: Engine, clock: ManualClock, many: int
) -> None:
    await _say(engine, "aging", order=Order.AGING, aging=SECOND)
    await engine.submit([a_job(priority=9) for _ in range(many)])
    clock.advance(HOUR)
    await engine.submit([a_job(priority=1) for _ in range(many)])
    worker = await a_worker(engine)

    claims = await worker.claim(2 * many)

    assert [claim.priority for claim in claims] == [*[1] * many, *[9] * many]


async def test_turns_in_one_fair_queue_cost_a_tenant_nothing_in_another(engine: Engine) -> None:
    worker = await _two_fair_queues(engine, 3 * QUANTUM)
    await worker.claim(QUANTUM, queues=["a"])

    claims = await worker.claim(2 * QUANTUM, queues=["b"])

    assert {claim.queue for claim in claims} == {"b"}
    assert [claim.tenant for claim in claims] == ["x"] * QUANTUM + ["y"] * QUANTUM


async def test_turns_in_one_fair_queue_give_none_away_in_another(engine: Engine) -> None:
    worker = await _two_fair_queues(engine, 4 * QUANTUM)
    first = await worker.claim(QUANTUM, queues=["b"])
    await worker.claim(7 * QUANTUM, queues=["a"])

    second = await worker.claim(QUANTUM, queues=["b"])

    assert {claim.tenant for claim in first} == {"x"}
    assert {claim.tenant for claim in second} == {"y"}


@requires("ordering_keys")
@pytest.mark.parametrize("place", [("a", "x"), ("b", "y")])
async def test_an_ordering_key_orders_the_jobs_of_its_own_queue_and_tenant(
    engine: Engine, place: tuple[str, str]
) -> None:
    widths = {"a": 1, "b": 2}
    for queue, width in widths.items():
        await _say(engine, queue, max_running_per_key=width)
    jobs = {
        (queue, tenant, key): [
            a_job(queue=queue, tenant=tenant, ordering_key=key) for _ in range(3 * width)
        ]
        for queue, width in widths.items()
        for tenant in ("x", "y")
        for key in ("k", "l")
    }
    await engine.submit([job for found in jobs.values() for job in found])
    worker = await a_worker(engine, queues=("a", "b"))
    line, width = jobs[*place, "k"], widths[place[0]]

    first = await worker.claim(40)
    claims = [claim for claim in first if claim.id in {job.id for job in line}]
    runs = [[claim.id for claim in claims]]
    for _ in range(3):
        now = await engine.now()
        await worker.settle(
            *(settle.succeeded(one, started_at=now, finished_at=now) for one in claims)
        )
        claims = await worker.claim(40)
        runs.append([claim.id for claim in claims])

    heads = {job.id for (queue, *_), found in jobs.items() for job in found[: widths[queue]]}
    assert {claim.id for claim in first} == heads
    ids = [job.id for job in line]
    assert runs == [ids[:width], ids[width : 2 * width], ids[2 * width :], []]


@requires("ordering_keys")
async def test_a_key_whose_rate_nobody_waits_for_is_forgotten(engine: Engine) -> None:
    for queue in ("a", "b"):
        await _say(engine, queue, rate_per_key=0.001, burst_per_key=1)
    lines = [("a", "x", "k"), ("b", "x", "k"), ("a", "y", "k"), ("a", "x", "l")]
    await engine.submit(
        [a_job(queue=queue, tenant=tenant, ordering_key=key) for queue, tenant, key in lines]
    )
    await engine.submit([a_job(queue="a", tenant="x", ordering_key="k")])
    worker = await a_worker(engine, queues=("a", "b"))
    for claim in await worker.claim(9):
        await worker.succeed(claim)

    waits, *others = [
        await engine.line(queue, key, tenant=tenant) for queue, tenant, key in lines
    ]

    assert waits is not None
    assert waits.opens_at is not None
    assert others == [None, None, None]


@pytest.mark.parametrize("many", [9, 70])
async def test_of_many_types_the_first_jobs_come_first(engine: Engine, many: int) -> None:
    types = [f"type-{number:02}" for number in range(many)]
    elsewhere = [a_job(queue="other", type=types[-1], priority=1)]
    here = [a_job(type=types[1]), a_job(type=types[0]), a_job(type=types[1])]
    rest = [a_job(type=name) for name in types[2:]]
    await engine.submit(elsewhere)
    await engine.submit([*here, *rest])
    worker = await a_worker(engine, types=types)

    claims = [claim for _ in range(3) for claim in await worker.claim()]
    behind = await worker.claim(many)

    assert [claim.id for claim in claims] == [job.id for job in here]
    assert [claim.id for claim in behind] == [job.id for job in rest]


async def test_a_repeated_job_is_answered_with_its_own_times(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = [a_job(), a_job(delay=SECOND), a_job(delay=MINUTE)]
    first = await engine.submit(jobs)
    clock.advance(SECOND // 2)

    again = await engine.submit(jobs)

    assert {answer.verdict for answer in again} == {Verdict.REPEATED}
    assert [(one.created_at, one.run_at) for one in again] == [
        (one.created_at, one.run_at) for one in first
    ]


@pytest.mark.parametrize("many", [1, 3, 5])
async def test_keys_of_as_many_jobs_as_there_are_can_be_stored_at_once(
    engine: Engine, many: int
) -> None:
    jobs = [
        a_job(idempotency_key=f"key-{number}", unique_key=f"unique-{number}")
        for number in range(many)
    ]

    first = await engine.submit(jobs)
    again = await engine.submit([replace(job, id=an_id()) for job in jobs])

    assert {answer.verdict for answer in first} == {Verdict.ACCEPTED}
    assert [(one.id, one.verdict) for one in again] == [
        (job.id, Verdict.REPEATED) for job in jobs
    ]


@pytest.mark.parametrize("until", UniqueUntil)
async def test_a_unique_key_keeps_out_its_own_tenant_and_key_alone(
    engine: Engine, until: UniqueUntil
) -> None:
    holder = a_job(tenant="x", unique_key="k", unique_until=until)
    await engine.submit([a_job(), holder, a_job(delay=MINUTE)])
    worker = await a_worker(engine)
    (running,) = await worker.claim()
    others = [
        a_job(tenant="x", unique_key="l", unique_until=until),
        a_job(tenant="y", unique_key="k", unique_until=until),
        a_job(tenant="x", unique_key="k", unique_until=until),
    ]

    answers = await engine.submit(others)

    assert running.id != holder.id
    assert [(one.id, one.verdict) for one in answers] == [
        (others[0].id, Verdict.ACCEPTED),
        (others[1].id, Verdict.ACCEPTED),
        (holder.id, Verdict.UNIQUE),
    ]


@requires("ordering_keys")
async def test_an_ordering_key_holds_beside_and_inside_a_fair_queue(engine: Engine) -> None:
    await _say(engine, "a", order=Order.FAIR)
    jobs = [a_job(queue=queue, ordering_key="k") for queue in ("a", "b") for _ in range(2)]
    await engine.submit(jobs)
    worker = await a_worker(engine, queues=("a", "b"))

    claims = await worker.claim(9)

    assert [claim.id for claim in claims] == [jobs[0].id, jobs[2].id]


async def test_firing_a_schedule_leaves_those_of_other_names_and_tenants_alone(
    engine: Engine, clock: ManualClock
) -> None:
    due = clock.now()
    places = [("nightly", "default"), ("nightly", "other"), ("hourly", "default")]
    for name, tenant in places:
        await schedules.put(engine, a_schedule(name=name, tenant=tenant, next_due=due))
    job = a_job()

    await engine.fire(Firing("nightly", "default", due, (Shot(due, job),), due + MINUTE))

    found = {(one.name, one.tenant): one for one in await schedules.every(engine)}
    fired, *others = [found[place] for place in places]
    assert (fired.next_due, fired.last_due, fired.last_job) == (due + MINUTE, due, job.id)
    assert {(one.next_due, one.last_due, one.last_job) for one in others} == {(due, None, None)}


async def test_a_schedule_is_replaced_only_as_it_was_seen_itself(
    engine: Engine, clock: ManualClock
) -> None:
    places = [("nightly", "default"), ("hourly", "default"), ("hourly", "other")]
    stored = [
        a_schedule(name=name, tenant=tenant, every=(place + 1) * HOUR)
        for place, (name, tenant) in enumerate(places)
    ]
    for one in stored:
        await schedules.put(engine, one)

    for one in reversed(stored):
        seen: list[Schedule | None] = []

        def daily(existing: Schedule | None, now: int, seen: list[Any] = seen) -> Schedule:
            seen.append(existing)
            assert existing is not None
            return replace(existing, every=DAY)

        await schedules.change(engine, one.name, one.tenant, daily)
        assert seen == [one]

    assert {one.every for one in await schedules.every(engine)} == {DAY}


async def test_only_the_last_job_of_a_schedule_itself_counts_as_live(
    engine: Engine, clock: ManualClock
) -> None:
    due = clock.now()
    for name in ("ended", "goes-on"):
        await schedules.put(engine, a_schedule(name=name, next_due=due))
        job = a_job(queue=name)
        await engine.fire(Firing(name, "default", due, (Shot(due, job),), due))
    worker = await a_worker(engine, queues=["ended"])
    (claim,) = await worker.claim()
    await worker.succeed(claim)

    found = {one.schedule.name: one for one in await schedules.due(engine, limit=10)}

    assert {name: one.is_last_job_live for name, one in found.items()} == {
        "ended": False,
        "goes-on": True,
    }
