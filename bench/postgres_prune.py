"""How fast finished jobs are deleted, and what that costs the server.

    python bench/postgres_prune.py --jobs 1000000
    python bench/postgres_prune.py URL --jobs 200000 --batch 100

The database is migrated; without a URL it is on a durable server of its own. It is filled with
jobs that succeeded a while ago, submitted in batches, and pruned until they are gone: as a
scheduler does it, or with `--step` in steps of that many jobs without a pause. Then the tables
are vacuumed, as the server would do by itself.
"""

import argparse
import asyncio
import secrets
import sys
import time
from pathlib import Path

import asyncpg

from longshore.contract import Engine, Retention
from longshore.core import ids
from longshore.core.job import NewJob
from longshore.engines import open_engine
from longshore.scheduler.prune import Pruner
from longshore_lab.servers import PostgresServer

_PAYLOAD = b'{"pad":"%s"}' % (b"x" * 90)
_FINISH = """
    with gone as (delete from longshore.ready where queue = $1 returning *)
    insert into longshore.finished
        (segment, lo, hi, size, state, run_at, delivery, attempt, failures, crashes, lapses,
         finished_at, started, finished)
    select g.segment, g.lo, g.hi, g.size, 'succeeded', g.run_at, 1, 1, 0, 0, 0, g.run_at,
           array_fill(g.run_at, array[g.size::integer]),
           array_fill(g.run_at, array[g.size::integer])
      from gone g
"""
_RESULTS = """
    insert into longshore.result
    select s.segment, i, decode(repeat('7b', 200), 'hex')
      from longshore.segment s, generate_series(0, s.size - 1) i where s.queue = $1
"""
_AT_ONCE = Retention(succeeded=0, outbox=0)
_NOTHING_LEFT = 10.0
"""Seconds: a pruner that has more to do waits for less."""


def processor_us(pid: int) -> float:
    """What a process of the server has used, in microseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e3


async def fill(engine: Engine, url: str, asked: argparse.Namespace) -> None:
    """Jobs that are finished, with an event for each batch."""
    queue = f"prune-{secrets.token_hex(4)}"
    now = await engine.now()
    for _ in range(asked.jobs // asked.batch):
        random = secrets.token_bytes(10 * asked.batch)
        names = [
            ids.make(now // 1000, random[at : at + 10]) for at in range(0, len(random), 10)
        ]
        await engine.submit(
            [NewJob(id=name, type="noop", queue=queue, payload=_PAYLOAD) for name in names]
        )
    connection = await asyncpg.connect(url)
    await connection.execute(_FINISH, queue)
    if asked.results:
        await connection.execute(_RESULTS, queue)
    await connection.execute("vacuum analyze")
    await connection.close()


async def measure(asked: argparse.Namespace) -> None:
    """Fill, prune, vacuum."""
    engine = open_engine(asked.url)
    await engine.migrate()
    await fill(engine, asked.url, asked)
    observer = await asyncpg.connect(asked.url)
    before = {
        row["pid"]: processor_us(row["pid"])
        for row in await observer.fetch("select pid from pg_stat_activity")
    }
    steps: list[float] = []
    pruner = Pruner(engine, _AT_ONCE)
    began, delay = time.perf_counter(), 0.0
    while delay < _NOTHING_LEFT:
        await asyncio.sleep(delay)
        step = time.perf_counter()
        if asked.step:
            pruned = await engine.prune(_AT_ONCE, limit=asked.step)
            delay = _NOTHING_LEFT if pruned < asked.step else 0.0
        else:
            delay = await pruner.tick()
        steps.append(time.perf_counter() - step)
    seconds = time.perf_counter() - began
    used = sum(processor_us(pid) - was for pid, was in before.items()) / asked.jobs
    own = observer.get_server_pid()
    was = processor_us(own)
    await observer.execute("vacuum")
    vacuumed = (processor_us(own) - was) / asked.jobs
    left = await observer.fetchval("select count(*) from longshore.finished")
    sys.stdout.write(
        f"{asked.jobs / seconds:,.0f} jobs/s, {used:.2f} us of the server per job and "
        f"{vacuumed:.2f} for vacuum, longest step {max(steps) * 1e3:.0f} ms of {len(steps)}, "
        f"{left} spans left\n"
    )
    await observer.close()
    await engine.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--step", type=int, default=0)
    parser.add_argument("--results", action="store_true")
    given = parser.parse_args()
    if given.url is not None:
        asyncio.run(measure(given))
    else:
        with PostgresServer(durable=True) as server:
            given.url = server.create("jobs")
            asyncio.run(measure(given))
