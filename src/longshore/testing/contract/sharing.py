from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core.account import Tenant
from longshore.core.fair_queueing import QUANTUM
from longshore.core.job import Claim
from longshore.core.limit_settings import BreakerSettings, Layer, Order, QueueSettings
from longshore.records import breaker_settings, pauses, queue_settings, tenants
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import HOUR, MINUTE, SECOND, a_job
from longshore.testing.manual import LEASE, a_worker, reclaim_lapsed

OVERRIDDEN = Layer.OVERRIDDEN
FAIR = QueueSettings(order=Order.FAIR)


async def _fair(engine: Engine, **weights: int) -> None:
    await queue_settings.put(engine, "default", OVERRIDDEN, FAIR)
    for name, weight in weights.items():
        await tenants.create(engine, Tenant(name=name, weight=weight))


async def _submit(engine: Engine, **jobs: int) -> None:
    names = [name for name, count in jobs.items() for _ in range(count)]
    await engine.submit([a_job(tenant=name) for name in names])


def _served(claims: Sequence[Claim]) -> dict[str, int]:
    return dict(Counter(claim.tenant for claim in claims))


async def test_tenants_of_a_fair_queue_are_served_by_their_weights(engine: Engine) -> None:
    await _fair(engine, a=3, b=2)
    await _submit(engine, a=700, b=700, c=700)
    worker = await a_worker(engine)

    one = await worker.claim(6 * QUANTUM)
    small = [claim for _ in range(36) for claim in await worker.claim(16)]

    assert _served(one) == {"a": 3 * QUANTUM, "b": 2 * QUANTUM, "c": QUANTUM}
    assert _served(small) == {"a": 288, "b": 192, "c": 96}


async def test_a_flood_only_lengthens_its_own_line(engine: Engine) -> None:
    await _fair(engine)
    await _submit(engine, flood=3_000)
    worker = await a_worker(engine)
    await worker.claim(500)
    await _submit(engine, quiet=5)

    claims = await worker.claim(2 * QUANTUM)

    assert _served(claims) == {"flood": 2 * QUANTUM - 5, "quiet": 5}


async def test_tenants_whose_jobs_come_one_by_one_take_turns_too(engine: Engine) -> None:
    await _fair(engine)
    for name in (*["flood"] * 2 * QUANTUM, "quiet", "quiet"):
        await _submit(engine, **{name: 1})
    worker = await a_worker(engine)

    claims = await worker.claim(QUANTUM + 2)

    assert _served(claims) == {"flood": QUANTUM, "quiet": 2}


async def test_an_answer_says_which_of_its_claims_are_turns(engine: Engine) -> None:
    await _fair(engine)
    await engine.submit([a_job(queue="plain")])
    worker = await a_worker(engine, queues=("default", "plain"))

    plain = await worker.session.exchange(1, want=10)
    await engine.submit([a_job(), a_job(queue="plain")])
    both = await worker.session.exchange(2, want=10)

    assert (len(plain.claims), plain.fair) == (1, ())
    assert (len(both.claims), both.fair) == (2, ("default",))


async def test_a_fair_queue_hands_out_all_it_has(engine: Engine) -> None:
    await _fair(engine, a=2)
    await _submit(engine, a=40, b=3, c=70)
    worker = await a_worker(engine)

    claims = await worker.claim(500)

    assert _served(claims) == {"a": 40, "b": 3, "c": 70}
    assert await worker.claim(500) == []


async def test_who_was_away_has_saved_nothing_up(engine: Engine) -> None:
    await _fair(engine)
    await _submit(engine, a=600, b=1)
    worker = await a_worker(engine)
    await worker.claim(400)
    await _submit(engine, b=400)

    claims = await worker.claim(4 * QUANTUM)

    assert abs(_served(claims)["a"] - _served(claims)["b"]) <= QUANTUM


async def test_what_could_not_be_taken_saves_nothing_up(engine: Engine) -> None:
    await _fair(engine)
    await engine.submit([a_job(tenant="b", type="slow") for _ in range(300)])
    await _submit(engine, a=600)
    worker = await a_worker(engine, types=["noop", "slow"])
    await pauses.pause(engine, type="slow")
    await worker.claim(300)
    await pauses.resume(engine, type="slow")

    claims = await worker.claim(4 * QUANTUM)

    assert abs(_served(claims)["a"] - _served(claims)["b"]) <= QUANTUM


async def test_a_weight_counts_from_the_next_claim_on(engine: Engine) -> None:
    await _fair(engine, a=1)
    await _submit(engine, a=600, b=600)
    worker = await a_worker(engine)
    before = await worker.claim(2 * QUANTUM)
    await tenants.change(engine, "a", lambda seen: replace(seen, weight=5))

    after = await worker.claim(6 * QUANTUM)

    assert _served(before) == {"a": QUANTUM, "b": QUANTUM}
    assert _served(after) == {"a": 5 * QUANTUM, "b": QUANTUM}


async def test_inside_a_tenant_priority_goes_before_arrival(
    engine: Engine, clock: ManualClock
) -> None:
    await _fair(engine)
    for name, priority in (("a", 9), ("b", 5), ("a", 1), ("a", 5), ("b", 2)):
        await engine.submit([a_job(tenant=name, priority=priority)])
        clock.advance(SECOND)
    worker = await a_worker(engine)

    claims = await worker.claim(10)

    assert [(one.tenant, one.priority) for one in claims] == [
        ("a", 1),
        ("a", 5),
        ("a", 9),
        ("b", 2),
        ("b", 5),
    ]


async def test_a_repeated_exchange_of_a_fair_queue_is_no_other_turn(engine: Engine) -> None:
    await _fair(engine, a=3)
    await _submit(engine, a=90, b=90)
    worker, other = await a_worker(engine), await a_worker(engine)
    claims = await worker.claim(20)

    repeated = await worker.repeat()
    others = await other.claim(64)

    assert repeated.claims == claims
    assert _served([*claims, *others]) == {"a": 20 + 32, "b": 32}


async def test_pauses_limits_and_breakers_hold_in_a_fair_queue(
    engine: Engine, clock: ManualClock
) -> None:
    limits = QueueSettings(order=Order.FAIR, max_running=7, rate=1.0, burst=9)
    await queue_settings.put(engine, "default", OVERRIDDEN, limits)
    await breaker_settings.put(
        engine, "bad", OVERRIDDEN, BreakerSettings(failures=1, cooldown=HOUR)
    )
    kinds = [(name, type) for name in "ab" for type in ("noop", "off", "bad")]
    await engine.submit([a_job(tenant=name, type=type) for name, type in kinds * 10])
    await engine.submit([a_job(tenant="a", type="bad", priority=1)])
    await pauses.pause(engine, type="off")
    worker = await a_worker(engine, types=["noop", "off", "bad"])
    await worker.fail((await worker.claim(1))[0])

    first = await worker.exchange(want=20)
    await worker.succeed(first.claims[0])
    second = await worker.exchange(want=20)

    assert {claim.type for claim in first.claims} <= {"noop"}
    assert (len(first.claims), len(second.claims)) == (7, 1)
    assert second.look_in is not None
    clock.advance(10 * SECOND)
    await pauses.pause(engine, queue="default")
    assert await worker.claim(20) == []


async def test_what_comes_back_is_in_the_line_of_its_tenant(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(tenant=name, delay=SECOND) for name in "abcabc"])
    await _fair(engine)
    await engine.submit([a_job(tenant=name) for name in "ddabcabc"])
    dead, worker = await a_worker(engine), await a_worker(engine, lease=HOUR)
    lost = await dead.claim(5)
    (killed,) = await worker.claim(1)
    await worker.kill(killed)
    await engine.change("replay", [killed.id])
    clock.advance(LEASE + 1)
    await reclaim_lapsed(engine)
    await engine.promote(limit=100)
    clock.advance(HOUR - LEASE - 2)
    await engine.promote(limit=100)

    claims = await worker.claim(100)

    assert {claim.id for claim in lost} | {killed.id} <= {claim.id for claim in claims}
    assert len(list(groupby(claims, lambda claim: claim.tenant))) == 4
    assert _served(claims) == {"a": 4, "b": 4, "c": 4, "d": 2}


async def test_a_queue_that_becomes_fair_sorts_what_waits_in_it(engine: Engine) -> None:
    await _submit(engine, flood=200)
    await engine.submit([a_job(tenant=name) for name in ("a", "b", "flood", "a")])
    worker = await a_worker(engine)
    before = await worker.claim(10)
    await _fair(engine)

    claims = await worker.claim(QUANTUM + 4)

    assert _served(before) == {"flood": 10}
    assert _served(claims) == {"a": 2, "b": 1, "flood": QUANTUM + 1}
    await queue_settings.put(engine, "default", OVERRIDDEN, QueueSettings())
    await _submit(engine, a=1)
    rest = await worker.claim(500)
    assert [claim.tenant for claim in rest[-2:]] == ["flood", "a"]


async def test_a_job_is_taken_whatever_its_type_and_whoever_serves_it(engine: Engine) -> None:
    await _fair(engine)
    types = [f"t{number}" for number in range(20)]
    await engine.submit([a_job(tenant=name, type=type) for type in types for name in "ab"])
    some = await a_worker(engine, types=types[3:5])
    all_of_them = await a_worker(engine, types=types)

    few = await some.claim(100)
    rest = await all_of_them.claim(100)

    assert {(one.tenant, one.type) for one in few} == {
        (name, type) for name in "ab" for type in types[3:5]
    }
    assert len(few) == 4
    assert len(rest) == 36


async def test_with_aging_a_level_of_priority_is_worth_its_wait_and_no_more(
    engine: Engine, clock: ManualClock
) -> None:
    settings = QueueSettings(order=Order.AGING, aging=MINUTE)
    await queue_settings.put(engine, "default", OVERRIDDEN, settings)
    patient = a_job(priority=9)
    await engine.submit([patient])
    ahead, behind = a_job(priority=1), a_job(priority=1)
    clock.advance(8 * MINUTE - 1)
    await engine.submit([ahead])
    clock.advance(2)
    await engine.submit([a_job(priority=5), behind])
    later = a_job(priority=1, delay=SECOND)
    await engine.submit([later])
    clock.advance(2 * SECOND)
    await engine.promote(limit=10)
    worker = await a_worker(engine)

    claims = await worker.claim(10)

    order = [claim.id for claim in claims]
    assert order[:4] == [ahead.id, patient.id, behind.id, later.id]
    assert len(order) == 5


async def test_jobs_keep_their_place_when_the_order_of_their_queue_changes(
    engine: Engine, clock: ManualClock
) -> None:
    old = [a_job(), a_job(priority=1), a_job(priority=9)]
    await engine.submit(old)
    clock.advance(SECOND)
    settings = QueueSettings(order=Order.AGING, aging=HOUR)
    await queue_settings.put(engine, "default", OVERRIDDEN, settings)
    new = a_job()
    await engine.submit([new])
    worker = await a_worker(engine)

    claims = await worker.claim(10)

    assert [claim.id for claim in claims] == [old[1].id, old[0].id, new.id, old[2].id]
