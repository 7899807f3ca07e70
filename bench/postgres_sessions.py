"""Hundreds of sessions on as many connections: how many jobs a second they finish together.

    python bench/postgres_sessions.py --sessions 512 --seconds 15

Each session has a connection of its own and does what a worker with one fetcher does: it
settles what it was given and claims again, without running anything. Producers keep the queue
filled, in a process of their own: beside hundreds of sessions in one event loop each of their
calls would wait for all of those. Prints the rate second by second, and what the server's
sessions waited for.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import asyncpg

from longshore.bench.shared_counters import Board
from longshore.contract import Engine, Session
from longshore.core.job import NewJob
from longshore.core.settle import succeeded
from longshore.engines import open_engine
from longshore.errors import EngineBusyError, EngineUnavailableError
from longshore.runtime.ids import IdSource
from longshore_lab.servers import PostgresServer

_LEASE = 60_000_000
_BATCH = 500
_PRODUCER, _SESSIONS = 0, 1
"""Their places on the board."""
_STOP = 2
_ids = IdSource()


def say(line: str) -> None:
    """One line of the report."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class _Run:
    def __init__(self, options: argparse.Namespace, board: Board) -> None:
        self.options = options
        self.board = board
        self.done = 0
        self.resent = 0
        self.empty = 0
        self.is_over = False
        self.took: list[float] = []
        self.waits: Counter[str] = Counter()

    async def work(self, session: Session) -> None:
        """Exchange until the end; a call that fails is sent again."""
        number, settlements = 1, []
        while not self.is_over:
            begin = time.perf_counter()
            try:
                answer = await session.exchange(
                    number, settlements=settlements, want=self.options.want
                )
            except (EngineBusyError, EngineUnavailableError):
                self.resent += 1
                await asyncio.sleep(0.05)
                continue
            self.took.append(time.perf_counter() - begin)
            self.done += len(settlements)
            self.board.show(_SESSIONS, ready=1, count=self.done)
            number += 1
            settlements = [
                succeeded(one, started_at=answer.now, finished_at=answer.now)
                for one in answer.claims
            ]
            if not answer.claims:
                self.empty += 1
                await session.wait(1.0)

    async def watch(self, url: str) -> None:
        """Sample what the server's sessions wait for."""
        connection = await asyncpg.connect(url)
        while not self.is_over:
            for row in await connection.fetch(
                "select coalesce(wait_event_type || ':' || wait_event, 'running') as event,"
                " count(*) as count from pg_stat_activity"
                " where state = 'active' and pid <> pg_backend_pid() group by 1"
            ):
                self.waits[row["event"]] += row["count"]
            await asyncio.sleep(0.1)
        await connection.close()

    async def tell(self) -> list[float]:
        """The rates, second by second."""
        rates: list[float] = []
        for second in range(self.options.seconds):
            before, begin = self.done, time.monotonic()
            await asyncio.sleep(1)
            rates.append((self.done - before) / (time.monotonic() - begin))
            left = self.board.count(_PRODUCER) - self.done
            say(f"second {second + 1:3d}  {rates[-1]:9.0f} jobs/s  {left:7d} to do")
        self.is_over = True
        self.board.phase = _STOP
        return rates


async def _produce(url: str, folder: Path, ahead: int) -> None:
    """Keep some jobs ahead of the sessions, until told to stop."""
    board, engine = Board(folder / "board"), open_engine(url)
    submitted = 0

    async def submit() -> None:
        nonlocal submitted
        while board.phase < _STOP:
            if submitted - board.count(_SESSIONS) > ahead:
                board.show(_PRODUCER, ready=1, count=submitted)
                await asyncio.sleep(0.005)
                continue
            submitted += _BATCH
            jobs = [NewJob(id=_ids.make(), type="noop", payload=b"{}") for _ in range(_BATCH)]
            await engine.submit(jobs)

    await asyncio.gather(*(submit() for _ in range(4)))
    await engine.close()


async def _opened(engine: Engine, count: int) -> list[Session]:
    async def one(number: int) -> Session:
        return await engine.open_session(
            worker=f"worker-{number}", queues=["default"], types=["noop"], lease=_LEASE
        )

    return list(await asyncio.gather(*(one(number) for number in range(count))))


async def _main(options: argparse.Namespace) -> None:
    settings = {"max_connections": str(options.sessions + 88)}
    with tempfile.TemporaryDirectory(prefix="sessions-") as folder:
        async with PostgresServer(durable=True, settings=settings) as server:
            url = await asyncio.to_thread(server.create, "jobs")
            await _measure(options, url, Path(folder))


async def _measure(options: argparse.Namespace, url: str, folder: Path) -> None:
    engine, board = open_engine(url), Board(folder / "board")
    await engine.migrate()
    run = _Run(options, board)
    words = ["--produce", url, str(folder), "--ahead", str(options.ahead)]
    producer = await asyncio.create_subprocess_exec(sys.executable, __file__, *words)
    try:
        while not board.is_ready(_PRODUCER):  # noqa: ASYNC110  # a number in shared memory
            await asyncio.sleep(0.05)
        sessions = await _opened(engine, options.sessions)
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(run.work(session))
            group.create_task(run.watch(url))
            rates = await run.tell()
        await _report(run, url, rates)
    finally:
        board.phase = _STOP
        await producer.wait()
    await engine.close()


async def _report(run: _Run, url: str, rates: Sequence[float]) -> None:
    rates, took = sorted(rates[3:]), sorted(run.took)
    say(f"median {rates[len(rates) // 2]:.0f} jobs/s, {rates[0]:.0f} to {rates[-1]:.0f}")
    p50, p99 = (took[int(len(took) * share)] * 1e3 for share in (0.5, 0.99))
    say(f"{len(took)} exchanges, p50 {p50:.1f} ms, p99 {p99:.1f} ms; {run.resent} sent again")
    say(f"{run.empty} of them claimed nothing; CPU of this process {time.process_time():.1f} s")
    total = sum(run.waits.values())
    for event, count in run.waits.most_common(8):
        say(f"  {count / total:6.1%}  {event}")
    connection = await asyncpg.connect(url)
    misplaced = await connection.fetchval("select count(*) from longshore.misplaced()")
    say(f"misplaced jobs: {misplaced}")
    await connection.close()


def main() -> None:
    """Print the rates and the waits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=512)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--want", type=int, default=50, help="jobs per claim")
    parser.add_argument("--ahead", type=int, default=50_000, help="jobs kept ready")
    parser.add_argument("--produce", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.produce:
        asyncio.run(_produce(options.produce[0], Path(options.produce[1]), options.ahead))
    else:
        asyncio.run(_main(options))


if __name__ == "__main__":
    main()
