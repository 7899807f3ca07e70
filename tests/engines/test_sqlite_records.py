"""Records on SQLite: what claims read of them, which indexes lists use, and failed writes."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from longshore.contract.records import (
    ANY,
    Delete,
    Kind,
    Order,
    Put,
    Record,
    RecordFilter,
    Ref,
    Written,
)
from longshore.core import limit_settings
from longshore.core.circuit_breaker import Standing
from longshore.core.event import Name
from longshore.core.fair_queueing import QUANTUM
from longshore.core.limit_settings import (
    BreakerFlow,
    BreakerSettings,
    Phase,
    QueueFlow,
    QueueSettings,
    QueueState,
)
from longshore.engines.sqlite.engine import SqliteEngine
from longshore.engines.sqlite.record_hooks import put_queue
from longshore.engines.sqlite.sql import SQL
from longshore.errors import CapReachedError, QueueFullError
from longshore.records import pauses
from longshore.testing.contract.arranging import all_events
from longshore.testing.factories import HOUR, a_job
from longshore.testing.manual import a_worker, heard

FAIR = QueueSettings(order=limit_settings.Order.FAIR)
QUEUE, BREAKER = Ref(Kind.QUEUE, "default"), Ref(Kind.BREAKER, "noop")
TOO_MANY = Put(ref=Ref(Kind.WEBHOOK, "wh_1", "default"), body=b"{}", expected=0, most=0)


def _queue(settings: QueueSettings, *, resets: bool = False) -> Put:
    body = limit_settings.write_body(QueueFlow("default", declared=settings))
    return Put(ref=QUEUE, body=body, expected=ANY, resets=resets)


def _breaker(settings: BreakerSettings, *, resets: bool = False) -> Put:
    body = limit_settings.write_body(BreakerFlow("noop", overridden=settings))
    return Put(ref=BREAKER, body=body, expected=ANY, resets=resets)


async def _write(engine: SqliteEngine, *changes: Put | Delete) -> Written:
    return await engine.write_records(changes, audit=None)


async def _read(engine: SqliteEngine, ref: Ref) -> Record:
    (found,) = (await engine.get_records([ref])).records
    assert found is not None
    return found


async def test_a_record_limits_a_queue_until_it_is_deleted(engine: SqliteEngine) -> None:
    await engine.submit([a_job() for _ in range(3)])
    worker = await a_worker(engine)

    await _write(engine, _queue(QueueSettings(max_running=1)))
    limited = await worker.claim(9)
    await _write(engine, Delete(ref=QUEUE))

    assert len(limited) == 1
    assert len(await worker.claim(9)) == 2


async def test_the_state_of_a_queue_is_its_bucket_until_it_is_reset(
    engine: SqliteEngine,
) -> None:
    settings = QueueSettings(rate=0.001, burst=2)
    (made,) = (await _write(engine, _queue(settings))).records
    await engine.submit([a_job() for _ in range(9)])
    worker = await a_worker(engine)

    claims = await worker.claim(9)
    emptied = await _read(engine, QUEUE)
    (reset,) = (await _write(engine, _queue(settings, resets=True))).records

    assert len(claims) == 2
    assert msgspec.json.decode(emptied.state, type=QueueState).empty_at is not None
    assert (made.state, reset.state) == (b"{}", b"{}")
    assert len(await worker.claim(9)) == 2


async def test_a_change_of_a_queue_keeps_what_its_bucket_has(engine: SqliteEngine) -> None:
    await _write(engine, _queue(QueueSettings(rate=0.001, burst=2)))
    await engine.submit([a_job() for _ in range(9)])
    worker = await a_worker(engine)
    await worker.claim(9)

    await _write(engine, _queue(QueueSettings(rate=0.002, burst=2)))

    assert await worker.claim(9) == []


async def test_the_state_of_a_breaker_is_its_standing_until_it_is_reset(
    engine: SqliteEngine,
) -> None:
    settings = BreakerSettings(failures=1, cooldown=HOUR)
    await _write(engine, _breaker(settings))
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim(1)
    await worker.fail(claim)

    opened = await _read(engine, BREAKER)
    held = await worker.claim(9)
    (page,) = (await engine.list_records(RecordFilter(kind=Kind.BREAKER), limit=9)).records
    (reset,) = (await _write(engine, _breaker(settings, resets=True))).records

    phases = [
        msgspec.json.decode(it.state, type=Standing).phase for it in (opened, page, reset)
    ]
    assert phases == [Phase.OPEN, Phase.OPEN, Phase.CLOSED]
    assert held == []
    assert len(await worker.claim(9)) == 1
    told = [one.name for one in await all_events(engine) if one.name.startswith("breaker.")]
    assert told == [Name.BREAKER_OPENED, Name.BREAKER_CLOSED]


async def test_who_waits_is_woken_when_the_record_of_a_pause_goes(engine: SqliteEngine) -> None:
    pause = Ref(Kind.PAUSE, "default noop")
    await _write(engine, Put(ref=pause, body=b"{}", expected=0))
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    held = await worker.claim(9)
    waiting = asyncio.ensure_future(worker.session.wait(30))
    await heard(engine)

    await _write(engine, Delete(ref=pause))
    async with asyncio.timeout(10):
        await waiting

    assert held == []
    assert len(await worker.claim(9)) == 1


async def test_the_weight_in_a_tenants_record_is_its_share_of_a_fair_queue(
    engine: SqliteEngine, path: Path
) -> None:
    acme = Ref(Kind.TENANT, "acme")
    body = b'{"name":"acme","weight":3}'
    await _write(engine, _queue(FAIR), Put(ref=acme, body=body, expected=0))
    jobs = [a_job(tenant=name) for name in ("acme", "other") for _ in range(200)]
    await engine.submit(jobs)
    worker = await a_worker(engine)

    served = Counter(claim.tenant for claim in await worker.claim(4 * QUANTUM))
    weights = _weights(path)
    await _write(engine, Put(ref=acme, body=b'{"name":"acme"}', expected=ANY))

    assert served == {"acme": 3 * QUANTUM, "other": QUANTUM}
    assert (weights, _weights(path)) == ({"acme": 3}, {})


async def test_a_tenants_weight_and_pauses_go_with_it(engine: SqliteEngine, path: Path) -> None:
    acme, pause = Ref(Kind.TENANT, "acme"), Ref(Kind.PAUSE, "default *", "acme")
    body = b'{"name":"acme","weight":3}'
    await _write(engine, Put(ref=acme, body=body, expected=0))
    await _write(engine, Put(ref=pause, body=b"{}", expected=0))
    before, paused = _weights(path), await pauses.every(engine)

    await _write(engine, Delete(ref=acme))

    assert (before, len(paused)) == ({"acme": 3}, 1)
    assert (_weights(path), await pauses.every(engine)) == ({}, [])


def _weights(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("select tenant, weight from longshore_weight"))


async def test_a_write_sent_again_does_what_the_first_had_no_time_for(
    engine: SqliteEngine, path: Path
) -> None:
    """Whoever wrote may have been gone before the ordering keys of the queue were opened."""
    jobs = [a_job(ordering_key="k") for _ in range(3)]
    await engine.submit(jobs)
    wider = replace(_queue(QueueSettings(max_running_per_key=2)), expected=0)
    await _write(engine, wider)
    with closing(sqlite3.connect(path)) as db:
        db.execute("update longshore_line set opens_at = null")
        db.commit()

    await _write(engine, wider)
    await engine.promote(limit=9)

    worker = await a_worker(engine)
    assert [claim.id for claim in await worker.claim(9)] == [job.id for job in jobs[:2]]


async def test_a_queue_that_was_sorted_in_vain_goes_on_as_before(
    engine: SqliteEngine, path: Path
) -> None:
    """The sorting is done before the commit; here nothing comes of that."""
    first = [a_job(tenant="flood") for _ in range(9)]
    await engine.submit(first)
    with pytest.raises(CapReachedError):
        await _write(engine, _queue(FAIR), TOO_MANY)
    later = [a_job(tenant=name) for name in ("flood", "quiet", "flood")]
    await engine.submit(later)
    worker = await a_worker(engine)

    claims = await worker.claim(10)

    assert _lanes(path) == {"": 2}
    assert [claim.id for claim in claims] == [job.id for job in (*first, later[0])]


async def test_a_queue_that_is_sorted_in_part_becomes_fair_whole(
    engine: SqliteEngine, path: Path
) -> None:
    await engine.submit([a_job(tenant="flood") for _ in range(9)])
    with pytest.raises(CapReachedError):
        await _write(engine, _queue(FAIR), TOO_MANY)
    await engine.submit([a_job(tenant=name) for name in ("flood", "quiet", "flood")])
    halfway = _lanes(path)

    await _write(engine, _queue(FAIR))

    assert halfway == {"flood": 9, "": 3}
    assert _lanes(path) == {"flood": 11, "quiet": 1}


async def test_jobs_that_come_between_the_sorting_and_the_commit_are_sorted_too(
    engine: SqliteEngine, path: Path
) -> None:
    await engine.submit([a_job(tenant="a"), a_job(tenant="b")])
    fair = QueueFlow("default", declared=FAIR)

    await engine._writer.call(lambda transaction: put_queue(transaction, fair))  # pyright: ignore[reportPrivateUsage]

    assert _lanes(path) == {"a": 1, "b": 1}


async def test_what_a_fair_queue_is_told_again_sorts_nothing(
    engine: SqliteEngine, path: Path
) -> None:
    await _write(engine, _queue(FAIR))
    await engine.submit([a_job(), a_job()])
    with closing(sqlite3.connect(path)) as db:
        db.execute("update longshore_ready set lane = ''")
        db.commit()

    await _write(engine, _queue(replace(FAIR, max_running=9)))

    assert _lanes(path) == {"": 2}


def _lanes(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        lanes = db.execute("select lane, count(*) from longshore_ready group by lane")
        return dict(lanes)


async def test_a_write_that_fails_leaves_tables_and_memory_as_they_were(
    engine: SqliteEngine, path: Path
) -> None:
    settings = BreakerSettings(failures=1, cooldown=HOUR)
    await _write(engine, _breaker(settings), _queue(QueueSettings(max_depth=9)))
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    await worker.fail((await worker.claim(1))[0])
    tables, events = _tables(path), await all_events(engine)
    counted_until = engine._depths._until  # pyright: ignore[reportPrivateUsage]

    with pytest.raises(CapReachedError):
        await _write(
            engine,
            _breaker(settings, resets=True),
            _queue(QueueSettings(max_depth=1_000)),
            Put(ref=Ref(Kind.PAUSE, "default *"), body=b"{}", expected=0),
            Put(ref=Ref(Kind.TENANT, "acme"), body=b'{"name":"acme","weight":2}', expected=0),
            TOO_MANY,
        )

    assert engine._depths._until == counted_until  # pyright: ignore[reportPrivateUsage]
    assert (_tables(path), await all_events(engine)) == (tables, events)


def _tables(path: Path) -> list[list[object]]:
    names = ("record", "flow", "breaker", "pause", "weight")
    with closing(sqlite3.connect(path)) as db:
        return [db.execute(f"select * from longshore_{name}").fetchall() for name in names]


async def test_a_new_depth_of_a_queue_holds_at_once(engine: SqliteEngine) -> None:
    await _write(engine, _queue(QueueSettings(max_depth=1)))
    await engine.submit([a_job()])
    with pytest.raises(QueueFullError):
        await engine.submit([a_job()])

    await _write(engine, _queue(QueueSettings(max_depth=2)))

    await engine.submit([a_job()])


def _plan(path: Path, statement: str, scope: dict[str, object]) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [row[3] for row in db.execute(f"explain query plan {statement}", scope)]


_WHERE: dict[str, object] = {
    "kind": "key",
    "owner": "acme",
    "created_at": 0,
    "name": "a",
    "tenant": "",
    "prefix": "a",
    "end": "b",
    "limit": 1,
}


@pytest.mark.parametrize(
    ("order", "tenant", "index"),
    [
        (Order.NAME, None, "PRIMARY KEY (kind=? AND (name,tenant)>(?,?)"),
        (Order.NAME, "acme", "longshore_record_tenant (tenant=? AND kind=? AND name>? AND"),
        (
            Order.OLDEST,
            None,
            "INDEX longshore_record_age (kind=? AND (created_at,name,tenant)>",
        ),
        (Order.OLDEST, "acme", "longshore_record_tenant_age (tenant=? AND kind=? AND"),
        (
            Order.NEWEST,
            None,
            "INDEX longshore_record_age (kind=? AND (created_at,name,tenant)<",
        ),
        (Order.NEWEST, "acme", "longshore_record_tenant_age (tenant=? AND kind=? AND"),
    ],
)
async def test_a_page_of_records_is_read_from_its_index_without_sorting(
    engine: SqliteEngine, path: Path, order: Order, tenant: str | None, index: str
) -> None:
    pages = {
        Order.NAME: (SQL.records_by_name, SQL.tenant_records_by_name),
        Order.OLDEST: (SQL.records_oldest, SQL.tenant_records_oldest),
        Order.NEWEST: (SQL.records_newest, SQL.tenant_records_newest),
    }
    plan = _plan(path, SQL.record_columns + pages[order][tenant is not None], _WHERE)

    assert any(index in step for step in plan), plan
    assert not [step for step in plan if "TEMP B-TREE" in step or "SCAN" in step], plan


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (SQL.record_get, "SEARCH r USING PRIMARY KEY (kind=? AND name=? AND tenant=?)"),
        (SQL.record_get, "SEARCH o USING PRIMARY KEY (kind=? AND name=?)"),
        (SQL.record_get, "SEARCH t USING PRIMARY KEY (kind=? AND name=? AND tenant=?)"),
        (SQL.records_count, "longshore_record_tenant (tenant=? AND kind=?)"),
        (SQL.records_delete, "longshore_record_tenant"),
    ],
)
async def test_records_are_found_by_their_names_and_owners(
    engine: SqliteEngine, path: Path, statement: str, index: str
) -> None:
    plan = _plan(path, statement, {**_WHERE, "refs": "[]", "with_tenants": 1})

    assert any(index in step for step in plan), plan
    assert not [step for step in plan if "SCAN longshore_" in step], plan
