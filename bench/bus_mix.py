"""The mix at a rate of so many jobs a second, with a relay and Kafka on the same machine.

    python bench/bus_mix.py [--rate 10000] [--seconds 30] [--processes 1] [--no-bus]

Starts PostgreSQL with durable commits, a broker, `longshore relay`, and what `longshore bench`
starts, with jobs that arrive at that rate whatever becomes of them. Every 0.1 s of the
measurement it looks how old the oldest event is that the topic does not have yet. Prints the
figures as JSON, and whether they are within their bounds: at the end no more jobs are
unfinished than in the beginning but for a hundredth of those that came, and 99 % of the time
the topic has all that is older than a second. With `--no-bus` there is neither broker nor
relay, to compare.
"""

import argparse
import asyncio
import os
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any

import msgspec

from longshore.bench.plan import Plan, Profile
from longshore.bench.run import run
from longshore.bench.server import Server
from longshore.contract import Engine
from longshore.engines import open_engine
from longshore_lab.bounds import Bound, conclude
from longshore_lab.kafka import KafkaServer, kafka_jars
from longshore_lab.servers import PostgresServer

_EVERY = 0.1
_PATIENCE = 60.0
_SINK = "kafka"


class Lag:
    """How far the relay is behind, looked at all the time."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._until = 0.0

    def hear(self, what: str, _: float) -> None:
        """What the benchmark does; it says so all the time, but not that it is over."""
        if what == "measuring":
            self._until = time.monotonic() + 2 * _EVERY

    async def watch(self, engine: Engine) -> None:
        """Until it is cancelled."""
        for _ in count():
            if time.monotonic() < self._until:
                self.seconds.append(await _lag(engine))
            await asyncio.sleep(_EVERY)

    def percentile(self, share: float) -> float:
        """Seconds within which it was that share of the time."""
        ordered = sorted(self.seconds) or [0.0]
        return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 3)


async def _lag(engine: Engine) -> float:
    for one in await engine.consumers():
        if one.name == _SINK and one.waits_since is not None:
            return max((await engine.now() - one.waits_since) / 1e6, 0.0)
    return 0.0


@asynccontextmanager
async def relaying(url: str, servers: str) -> AsyncGenerator[Process]:
    """A relay to that broker, which reads."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "longshore", "--url", url, "relay"),
        env=os.environ | {"LONGSHORE_KAFKA_SERVERS": servers, "LONGSHORE_LOG_LEVEL": "warning"},
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


async def until_read(engine: Engine) -> None:
    """Return when a relay has the cursor."""
    async with asyncio.timeout(_PATIENCE):
        for _ in count():
            if any(one.holder for one in await engine.consumers()):
                return
            await asyncio.sleep(_EVERY)


def _plan(url: str, options: argparse.Namespace) -> Plan:
    return Plan(
        url=url,
        profile=Profile.MIX,
        rate=options.rate,
        seconds=options.seconds,
        processes=options.processes,
        concurrency=4_000,
    )


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything at once."""
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(PostgresServer(durable=True))
        url = postgres.create("mix")
        engine = open_engine(url)
        stack.push_async_callback(engine.close)
        await engine.migrate()
        lag, used = Lag(), dict[str, Server]()
        if not options.no_bus:
            jars = kafka_jars()
            if jars is None:
                raise RuntimeError("no Kafka here")
            kafka = stack.enter_context(KafkaServer(jars=jars))
            relay = await stack.enter_async_context(relaying(url, kafka.servers))
            used = {"kafka": Server(kafka.pid), "relay": Server(relay.pid)}
            await until_read(engine)
        before = {name: one.cpu() for name, one in used.items()}
        watching = asyncio.create_task(lag.watch(engine))
        try:
            found = await asyncio.to_thread(run, _plan(url, options), lag.hear)
        finally:
            watching.cancel()
        cpu = {name: round((one.cpu() - before[name]) / 1e6, 1) for name, one in used.items()}
    kept = ("jobs_per_s", "depth_before", "depth", "p50_ms", "p99_ms", "submit_p99_ms")
    return {
        "rate": options.rate,
        "seconds": options.seconds,
        "bus": not options.no_bus,
        **{name: getattr(found, name) for name in (*kept, "stolen")},
        "cpu_us_per_job": msgspec.to_builtins(found.cpu_us_per_job),
        "lag_samples": len(lag.seconds),
        "lag_p50_s": lag.percentile(0.5),
        "lag_p99_s": lag.percentile(0.99),
        "lag_max_s": lag.percentile(1),
        "cpu_seconds": cpu,
    }


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=10_000.0, help="jobs a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--processes", type=int, default=1, help="worker processes")
    parser.add_argument("--no-bus", action="store_true", help="without relay and broker")
    options = parser.parse_args()
    found = asyncio.run(measure(options))
    grown = (found["depth"] - found["depth_before"]) / (options.rate * options.seconds)
    bounds = [Bound("growth of depth", round(100 * grown, 2), 1, " % of the jobs")]
    if not options.no_bus:
        bounds.append(Bound("lag p99", found["lag_p99_s"], 1, " s"))
    sys.exit(conclude(found, *bounds))


if __name__ == "__main__":
    main()
