"""What a transaction that holds one idempotency key costs all other submits.

    python bench/postgres_held_key.py --seconds 10 --rounds 3

Callers submit jobs with keys of their own, one by one. In every second stretch somebody holds a
key in an open transaction, and a hundred calls a second ask for that very key. Prints the
latency of the others, stretch by stretch, and the ratio of the medians of p99: 2 at most is
promised, and more is exit status 1. With `--seconds 60 --rounds 1` it is held for a minute.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable
from contextlib import suppress
from random import Random
from typing import cast

import asyncpg

from longshore.contract import Engine, TransactionalProducer
from longshore.core import codec
from longshore.core.job import NewJob
from longshore.engines import open_engine
from longshore.errors import EngineBusyError
from longshore.runtime.ids import IdSource
from longshore_lab.servers import PostgresServer

_ids = IdSource()
_HELD = "held"
_MOST = 2.0
"""What the p99 of others may grow by."""


def say(line: str) -> None:
    """One line of the report."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _job(key: str) -> NewJob:
    job = NewJob(id=_ids.make(), type="noop", payload=b"{}", idempotency_key=key)
    return NewJob(
        id=job.id,
        type="noop",
        payload=b"{}",
        idempotency_key=key,
        fingerprint=codec.fingerprint(job),
    )


async def _call(engine: Engine, key: str, took: list[float]) -> None:
    begin = time.perf_counter()
    await engine.submit([_job(key)])
    took.append(time.perf_counter() - begin)


async def _others(engine: Engine, until: float, took: list[float], name: str) -> None:
    number = 0
    while time.monotonic() < until:
        number += 1
        await _call(engine, f"{name}.{number}", took)


async def _askers(engine: Engine, until: float, held: str, every: float) -> int:
    """Ask for the held key again and again; how many calls that were."""
    rng, calls = Random(1), 0

    async def ask() -> None:
        with suppress(EngineBusyError):
            await engine.submit([_job(held)])

    async with asyncio.TaskGroup() as group:
        while time.monotonic() < until:
            calls += 1
            group.create_task(ask())
            await asyncio.sleep(rng.expovariate(1 / every))
    return calls


async def _stretch(
    engine: Engine, url: str, options: argparse.Namespace, name: str, *, is_held: bool
) -> list[float]:
    took: list[float] = []
    until = time.monotonic() + options.seconds
    async with asyncio.TaskGroup() as group:
        for caller in range(options.callers):
            group.create_task(_others(engine, until, took, f"{name}.{caller}"))
        if is_held:
            group.create_task(_held(engine, url, until, f"{_HELD}.{name}", options.every))
    return took


async def _held(engine: Engine, url: str, until: float, key: str, every: float) -> None:
    connection = await asyncpg.connect(url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        stored = cast(TransactionalProducer, engine).submit_on(connection, [_job(key)])
        await cast(Awaitable[object], stored)
        asking = asyncio.create_task(_askers(engine, until, key, every))
        await asyncio.sleep(max(until - time.monotonic(), 0))
        await transaction.rollback()
        say(f"         {await asking} calls asked for the held key")
    finally:
        await connection.close()


def _told(took: list[float]) -> str:
    cuts = statistics.quantiles(took, n=1000)
    p50, p99, p999 = (cuts[one] * 1e3 for one in (499, 989, 998))
    return (
        f"{len(took):7d} calls  p50 {p50:6.2f}  p99 {p99:6.2f}  p99.9 {p999:7.2f}"
        f"  max {max(took) * 1e3:7.2f} ms"
    )


async def _ratio(options: argparse.Namespace) -> float:
    """The p99 of others while a key is held, over that while none is."""
    async with PostgresServer(durable=True) as server:
        url = await asyncio.to_thread(server.create, "jobs")
        engine = open_engine(url)
        await engine.migrate()
        warm = argparse.Namespace(**{**vars(options), "seconds": min(options.seconds, 5.0)})
        await _stretch(engine, url, warm, "warm", is_held=False)
        p99: dict[bool, list[float]] = {False: [], True: []}
        for number in range(options.rounds):
            for is_held in (False, True):
                name = f"{number}.{is_held}"
                took = await _stretch(engine, url, options, name, is_held=is_held)
                p99[is_held].append(statistics.quantiles(took, n=100)[98])
                say(f"{'held' if is_held else 'free'}     {_told(took)}")
        ratio = statistics.median(p99[True]) / statistics.median(p99[False])
        say(f"p99 held / free: {ratio:.2f}")
        await engine.close()
    return ratio


def main() -> int:
    """Print all stretches and the ratio; 1 if it is over what is promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of one stretch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument(
        "--every", type=float, default=0.01, help="seconds between two calls for the held key"
    )
    return int(asyncio.run(_ratio(parser.parse_args())) > _MOST)


if __name__ == "__main__":
    sys.exit(main())
