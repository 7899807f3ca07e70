"""Workers, schedulers and a producer on a PostgreSQL server, in whose work to make trouble."""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from longshore.contract import Engine
from longshore.engines import open_engine
from longshore_lab.fleet import Fleet
from longshore_lab.kill import Runner
from longshore_lab.ledger import Ledger, now
from longshore_lab.records import FaultKind, Record, Settled, SubmitAcknowledged
from longshore_lab.servers import PostgresServer
from longshore_lab.trial import Trial
from longshore_lab.verdict import judge

__all__ = ["BACK_WITHIN", "Field", "Trouble", "a_server", "asked", "faced"]

log = logging.getLogger(__name__)

BACK_WITHIN = 10.0
"""Seconds in which everyone works again."""

# Only schedulers take an order over into the audit log.
_ORDER = """
    insert into longshore.deed (at, actor, tenant, action, subject, facts)
    values (1, 'someone', '', 'resume', 'nothing', '{}') returning number
"""
_IS_LOGGED = "select not exists (select from longshore.deed where number = $1)"

_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


@dataclass(slots=True)
class Progress:
    """Who got an answer from the queue, and when: the newest, by process."""

    folder: Path
    _read: dict[Path, int] = field(default_factory=dict[Path, int])
    last: dict[str, int] = field(default_factory=dict[str, int])

    def look(self) -> dict[str, int]:
        for path in self.folder.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, end, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(end)
            for line in whole.splitlines():
                record = _decoder.decode(line)
                is_settled = isinstance(record, Settled) and record.is_accepted
                if is_settled or isinstance(record, SubmitAcknowledged):
                    self.last[path.stem] = record.at
        return self.last


@dataclass(slots=True)
class Field:
    """Workers, schedulers and a producer at work on one database."""

    trial: Trial
    fleet: Fleet
    runner: Runner
    progress: Progress
    server: PostgresServer
    back_after: list[float] = field(default_factory=list[float])
    """Seconds until everyone worked again, fault by fault."""
    hit: Counter[str] = field(default_factory=Counter[str])
    """Connections that were ended or interrupted, by what they are for."""

    async def everyone_works(self) -> float:
        """Wait until each process got an answer; the seconds that took."""
        since = now()
        names = [one.name for one in self.fleet.alive() if one.role != "scheduler"]
        async with asyncio.timeout(BACK_WITHIN), self.observer() as observer:
            order = await observer.fetchval(_ORDER)
            while not all(self.progress.look().get(name, 0) > since for name in names):
                self.fleet.check()
                await asyncio.sleep(0.02)
            while not await observer.fetchval(_IS_LOGGED, order):
                self.fleet.check()
                await asyncio.sleep(0.02)
        self.back_after.append((now() - since) / 1e6)
        return self.back_after[-1]

    @asynccontextmanager
    async def observer(self) -> AsyncIterator[asyncpg.Connection]:
        """Someone else's connection."""
        connection = await asyncpg.connect(self.trial.url)
        try:
            yield connection
        finally:
            await connection.close(timeout=2)


Trouble = Callable[[Field], Awaitable[None]]


def a_server(**settings: str) -> PostgresServer:
    return PostgresServer(durable=True, settings=settings)


async def faced(
    server: PostgresServer,
    folder: Path,
    trouble: Trouble,
    *,
    prepared_by: str = "select",
    **load: Any,
) -> Field:
    """Make trouble under load; then nothing may be wrong, neither outside nor inside."""
    url = await asyncio.to_thread(server.create, folder.name)
    # No lease ends meanwhile, so no job may run a second time without having failed.
    usual: dict[str, Any] = {"jobs": 100_000, "batch": 50, "pace": 0.05, "keyed_every": 5}
    usual |= {"lease_seconds": 60.0, "has_keepers": sys.platform == "linux"}
    trial = Trial(
        url=url, folder=str(folder), long_share=0.0, concurrency=64, drain_seconds=5.0,
        **{**usual, **load},
    )  # fmt: skip
    engine = open_engine(url)
    book = Ledger(trial.ledgers, "runner", role="runner")
    try:
        await engine.migrate()
        await asked(url, prepared_by)
        async with Fleet(trial, book) as fleet:
            runner = Runner(trial, fleet, engine)
            site = Field(trial, fleet, runner, Progress(trial.ledgers), server)
            await runner.man(workers=2, schedulers=1)
            await site.everyone_works()
            site.back_after.clear()
            await trouble(site)
            await site.everyone_works()
            (producer,) = fleet.alive("producer")
            fleet.do(FaultKind.KILL, producer)
            assert await runner.quiesce(within=30)
            await fleet.dismiss(within=15)
            fleet.check()
        await assert_sound(trial, engine)
    finally:
        book.close()
        await engine.close()
    log.info("back after %s s", [round(one, 2) for one in site.back_after])
    return site


async def assert_sound(trial: Trial, engine: Engine) -> None:
    verdict = await judge(trial, engine)
    log.info("%s", verdict.figures)
    assert {k: one.examples for k, one in verdict.findings.items() if not one.holds} == {}
    assert verdict.figures.accepted > 100
    assert verdict.figures.redelivered == 0
    assert await asked(trial.url, "select * from longshore.misplaced()") == "SELECT 0"


async def asked(url: str, statement: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        return await connection.execute(statement)
    finally:
        await connection.close()
