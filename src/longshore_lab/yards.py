"""Stores for chaos: a server behind a wire, or a file, each on a disk of its own."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from longshore_lab.disk import SmallDisk, small_disk
from longshore_lab.ledger import now
from longshore_lab.servers import PostgresServer
from longshore_lab.strokes import ON_A_FILE, ON_A_SERVER, Harm, Span, Stroke
from longshore_lab.wires import Wire

__all__ = ["Yard", "open_yard"]

_MIB = 2**20
_TIGHT = {"shared_buffers": "64MB", "min_wal_size": "32MB", "max_wal_size": "64MB"}
"""So that what is written needs room, and not only what was reserved before."""
_SERVER_ROOM = 512 * _MIB
_FILE_ROOM = 64 * _MIB
_ROOM_PER_MINUTE = 128 * _MIB
_GLANCES = 6
_GLANCE = 0.5
_TRIES = 20
_LOCK_WAIT = 10.0


_AT_ONCE = frozenset({Harm.RESET, Harm.HALF_OPEN, Harm.LOSE_ANSWERS})
"""What is done to the connections of one moment; new ones work, and nothing is to be healed."""


class Yard:
    """A store, and what can be done to it."""

    harms: Sequence[Harm]

    def __init__(self, disk: SmallDisk | None) -> None:
        self._disk = disk
        self.url = ""
        """As the processes reach it."""
        self.direct = ""
        """As whoever judges reaches it, whatever was done to the way there."""

    async def trouble(self, stroke: Stroke) -> Span | None:
        """Do it, and make it whole again; None where that is not possible."""
        if stroke.harm is Harm.FILL_DISK:
            return None if self._disk is None else await self._fill(self._disk, stroke.lasts)
        for _ in range(_TRIES):
            if done := await self.harm(stroke):
                return done
            await asyncio.sleep(_GLANCE)
        return None

    async def _fill(self, disk: SmallDisk, seconds: float) -> Span:
        try:
            # Wires go through this loop, which must not stand still meanwhile.
            await asyncio.to_thread(disk.fill)
            began = now()
            await asyncio.sleep(seconds)
        finally:
            disk.free()
        whole = now()
        await self.revive()
        return Span(began, whole)

    async def harm(self, stroke: Stroke) -> Span | None:
        """What is special to this kind; None if there was nothing to hit."""
        raise NotImplementedError

    async def revive(self) -> None:
        """Start again what has ended because there was no room."""
        return

    @property
    def refusals(self) -> int | None:
        """How often the store itself said that it had no room; None if it keeps no count."""
        return None


class _ServerYard(Yard):
    harms = ON_A_SERVER

    def __init__(self, disk: SmallDisk | None, server: PostgresServer, wire: Wire) -> None:
        super().__init__(disk)
        self._server = server
        self._wire = wire

    async def harm(self, stroke: Stroke) -> Span | None:
        began = now()
        match stroke.harm:
            case Harm.CRASH:
                await asyncio.to_thread(self._server.restart, immediate=True)
                return Span(began, now())
            case Harm.TERMINATE_BACKENDS:
                return Span(began, now()) if await self._terminate_backends() else None
            case _:
                return await self._misbehave(stroke) if self._wire.connections else None

    async def revive(self) -> None:
        # A server that finds no room for its log panics, and ends if its recovery finds none.
        for _ in range(_GLANCES):
            if not self._server.is_running:
                await asyncio.to_thread(self._server.restart, immediate=True)
            await asyncio.sleep(_GLANCE)

    @property
    def refusals(self) -> int:
        """By its log."""
        return len(re.findall("No space left on device", self._server.log))

    async def _misbehave(self, stroke: Stroke) -> Span:
        wire, began = self._wire, now()
        match stroke.harm:
            case Harm.DELAY:
                wire.delay(0.05 + 0.15 * stroke.choice)
            case Harm.RESET:
                wire.reset()
            case Harm.REFUSE:
                wire.refuse()
            case Harm.BLACKHOLE:
                wire.swallow()
            case Harm.HALF_OPEN:
                wire.leave_half_open()
            case _:
                wire.lose_answers()
        await asyncio.sleep(stroke.lasts)
        wire.heal()
        return Span(began, began if stroke.harm in _AT_ONCE else now())

    async def _terminate_backends(self) -> bool:
        """Whether there were any."""
        with suppress(OSError, asyncpg.PostgresError):  # it may be down, which is worse for it
            connection = await asyncpg.connect(self._server.url())
            try:
                ended = await connection.fetch(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where pid <> pg_backend_pid() and backend_type = 'client backend'"
                )
            finally:
                await connection.close()
            return bool(ended)
        return False


class _FileYard(Yard):
    harms = ON_A_FILE

    def __init__(self, disk: SmallDisk | None, folder: Path) -> None:
        super().__init__(disk)
        self._path = (folder if disk is None else disk.place) / "jobs.db"
        self.url = self.direct = f"sqlite:///{self._path}"

    async def harm(self, stroke: Stroke) -> Span | None:
        with closing(_held(self._path)) as holder:
            try:
                await asyncio.to_thread(holder.execute, "begin immediate")
            except sqlite3.OperationalError:
                return None  # others were never done, or there is no room
            began = now()
            await asyncio.sleep(stroke.lasts)
        return Span(began, now())


def _held(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=_LOCK_WAIT, isolation_level=None, check_same_thread=False
    )


@asynccontextmanager
async def open_yard(kind: str, folder: Path, *, minutes: float) -> AsyncGenerator[Yard]:
    """An empty store of that kind, `postgresql` or `sqlite`, that is gone in the end."""
    more = round(minutes * _ROOM_PER_MINUTE)
    if kind == "sqlite":
        with small_disk(_FILE_ROOM + more) as disk:
            yield _FileYard(disk, folder)
        return
    with small_disk(_SERVER_ROOM + more) as disk:
        place = None if disk is None else disk.place
        async with PostgresServer(durable=True, settings=_TIGHT, place=place) as server:
            await asyncio.to_thread(server.create, "chaos")
            direct = server.url("chaos", tcp=True)
            port = urlsplit(direct).port
            assert port is not None
            async with Wire(("127.0.0.1", port)) as wire:
                yard = _ServerYard(disk, server, wire)
                yard.direct = direct
                yard.url = direct.replace(f":{port}/", f":{wire.port}/")
                yield yard
