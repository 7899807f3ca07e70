"""How fast a backlog is worked off that came job by job, so that nearly every span is short.

    python bench/postgres_singles.py --jobs 1000000

Calls of one to five jobs, none joined with another, as they come at a low rate: each becomes a
segment and a span of its own. Then two workers drain them on a durable server. Beside it: what
a look at depth and oldest age takes before that, as a monitor has it, counted to the last job,
and where a queue has a maximum; the same drain of as many jobs in batches of 1,000; and that of
a fifth as many jobs with queues, types, tenants, priorities, keys and results, one to five by
call.
"""

import argparse
import asyncio
import json
import sys
from typing import Any

import msgspec

from longshore.bench.load import Load
from longshore.bench.plan import Plan, Profile
from longshore.engines import open_engine
from longshore.runtime.process import loop_factory
from longshore_lab.experiments.singles import SIZES, drain, fill, look
from longshore_lab.servers import PostgresServer

_BATCHES = (1_000,)


async def main(options: argparse.Namespace) -> None:
    """Short spans, then long ones."""
    async with PostgresServer(durable=True) as server:
        found: dict[str, Any] = {"jobs": options.jobs}
        for kind, profile, sizes, jobs in (
            ("singles", Profile.NOOP, SIZES, options.jobs),
            ("batches", Profile.NOOP, _BATCHES, options.jobs),
            ("real", Profile.REAL, SIZES, max(options.jobs // 5, 1)),
        ):
            url = await asyncio.to_thread(server.create, kind)
            engine = open_engine(url)
            await engine.migrate()
            await engine.close()
            plan = Plan(url=url, profile=profile, processes=2)
            calls = await fill(url, Load(plan), jobs, sizes)
            looks = await look(url, plan.queues)
            rate = await drain(plan, jobs)
            sys.stdout.write(
                f"{kind}: {jobs:,d} jobs in {calls:,d} calls; a monitor is told of"
                f" {looks.told:,d} in {looks.monitored_ms:g} ms, counting takes"
                f" {looks.counted_ms:g} ms, with a maximum {looks.bounded_ms:g} ms; drained at"
                f" {rate:,.0f} jobs/s\n"
            )
            sys.stdout.flush()
            found[kind] = {
                "calls": calls,
                "looks": msgspec.to_builtins(looks),
                "jobs_per_s": rate,
            }
        found["reached"] = found["singles"]["jobs_per_s"] >= options.goal
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--goal", type=float, default=40_000, help="jobs/s of the short spans")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main(parser.parse_args()))
