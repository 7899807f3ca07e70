"""Kill relays between handing over and noting it, let the broker hang, and count.

    python -m longshore_lab.bus_trial --kills 50 --outage 60
    python -m longshore_lab.bus_trial --kills 0 --outage 600
    python -m longshore_lab.bus_trial --sqlite

prints what the topic holds against what the outbox told, and what callers of the API met
meanwhile. A kill takes some three seconds on an idle machine: the start of a process, a lease
of a second, and two sends.
"""

import argparse
import asyncio
import json
import secrets
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from tempfile import TemporaryDirectory

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.consumer import Consumer
from longshore.engines import open_engine
from longshore.errors import EngineUnavailableError
from longshore.testing.factories import DAY
from longshore.testing.manual import ManualWorker, a_worker
from longshore_lab.bus import Ledger, balance, read_outbox, read_topic
from longshore_lab.bus_api import Counter, Desk
from longshore_lab.kafka import KafkaServer, kafka_jars
from longshore_lab.places import count_misplaced
from longshore_lab.servers import PostgresServer

__all__ = ["Yard"]


class Yard:
    """Callers of an API, two relays that are killed and started again, a broker that hangs."""

    def __init__(self, url: str, kafka: KafkaServer, topic: str) -> None:
        self._url = url
        self._kafka = kafka
        self._topic = topic
        self._is_over = False
        self._started: list[Process] = []
        self.counter = Counter()
        """What callers met, from the first kill to the end of the outage."""
        self.waiting = 0
        """Batches that the topic lacked when the broker went on."""
        self.drain_seconds = 0.0
        """From then until it lacked none."""
        self.misplaced: int | None = None
        """Jobs that are not in exactly one place of PostgreSQL's tables; None elsewhere."""

    async def trial(self, *, kills: int, outage: float) -> Ledger:
        """Kill relays so often, then let the broker hang so many seconds; the ledger."""
        engine = open_engine(self._url)
        try:
            async with asyncio.timeout(120 + 20 * kills + 3 * outage):
                # Without load no relay ever sends, and none is killed: what ends it ends all.
                async with Desk(self._url) as desk, asyncio.TaskGroup() as group:
                    self.counter = desk.counter
                    group.create_task(self._load(engine, desk))
                    await self._kill(kills)
                    first, second = await self._start(0), await self._start(0)
                    await _until(engine, lambda known: known.position > 0)
                    self._kafka.pause()
                    await asyncio.sleep(outage)
                    (known,) = await engine.consumers()
                    self.waiting = known.behind
                    self._kafka.resume()
                    resumed = time.monotonic()
                    self._is_over = True
                await _until(engine, lambda known: not known.behind)
                self.drain_seconds = time.monotonic() - resumed
                for one in (first, second):
                    one.send_signal(signal.SIGTERM)
                    await one.wait()
                events = await read_outbox(engine)
                records = await asyncio.to_thread(read_topic, self._kafka.servers, self._topic)
        finally:
            self._kafka.resume()
            await self._end_all()
            await engine.close()
        self.misplaced = await count_misplaced(self._url)
        return balance(events, records)

    async def _kill(self, times: int) -> None:
        """Two at a time: the second stands by, and goes on where the first died."""
        running = [await self._start(2), await self._start(2)]
        for _ in range(times):
            done = [asyncio.create_task(one.wait()) for one in running]
            await asyncio.wait(done, return_when=asyncio.FIRST_COMPLETED)
            for one in running:
                if one.returncode not in (None, -signal.SIGKILL):
                    raise RuntimeError(f"a relay ended by itself, with {one.returncode}")
            running = [one for one in running if one.returncode is None]
            running.append(await self._start(2))
        for one in running:
            one.kill()
            await one.wait()

    async def _end_all(self) -> None:
        for one in self._started:
            if one.returncode is None:
                one.kill()
                await one.wait()

    async def _start(self, sends: int) -> Process:
        arguments = (self._url, self._kafka.servers, self._topic, str(sends))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "longshore_lab.bus_relay", *arguments
        )
        self._started.append(process)
        return process

    async def _load(self, engine: Engine, desk: Desk) -> None:
        worker = await a_worker(engine, lease=DAY)  # nobody renews it
        while not self._is_over:
            await desk.submit()
            with suppress(EngineUnavailableError):  # if this process was stopped meanwhile
                await _work(engine, worker)
            await asyncio.sleep(0.02)


async def _work(engine: Engine, worker: ManualWorker) -> None:
    claims, now = await worker.claim(20), await engine.now()
    done = [settle.succeeded(one, started_at=now, finished_at=now) for one in claims]
    await worker.settle(*done)


async def _until(engine: Engine, is_so: Callable[[Consumer], bool]) -> None:
    """Return when the one consumer stands so. Who waits has a deadline."""
    for _ in count():
        if any(is_so(known) for known in await engine.consumers()):
            return
        await asyncio.sleep(0.1)


@asynccontextmanager
async def _store(*, is_file: bool) -> AsyncGenerator[str]:
    """A store that is thrown away: a server of its own, or a file."""
    async with AsyncExitStack() as stack:
        if is_file:
            folder = stack.enter_context(TemporaryDirectory(prefix="longshore-bus-"))
            url = f"sqlite:///{folder}/jobs.db"
        else:
            url = (await stack.enter_async_context(PostgresServer(durable=True))).create("bus")
        engine = open_engine(url)
        await engine.migrate()
        await engine.close()
        yield url


async def _run(kills: int, outage: float, *, is_file: bool) -> int:
    jars = kafka_jars()
    if jars is None:
        return 1
    async with _store(is_file=is_file) as url:
        with KafkaServer(jars=jars) as kafka:
            yard = Yard(url, kafka, f"events-{secrets.token_hex(4)}")
            ledger = await yard.trial(kills=kills, outage=outage)
    most_doubles = ledger.most_doubles(kills)
    figures = {
        "store": "sqlite" if is_file else "postgresql",
        "kills": kills,
        "outage_seconds": outage,
        "jobs": yard.counter.jobs,
        "api_requests": len(yard.counter.took),
        "api_errors": yard.counter.errors,
        "api_p99_ms": yard.counter.p99_ms,
        "api_max_ms": round(max(yard.counter.took) * 1e3, 1),
        "standstills": yard.counter.standstills,
        "batches_waiting": yard.waiting,
        "drain_seconds": round(yard.drain_seconds, 1),
        "events": ledger.told,
        "records": ledger.records,
        "missing": len(ledger.missing),
        "strange": len(ledger.strange),
        "keys_out_of_order": len(ledger.disordered),
        "doubles": ledger.doubles,
        "most_doubles": most_doubles,
        "misplaced": yard.misplaced,
    }
    print(json.dumps(figures))
    is_right = ledger.is_sound and ledger.doubles <= most_doubles and not yard.misplaced
    return 0 if is_right and not yard.counter.errors else 1


def main() -> int:
    """One trial."""
    parser = argparse.ArgumentParser(prog="longshore_lab.bus_trial", description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--outage", type=float, default=10.0, help="seconds")
    parser.add_argument("--sqlite", action="store_true", help="a file instead of PostgreSQL")
    options = parser.parse_args()
    return asyncio.run(_run(options.kills, options.outage, is_file=options.sqlite))


if __name__ == "__main__":
    sys.exit(main())
