"""Bank transfers in the transactions of their jobs, while workers and the server are killed."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from longshore.contract import Engine
from longshore.core import codec
from longshore.core.job import NewJob
from longshore.engines import open_engine
from longshore.errors import EngineError
from longshore.runtime.ids import IdSource
from longshore_lab import bank
from longshore_lab.bank import Audit, Transfer
from longshore_lab.experiments.experiment import Config, Experiment, ExperimentError, Stage
from longshore_lab.experiments.findings import Drawing, Findings, Line, Promise, Table
from longshore_lab.servers import PostgresServer
from longshore_lab.staff import Staff, StaffError

__all__ = ["EXPERIMENT", "Blows", "findings", "planned"]

_APP = "longshore_lab.bank:app"
_BATCH = 25
_GLANCE = 0.1
_PATIENCE = 180.0
_SETTINGS = {"max_connections": "300"}


class Transfers(Config, frozen=True, kw_only=True):
    """How many transfers, and what is done meanwhile."""

    transfers: int = 20_000
    accounts: int = 1_000
    rate: float = 110.0
    """Transfers that arrive a second; those who wait for the server come at once after it."""
    workers: int = 3
    concurrency: int = 16
    lease_seconds: float = 5.0
    """Of a worker that is killed before its keeper knows it."""
    kills: int = 30
    """Of workers, with -9."""
    stops: int = 10
    """Of the server, immediate; it recovers at its next start."""


class Blows(msgspec.Struct, kw_only=True):
    """What was done, as the experiment itself counted it."""

    kills: int = 0
    stops: int = 0
    sent_again: int = 0
    """Calls of the producer without an answer."""


def run(stage: Stage, config: Transfers) -> Findings:
    """Make the transfers under blows, and audit the bank."""
    if not stage.is_postgres:
        raise ExperimentError("transfers stop the server, and a file has none")
    book, blows = stage.folder / "accepted", Blows()
    with PostgresServer(durable=True, settings=_SETTINGS) as server:
        server.create("bank")
        url = server.url("bank")
        slots, lease = f"{config.concurrency}", f"{config.lease_seconds:g}s"
        options = ("--concurrency", slots, "--lease", lease)
        stage.say(f"{config.transfers:,} transfers at {config.rate:g} a second")
        with Staff(url, _APP, stage.folder, *options) as staff:
            scene = _Scene(server, url, staff, book, blows)
            try:
                balances, rows = asyncio.run(scene.play(config))
            except StaffError as error:
                raise ExperimentError(str(error)) from error
    return findings(_accepted(book), balances, rows, blows, config)


class _Scene:
    def __init__(
        self, server: PostgresServer, url: str, staff: Staff, book: Path, blows: Blows
    ) -> None:
        self._server = server
        self._url = url
        self._staff = staff
        self._book = book
        self._blows = blows
        self._accepted = 0

    async def play(self, config: Transfers) -> tuple[dict[int, int], list[Mapping[str, Any]]]:
        """What the bank's tables say when all is done, or has had its time."""
        engine = open_engine(self._url)
        try:
            await engine.migrate()
            await bank.found(self._url, accounts=config.accounts)
            self._staff.hire(config.workers)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._produce(engine, config))
                both.create_task(self._strike(config))
            await self._finished(engine)
            self._staff.dismiss()
        finally:
            await engine.close()
        return await bank.books(self._url)

    async def _produce(self, engine: Engine, config: Transfers) -> None:
        """Send everything, and write down what was accepted after the queue said so."""
        ids, began = IdSource(), time.monotonic()
        book = os.open(self._book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        asked = bank.drawn(config.seed, config.transfers, accounts=config.accounts)
        for first in range(0, len(asked), _BATCH):
            await asyncio.sleep(began + first / config.rate - time.monotonic())
            batch = asked[first : first + _BATCH]
            await self._sent(engine, [_job(ids, one) for one in batch])
            os.write(book, msgspec.json.Encoder().encode_lines(batch))
            self._accepted += len(batch)
        os.close(book)

    async def _sent(self, engine: Engine, jobs: Sequence[NewJob]) -> None:
        """Send again until there is an answer: jobs carry their id, so that is harmless."""
        while True:
            try:
                await engine.submit(jobs)
            except EngineError:
                self._blows.sent_again += 1
                await asyncio.sleep(_GLANCE)
            else:
                return

    async def _strike(self, config: Transfers) -> None:
        for when, is_kill, choice in planned(config):
            while self._accepted < when:
                self._staff.check()
                await asyncio.sleep(_GLANCE)
            if is_kill:
                await asyncio.to_thread(self._staff.kill, choice)
                self._blows.kills += 1
            else:
                await asyncio.to_thread(self._server.restart, immediate=True)
                self._blows.stops += 1

    async def _finished(self, engine: Engine) -> None:
        """Return when nothing is left to do; the bank's books tell what that is worth."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            counts = await engine.counts()
            if not any(one.ready + one.scheduled + one.running for one in counts):
                return
            self._staff.check()
            await asyncio.sleep(_GLANCE)


def planned(config: Transfers) -> list[tuple[int, bool, float]]:
    """After how many transfers, whether a worker or the server, and which worker."""
    rng, faults = Random(config.seed), config.kills + config.stops
    kinds = [True] * config.kills + [False] * config.stops
    rng.shuffle(kinds)
    step = config.transfers / (faults + 1)
    return [
        (round(step * (n + 0.5 + rng.random())), is_kill, rng.random())
        for n, is_kill in enumerate(kinds)
    ]


def findings(
    accepted: Sequence[Transfer],
    balances: Mapping[int, int],
    rows: Sequence[Mapping[str, Any]],
    blows: Blows,
    config: Transfers,
) -> Findings:
    """What the audit says."""
    found = bank.audit(accepted, balances, rows)
    return Findings(
        headline=(
            f"{len(found.twice)} of {len(accepted):,} transfers made twice and"
            f" {len(found.missing)} never, over {blows.kills} × `kill -9` of workers and"
            f" {blows.stops} crashes of the server"
        ),
        promises=[*_promises(found, len(accepted)), *_breadth(found, blows, config)],
        results={
            "accepted": len(accepted),
            **{
                name: value if isinstance(value, int) else len(value)
                for name, value in found._asdict().items()
            },
            **msgspec.to_builtins(blows),
        },
        tables=[_counted(found, len(accepted), blows)],
        drawings=[_drawn(rows)],
    )


def _promises(found: Audit, accepted: int) -> list[Promise]:
    return [
        Promise(
            "each accepted transfer has exactly one row",
            f"{found.made:,} rows of {accepted:,}; {len(found.twice)} twice,"
            f" {len(found.missing)} missing",
            found.made == accepted and not (found.twice or found.missing),
        ),
        Promise(
            "no row says anything else than what was asked for",
            f"{len(found.strange)}",
            not found.strange,
        ),
        Promise("money is conserved", f"{found.surplus:+,} in all", not found.surplus),
        Promise(
            "each account has what the accepted transfers leave there",
            f"{len(found.wrong)} do not",
            not found.wrong,
        ),
    ]


def _breadth(found: Audit, blows: Blows, config: Transfers) -> list[Promise]:
    return [
        Promise(
            "every fault of the plan was done",
            f"{blows.kills} kills, {blows.stops} crashes",
            (blows.kills, blows.stops) == (config.kills, config.stops),
        ),
        Promise(
            "runs were cut off, and others made their transfers (or this shows nothing)",
            f"{found.again:,} transfers",
            found.again > 0,
        ),
    ]


def _counted(found: Audit, accepted: int, blows: Blows) -> Table:
    rows = [
        ["transfers accepted, by the producer's file", f"{accepted:,}"],
        ["rows of transfers, in the bank's table", f"{found.made:,}"],
        ["of those by a later delivery than the first", f"{found.again:,}"],
        ["accounts with another balance than arithmetic says", f"{len(found.wrong):,}"],
        ["calls of the producer without an answer, sent again", f"{blows.sent_again:,}"],
    ]
    return Table("What was counted", ["what", "how many"], rows)


def _drawn(rows: Sequence[Mapping[str, Any]]) -> Drawing:
    first = min((float(row["s"]) for row in rows), default=0.0)
    made = Counter(int(float(row["s"]) - first) for row in rows)
    points = [(float(at), float(made[at])) for at in range(max(made, default=0) + 1)]
    line = Line(name="made", points=points)
    return Drawing(title="Transfers made a second", x="seconds", lines=[line])


def _job(ids: IdSource, one: Transfer) -> NewJob:
    payload = codec.encode(msgspec.to_builtins(one))
    return NewJob(id=ids.make(), type=bank.TYPE, payload=payload, max_attempts=bank.ATTEMPTS)


def _accepted(book: Path) -> list[Transfer]:
    return msgspec.json.Decoder(Transfer).decode_lines(book.read_bytes())


EXPERIMENT = Experiment(
    name="transfers",
    page="e25-transfers",
    promise="What a handler writes in its job's transaction is written exactly once",
    full=Transfers(),
    quick=Transfers(transfers=1_500, kills=6, stops=2),
    takes="4 min",
    run=run,
    plant="apart",
    store="PostgreSQL, durable",
)
