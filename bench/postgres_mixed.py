"""Whether depth, tables and rows per job stay what they are under the mixed load, for minutes.

    python bench/postgres_mixed.py --rate 30000 --minutes 10
    python bench/postgres_mixed.py --rate 5000 --minutes 10 --long

70 % of the jobs take 1 to 5 ms, 20 % 0.2 to 2 s, 5 % fail once, 5 % fail for good; with
`--long` one in a hundred takes one to three minutes. They come at a fixed rate, whether or not
the workers follow. Two worker processes and a scheduler that deletes what is over a minute old
share the machine with a durable PostgreSQL of their own. Every ten seconds: finished jobs,
depth, dead rows, sizes, log per job. At the end a table by relation, and one line of JSON.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from longshore.bench.load import Load
from longshore.bench.plan import Plan, Profile
from longshore.bench.shared_counters import Board
from longshore.engines import open_engine
from longshore.runtime.process import loop_factory
from longshore.task import Spec
from longshore_lab.servers import PostgresServer

_BATCH, _MOST_CALLS = 100, 64
_PACE = 0.005
_EVERY = 10.0
_GO, _STOP = 1, 2
_FLAT = 1.25
"""The depth of the last quarter over that of the one before the middle, where it is flat."""
_TABLES = """
    select c.relname as name, pg_total_relation_size(c.oid) as bytes,
           pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid) as written,
           pg_stat_get_dead_tuples(c.oid) as dead
      from pg_class c
     where c.relnamespace = 'longshore'::regnamespace and c.relkind = 'r'
"""
_WAL = "select (pg_current_wal_insert_lsn() - '0/0')::bigint"


@dataclass(frozen=True, slots=True)
class Sample:
    """What there was at one moment."""

    at: float
    submitted: int
    finished: int
    wal: int
    tables: dict[str, Any]
    """By name: bytes, rows written so far, dead rows."""

    @property
    def depth(self) -> int:
        """Jobs that are not finished."""
        return self.submitted - self.finished

    def total(self, what: str) -> int:
        """Over all tables."""
        return sum(table[what] for table in self.tables.values())


class Run:
    """A producer at a fixed rate, and what is sampled meanwhile."""

    def __init__(self, plan: Plan, board: Board, options: argparse.Namespace) -> None:
        self._board = board
        self._options = options
        self._load = Load(plan)
        self._specs = self._load.specs()
        self._submitted = self._planned = self._calls = 0
        self.samples: list[Sample] = []
        self.late = 0
        """The most jobs that were due and not yet given to a call."""

    async def run(self, url: str) -> None:
        """To the end of the time."""
        observer = await asyncpg.connect(url)
        self._began = time.monotonic()
        until = self._began + self._options.minutes * 60
        async with self._load.app, asyncio.TaskGroup() as group:
            self._board.phase = _GO
            group.create_task(self._watch(observer, until))
            await self._submit(group, until)
        await observer.close()

    async def _submit(self, group: asyncio.TaskGroup, until: float) -> None:
        while (now := time.monotonic()) < until:
            due = int((now - self._began) * self._options.rate) - self._planned
            self.late = max(self.late, due)
            for _ in range(min(due // _BATCH, _MOST_CALLS - self._calls)):
                self._planned += _BATCH
                self._calls += 1
                group.create_task(self._call())
            await asyncio.sleep(_PACE)

    async def _call(self) -> None:
        await self._load.app.submit_many(self._batch())
        self._submitted += _BATCH
        self._calls -= 1

    def _batch(self) -> list[Spec[Any]]:
        specs = list(islice(self._specs, _BATCH))
        if self._options.long:
            spread = self._planned * 7_919 % 1_000 / 1_000
            specs[-1] = self._load.app.tasks["bench.sleep"].spec(0, 0, "x", 60 + 120 * spread)
        return specs

    async def _watch(self, observer: asyncpg.Connection, until: float) -> None:
        say("     s  finished/s    depth  dead rows  MB of tables  log bytes/job")
        while True:
            rows = await observer.fetch(_TABLES)
            now = Sample(
                at=time.monotonic() - self._began,
                submitted=self._submitted,
                finished=sum(map(self._board.count, range(1, self._options.processes + 1))),
                wal=await observer.fetchval(_WAL),
                tables={row["name"]: dict(row) for row in rows},
            )
            if self.samples:
                tell(self.samples[-1], now)
            self.samples.append(now)
            if time.monotonic() >= until:
                return
            await asyncio.sleep(min(_EVERY, until - time.monotonic() + 0.1))


def tell(then: Sample, now: Sample) -> None:
    """One line."""
    jobs, seconds = now.finished - then.finished, now.at - then.at
    log = (now.wal - then.wal) / max(jobs, 1)
    say(
        f"{now.at:6.0f}  {jobs / seconds:10,.0f}  {now.depth:7,d}  {now.total('dead'):9,d}"
        f"  {now.total('bytes') / 2**20:12,.0f}  {log:13,.0f}"
    )


def summary(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of the whole, without the first sixth, in which everything fills."""
    samples = run.samples
    first, middle, last = samples[len(samples) // 6], samples[len(samples) // 2], samples[-1]
    jobs = max(last.finished - first.finished, 1)
    say("\nrelation      rows written/job       dead  MB at half  MB at end")
    written = {
        name: round((end["written"] - first.tables[name]["written"]) / jobs, 4)
        for name, end in last.tables.items()
    }
    for name in sorted(last.tables, key=lambda one: -last.tables[one]["bytes"])[:14]:
        end, half = (one.tables[name] for one in (last, middle))
        say(
            f"{name:12}  {written[name]:16.4f}"
            f"  {end['dead']:9,d}  {half['bytes'] / 2**20:10,.1f}  {end['bytes'] / 2**20:9,.1f}"
        )
    quarter = len(samples) // 4
    earlier = _mean(samples[quarter : 2 * quarter])
    later = _mean(samples[-quarter:])
    return {
        "rate": options.rate,
        "minutes": options.minutes,
        "long": options.long,
        "finished_per_s": round(jobs / (last.at - first.at)),
        "depth": [round(earlier), round(later)],
        "flat_depth": later <= earlier * _FLAT + _EVERY,
        "producer_late_jobs": run.late,
        "rows_written_per_job": round(
            (last.total("written") - first.total("written")) / jobs, 3
        ),
        "rows_written_per_job_by_relation": {name: n for name, n in written.items() if n},
        "wal_bytes_per_job": round((last.wal - first.wal) / jobs),
        "dead_rows": last.total("dead"),
        "bytes_at_half": middle.total("bytes"),
        "bytes_at_end": last.total("bytes"),
        "growth_of_second_half": round(last.total("bytes") / middle.total("bytes") - 1, 3),
    }


def _mean(samples: list[Sample]) -> float:
    return sum(one.depth for one in samples) / max(len(samples), 1)


def started(
    url: str, folder: Path, keep: str, workers: Iterable[int]
) -> "list[subprocess.Popen[bytes]]":
    """Workers and a scheduler."""
    environment = {**os.environ, "LONGSHORE_ENGINE_URL": url}  # noqa: TID251  # for the processes
    for name in ("SUCCEEDED", "CANCELLED", "DEAD", "IDEMPOTENCY", "OUTBOX"):
        environment[f"LONGSHORE_SCHEDULER_KEEP_{name}"] = keep
    actor = ["longshore.bench.processes", "worker"]
    commands = [
        *([*actor, str(number), str(folder)] for number in workers),
        ["longshore", "scheduler", "--metrics-port", "0"],
    ]
    return [
        subprocess.Popen(
            [sys.executable, "-m", *words],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=(folder / f"errors.{number}").open("wb"),
        )
        for number, words in enumerate(commands)
    ]


async def measure(url: str, options: argparse.Namespace) -> None:
    """Start everyone, run, and print the figures."""
    engine = open_engine(url)
    await engine.migrate()
    await engine.close()
    workers = range(1, options.processes + 1)
    plan = Plan(
        url=url,
        profile=Profile.MIX,
        processes=options.processes,
        concurrency=options.slots,
    )
    with tempfile.TemporaryDirectory(prefix="mixed-") as name:
        folder = Path(name)
        (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
        board = Board(folder / "board")
        crew = started(url, folder, options.keep, workers)
        try:
            while not all(map(board.is_ready, workers)):  # noqa: ASYNC110  # in memory
                await asyncio.sleep(0.05)
            run = Run(plan, board, options)
            await run.run(url)
            ended = [at for at, process in enumerate(crew) if process.poll() is not None]
            if ended:
                said = (folder / f"errors.{ended[0]}").read_text()
                raise SystemExit(f"a process ended early: {said[-500:]}")
            say(json.dumps(summary(run, options)))
        finally:
            board.phase = _STOP
            await asyncio.sleep(1)
            for process in crew:
                process.terminate()
            for process in crew:
                await asyncio.to_thread(process.wait)


async def main(options: argparse.Namespace) -> None:
    """On the server that is named, or on one of its own."""
    if options.url:
        await measure(options.url, options)
        return
    async with PostgresServer(durable=True) as server:
        await measure(await asyncio.to_thread(server.create, "jobs"), options)


def say(line: str) -> None:
    """One line of the report."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a durable server; without it one is started")
    parser.add_argument("--rate", type=float, default=30_000, help="jobs per second")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--processes", type=int, default=2, help="workers")
    parser.add_argument("--slots", type=int, default=6_000, help="of each worker")
    parser.add_argument("--keep", default="60s", help="how long finished jobs are kept")
    parser.add_argument("--long", action="store_true", help="1 %% take one to three minutes")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main(parser.parse_args()))
