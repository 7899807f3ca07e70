"""A queue on SQLite that becomes fair with more jobs than are sorted at once."""

import sqlite3
from contextlib import closing
from pathlib import Path

from longshore.contract import Engine
from longshore.core.limit_settings import Layer, Order, QueueSettings
from longshore.records import queue_settings
from longshore.testing.factories import a_job


async def test_a_long_queue_is_sorted_in_parts_and_whole(engine: Engine, path: Path) -> None:
    for kind in "ab":
        jobs = [a_job(tenant=f"t{number % 2}", type=kind) for number in range(6_000)]
        await engine.submit(jobs)
    await engine.submit([a_job(queue="other")])

    await queue_settings.put(
        engine, "default", Layer.OVERRIDDEN, QueueSettings(order=Order.FAIR)
    )

    with closing(sqlite3.connect(path)) as db:
        lanes = db.execute("select lane, count(*) from longshore_ready group by lane")
        assert dict(lanes) == {"": 1, "t0": 6_000, "t1": 6_000}
