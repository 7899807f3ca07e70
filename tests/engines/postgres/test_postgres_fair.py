"""Fair queues beside transactions that others have open."""

import asyncio
from collections import Counter

from longshore.contract import Engine
from longshore.core.fair_queueing import QUANTUM
from longshore.core.limit_settings import Layer, Order, QueueSettings
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.segments import columns, sent
from longshore.engines.postgres.sql import SQL
from longshore.records import queue_settings
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker

FAIR = QueueSettings(order=Order.FAIR)


async def test_what_was_submitted_while_the_queue_became_fair_is_sorted_too(
    engine: Engine, db: Connection
) -> None:
    late = db.transaction()
    await late.start()
    given = sent(columns([a_job(tenant="late"), a_job(tenant="last")], wakes=False))
    await db.fetch(SQL.submit, await engine.now(), None, *given)
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, FAIR)
    await engine.submit([a_job(tenant="flood") for _ in range(500)])
    worker = await a_worker(engine)
    before = Counter(claim.tenant for claim in await worker.claim(10))
    await late.commit()

    after = Counter(claim.tenant for claim in await worker.claim(2 * QUANTUM))

    assert before == {"flood": 10}
    assert after == {"late": 1, "last": 1, "flood": 2 * QUANTUM - 2}


async def test_each_queue_that_became_fair_is_sorted_by_its_own_claims(
    engine: Engine, db: Connection
) -> None:
    queues = ("one", "other")
    async with db.transaction():
        given = sent(columns([a_job(queue=queue) for queue in queues], wakes=False))
        await db.fetch(SQL.submit, await engine.now(), None, *given)
        for queue in queues:
            await queue_settings.put(engine, queue, Layer.OVERRIDDEN, FAIR)
    worker = await a_worker(engine, queues=queues)

    found = [len(await worker.claim(9, queues=[queue])) for queue in reversed(queues)]

    assert found == [1, 1]


async def test_workers_who_claim_at_once_share_by_weight(engine: Engine) -> None:
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, FAIR)
    await engine.submit([a_job(tenant=name) for name in "abc" for _ in range(400)])
    crew = [await a_worker(engine) for _ in range(6)]

    claims = [
        one
        for _ in range(4)
        for part in await asyncio.gather(*(worker.claim(20) for worker in crew))
        for one in part
    ]

    assert len({claim.id for claim in claims}) == len(claims) == 480
    shares = Counter(claim.tenant for claim in claims)
    assert max(shares.values()) - min(shares.values()) <= 2 * QUANTUM


async def test_a_span_of_a_fair_queue_has_one_tenant(engine: Engine, db: Connection) -> None:
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, FAIR)

    await engine.submit([a_job(tenant=f"t{n % 3}", type=f"k{n % 2}") for n in range(60)])

    rows = await db.fetch("select lane, size, types from longshore.ready order by lane")
    assert [(row["lane"], row["size"]) for row in rows] == [("t0", 20), ("t1", 20), ("t2", 20)]
    assert {tuple(row["types"]) for row in rows} == {("k0", "k1")}
    assert await db.fetch("select * from longshore.misplaced()") == []
