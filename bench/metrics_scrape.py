"""How long a scrape takes over a large backlog.

    python bench/metrics_scrape.py [URL | --postgres] [--spans 1000000] [--size 1]

The store at URL (default: a new SQLite file; with --postgres a server of its own; it must be
empty) is filled with ready entries of `size` jobs each, behind the engine's back, and then
scraped once a second by a process that has not looked before. Prints what each took, then all
of it as JSON. No scrape may take 50 ms.
"""

import argparse
import asyncio
import re
import sqlite3
import sys
import tempfile
from contextlib import ExitStack, closing
from time import perf_counter
from typing import Any

from longshore.engines import open_engine
from longshore.observe.engine import metrics_of
from longshore.observe.overview import Overview
from longshore_lab.bounds import Bound, conclude
from longshore_lab.servers import PostgresServer

SCRAPES = 8
AGE = re.compile(r"^longshore_overview_age_seconds (\S+)$", re.MULTILINE)
SQLITE = """
with recursive n(i) as (select 1 union all select i + 1 from n where i < {spans})
insert into longshore_ready (queue, type, rank, seq, size, run_at, delivery, attempt, failures,
                             crashes, lapses)
select 'q' || (i % 4), 't', i, i, 2, i, 0, 0, 0, 0, 0 from n
"""
SQLITE_JOBS = """
insert into longshore_job (seq, id, tenant, queue, type, priority, rank, created_at,
                           max_attempts, payload)
select seq, cast(printf('%016d', seq) as blob), 'default', queue, type, 5, rank, run_at, 5,
       cast('{}' as blob)
  from longshore_ready order by seq
"""
POSTGRES = """
insert into longshore.ready (queue, type, rank, segment, lo, hi, size, weight, run_at)
select 'q' || (i % 4), 't', i, i, 0, $2, $2, 0, i from generate_series(1, $1::bigint) i
"""


async def fill(url: str, spans: int, size: int) -> None:
    """Add the entries behind the engine's back."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
            db.execute(SQLITE.format(spans=spans))
            db.execute(SQLITE_JOBS)
        # A log of gigabytes is not what a store has that was filled in time.
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db:
            db.execute("pragma wal_checkpoint(truncate)")
        return
    import asyncpg  # an extra

    connection = await asyncpg.connect(url)
    await connection.execute("set session_replication_role = replica")
    await connection.execute(POSTGRES, spans, size)
    await connection.close()


async def measure(url: str, spans: int, size: int) -> dict[str, Any]:
    """Fill, scrape, and for comparison look and count."""
    engine = open_engine(url)
    await engine.migrate()
    await fill(url, spans, size)
    await engine.ping()  # as whoever is ready to be scraped has
    metrics, overview = metrics_of(engine), Overview(engine)
    found: dict[str, Any] = {"scrapes_ms": []}
    for number in range(SCRAPES):
        began = perf_counter()
        page = metrics.text(await overview.readings())
        took = (perf_counter() - began) * 1e3
        age = float(AGE.findall(page.decode())[0])
        sys.stdout.write(f"scrape {number + 1}: {took:.1f} ms, counts {age:.1f} s old\n")
        found["scrapes_ms"].append(round(took, 1))
        await asyncio.sleep(1.1)
    for words, may_estimate in (("look", True), ("count", False)):
        began = perf_counter()
        counts = await engine.counts(may_estimate=may_estimate)
        took = (perf_counter() - began) * 1e3
        depths = ", ".join(f"{one.queue} {one.ready:,}" for one in counts)
        sys.stdout.write(f"{words}: {took:.0f} ms, {depths}\n")
        found[f"{words}_ms"] = round(took, 1)
    await engine.close()
    return found


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--postgres", action="store_true", help="start a server")
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1)
    asked = parser.parse_args()
    with ExitStack() as stack:
        if asked.postgres:
            url = stack.enter_context(PostgresServer()).create("scrape")
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = asked.url or f"sqlite:///{folder}/jobs.db"
        found = asyncio.run(measure(url, asked.spans, asked.size))
    engine = "sqlite" if url.startswith("sqlite") else "postgres"
    facts = {"engine": engine, "spans": asked.spans, "size": asked.size}
    slowest = Bound("slowest scrape", max(found["scrapes_ms"]), 50, " ms")
    sys.exit(conclude({**facts, **found}, slowest))


if __name__ == "__main__":
    main()
