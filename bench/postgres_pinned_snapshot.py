"""What an open transaction does to the queue: rate and dead rows, every five seconds.

    python bench/postgres_pinned_snapshot.py URL --seconds 55

The database must be migrated; it is filled with finished jobs and left so.
"""

import argparse
import asyncio
import json
import sys
import time

import asyncpg

_DEAD = """
    select relname, n_dead_tup from pg_stat_user_tables
     where schemaname = 'longshore' and n_dead_tup > 500 order by relname
"""
_FINISHED = "select coalesce(sum(jobs), 0)::bigint from longshore.tallied"


async def watch(url: str, seconds: float) -> None:
    """Run the steady benchmark while a snapshot stays open."""
    forgotten = await asyncpg.connect(url)
    transaction = forgotten.transaction(isolation="repeatable_read")
    await transaction.start()
    await forgotten.fetch("select from longshore.segment limit 1")
    command = [sys.executable, "-m", "longshore", "bench", "--engine", url, "--json"]
    command += ["--mode", "steady", "--profile", "noop", "--seconds", str(seconds)]
    observer = await asyncpg.connect(url)
    finished, then = await observer.fetchval(_FINISHED), time.monotonic()
    pipe = asyncio.subprocess.PIPE
    bench = await asyncio.create_subprocess_exec(*command, stdout=pipe)
    told = asyncio.create_task(bench.communicate())
    while not told.done():
        await asyncio.wait([told], timeout=5.0)
        count, now = await observer.fetchval(_FINISHED), time.monotonic()
        dead = {row["relname"]: row["n_dead_tup"] for row in await observer.fetch(_DEAD)}
        _say(f"{(count - finished) / (now - then):,.0f} jobs/s {dead}")
        finished, then = count, now
    last = json.loads(told.result()[0].splitlines()[-1])
    _say(f"CPU µs per job: {last['cpu_us_per_job']}")
    await transaction.rollback()
    await forgotten.close()
    await observer.close()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=55.0)
    asked = parser.parse_args()
    asyncio.run(watch(asked.url, asked.seconds))
