"""Records that claims obey: what a write changes for claims, submits and those who wait."""

import asyncio
from collections import Counter

import msgspec
import pytest
from calls import until

from longshore.contract.records import ANY, Delete, Kind, Put, Record, Ref
from longshore.core.circuit_breaker import Standing
from longshore.core.fair_queueing import QUANTUM
from longshore.core.limit_settings import (
    BreakerFlow,
    BreakerSettings,
    Order,
    Phase,
    QueueFlow,
    QueueSettings,
    QueueState,
    write_body,
)
from longshore.core.view import Pause
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.engine import PostgresEngine
from longshore.errors import ConfigError, QueueFullError
from longshore.records import pauses
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import all_events
from longshore.testing.factories import MINUTE, a_job
from longshore.testing.manual import a_worker

WAITING = """
    select count(*) from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'
       and pg_stat_clear_snapshot() is not null
"""
QUEUE, BREAKER = Ref(Kind.QUEUE, "default"), Ref(Kind.BREAKER, "noop")


def obeyed(settings: QueueSettings, *, resets: bool = False) -> Put:
    body = write_body(QueueFlow("default", QueueSettings(burst=1), settings))
    return Put(ref=QUEUE, body=body, expected=ANY, resets=resets)


async def write(engine: PostgresEngine, *changes: Put | Delete) -> list[Record]:
    return (await engine.write_records(changes, audit=None)).records


async def test_claims_obey_a_queue_as_long_as_its_record_stands(
    engine: PostgresEngine, db: Connection
) -> None:
    await engine.submit([a_job() for _ in range(9)])
    worker = await a_worker(engine)

    await write(engine, obeyed(QueueSettings(max_running=2)))
    limited = await worker.claim(9)
    await write(engine, Delete(ref=QUEUE))

    assert len(limited) == 2
    assert len(await worker.claim(9)) == 7
    assert await db.fetch("select * from longshore.flow") == []


async def test_a_reset_fills_the_bucket_of_a_queue(engine: PostgresEngine) -> None:
    await engine.submit([a_job() for _ in range(9)])
    worker = await a_worker(engine)
    rate = QueueSettings(rate=1.0, burst=3)
    (new,) = await write(engine, obeyed(rate))
    first = await worker.claim(9)
    ((empty,), none) = (await engine.get_records([QUEUE])).records, await worker.claim(9)

    (full,) = await write(engine, obeyed(rate, resets=True))

    assert (len(first), none, len(await worker.claim(9))) == (3, [], 3)
    assert empty is not None
    states = [msgspec.json.decode(one.state, type=QueueState) for one in (new, empty, full)]
    assert [one.empty_at is None for one in states] == [True, False, True]
    assert full.version == new.version + 1


async def test_a_maximum_depth_holds_for_the_next_submit(engine: PostgresEngine) -> None:
    await engine.submit([a_job()])

    await write(engine, obeyed(QueueSettings(max_depth=1)))

    with pytest.raises(QueueFullError):
        await engine.submit([a_job()])
    await write(engine, Delete(ref=QUEUE))
    await engine.submit([a_job()])


async def test_keys_go_on_when_more_of_each_may_run(engine: PostgresEngine) -> None:
    await engine.submit([a_job(ordering_key="anna") for _ in range(3)])
    worker = await a_worker(engine)
    first = await worker.claim(9)

    await write(engine, obeyed(QueueSettings(max_running_per_key=3)))
    await engine.promote(limit=10)

    assert (len(first), len(await worker.claim(9))) == (1, 2)


async def test_a_reset_closes_a_breaker_and_tells_of_it(
    engine: PostgresEngine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(3)])
    body = write_body(BreakerFlow("noop", BreakerSettings(failures=1, cooldown=MINUTE)))
    await write(engine, Put(ref=BREAKER, body=body, expected=0))
    worker = await a_worker(engine)
    (claim,) = await worker.claim(1)
    await worker.fail(claim)
    ((opened,), none) = (await engine.get_records([BREAKER])).records, await worker.claim(9)

    (closed,) = await write(engine, Put(ref=BREAKER, body=body, expected=ANY, resets=True))

    assert opened is not None
    phases = [msgspec.json.decode(one.state, type=Standing).phase for one in (opened, closed)]
    assert phases == [Phase.OPEN, Phase.CLOSED]
    assert (none, len(await worker.claim(9))) == ([], 2)
    assert "breaker.closed" in [one.name for one in await all_events(engine)]


@pytest.mark.parametrize("pause", [Pause("default", None), Pause(None, "noop")])
async def test_what_is_paused_is_not_handed_out(engine: PostgresEngine, pause: Pause) -> None:
    await engine.submit([a_job()])
    worker, ref = await a_worker(engine), Ref(Kind.PAUSE, pause.name)

    await write(engine, Put(ref=ref, body=b"{}", expected=0))
    none = await worker.claim(9)
    shown = await pauses.every(engine)
    await write(engine, Delete(ref=ref))

    assert (none, shown) == ([], [pause])
    assert len(await worker.claim(9)) == 1


async def test_a_pause_of_everything_is_refused(engine: PostgresEngine) -> None:
    with pytest.raises(ConfigError):
        await write(engine, Put(ref=Ref(Kind.PAUSE, "* *"), body=b"{}", expected=0))


async def test_tenants_take_turns_by_the_weights_of_their_records(
    engine: PostgresEngine, db: Connection
) -> None:
    heavy = Ref(Kind.TENANT, "heavy")
    await write(
        engine,
        obeyed(QueueSettings(order=Order.FAIR)),
        Put(ref=heavy, body=b'{"name":"heavy","weight":3}', expected=0),
    )
    await engine.submit([a_job(tenant=name) for name in ("heavy", "light") for _ in range(200)])
    worker = await a_worker(engine)

    shares = Counter(claim.tenant for claim in await worker.claim(4 * QUANTUM))
    await write(engine, Put(ref=heavy, body=b'{"name":"heavy"}', expected=ANY))

    assert shares == {"heavy": 3 * QUANTUM, "light": QUANTUM}
    assert await db.fetch("select * from longshore.tenant_weight") == []


@pytest.mark.parametrize("weight", [0, 1_001])
async def test_a_weight_that_turns_cannot_have_is_refused(
    engine: PostgresEngine, weight: int
) -> None:
    body = b'{"name":"acme","weight":%d}' % weight

    with pytest.raises(ConfigError):
        await write(engine, Put(ref=Ref(Kind.TENANT, "acme"), body=body, expected=0))


async def test_a_setting_that_cannot_be_obeyed_is_refused(engine: PostgresEngine) -> None:
    with pytest.raises(ConfigError):
        await write(engine, obeyed(QueueSettings(max_running=0)))

    assert (await engine.get_records([QUEUE])).records == (None,)


async def test_a_put_of_what_stands_writes_what_claims_read_again(
    engine: PostgresEngine, db: Connection
) -> None:
    (made,) = await write(engine, obeyed(QueueSettings(max_running=2)))
    await db.execute("delete from longshore.flow")

    (again,) = await write(engine, obeyed(QueueSettings(max_running=2)))

    assert again.version == made.version
    assert await db.fetchval("select settings ->> 'max_running' from longshore.flow") == "2"


@pytest.mark.parametrize(
    "made",
    [
        Put(ref=Ref(Kind.PAUSE, "default *"), body=b"{}", expected=0),
        Put(ref=QUEUE, body=b'{"declared":{"max_running":1}}', expected=0),
        Put(ref=BREAKER, body=b'{"declared":{"failures":1}}', expected=0),
        Put(ref=Ref(Kind.TENANT, "acme"), body=b'{"name":"acme","weight":3}', expected=0),
    ],
    ids=lambda put: put.ref.kind.value,
)
async def test_a_delete_in_vain_leaves_what_another_makes_meanwhile(
    engine: PostgresEngine, db: Connection, observer: Connection, made: Put
) -> None:
    flag = Put(ref=Ref(Kind.FLAG, "a"), body=b"{}", expected=0)
    transaction = db.transaction()
    await transaction.start()
    await db.execute("""
        insert into longshore.record (kind, name, body, created_at, changed_at, is_unique)
        values ('flag', 'a', '{}', 1, 1, true)""")
    # It has seen that there is nothing to delete, and waits to make the flag.
    deleting = asyncio.create_task(write(engine, Delete(ref=made.ref), flag))
    await until(observer, WAITING)

    await write(engine, made)
    await transaction.rollback()
    await deleting

    tables = ("flow", "breaker", "pause", "tenant_weight")
    rows = [await db.fetchval(f"select count(*) from longshore.{name}") for name in tables]
    assert sum(rows) == 1
    assert (await engine.get_records([made.ref])).records != (None,)


async def test_whoever_waits_for_work_is_woken(engine: PostgresEngine, db: Connection) -> None:
    heard: list[str] = []
    await db.add_listener("longshore", lambda *told: heard.append(str(told[-1])))
    changes = (
        obeyed(QueueSettings(max_running=2)),
        Put(ref=BREAKER, body=b"{}", expected=ANY),
        Put(ref=Ref(Kind.PAUSE, "default *"), body=b"{}", expected=0),
        Delete(ref=Ref(Kind.PAUSE, "default *")),
    )

    for change in changes:
        heard.clear()
        await write(engine, change)
        await db.execute("select 1")

        assert heard == [""]
