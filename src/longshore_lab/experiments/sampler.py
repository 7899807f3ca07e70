"""Looks once a second at what could bound a queue: processors, waits, log, tables, depth."""

import asyncio
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Self

import msgspec

from longshore.bench.machine import Hours
from longshore.bench.server import server_of
from longshore.contract import Engine
from longshore.engines import open_engine
from longshore.errors import EngineError
from longshore.runtime.process import available_cores
from longshore_lab.experiments.probe import Growth, Probe, open_probe
from longshore_lab.experiments.processors import Processors

__all__ = ["Sample", "Sampler"]

_EVERY = 1.0
_LOOKS = 5
"""Looks at the server's waits within a second: one alone would catch too few."""
_SHARE = 50
"""Counting jobs takes the server's time, and what is measured should have it: once it took
long, the next count is so many times as long away."""
_START_SECONDS = 30.0


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One second."""

    at: float
    """Seconds since the sampler was started."""
    seconds: float
    """How long it was: on a busy machine a look comes late."""
    ready: int = 0
    running: int = 0
    scheduled: int = 0
    finished: int = 0
    """Succeeded, dead and cancelled, those that were pruned left out."""
    cores: dict[str, float]
    """How many processors each role used."""
    busy: float
    """How many processors anybody used, of all that the machine has."""
    stolen: float
    """How many processors the host gave to others."""
    written: int
    """Bytes that the log grew by in it; none where nobody can tell."""
    store_bytes: int
    dead_rows: int
    waits: dict[str, int]

    @property
    def depth(self) -> int:
        """Jobs that have not ended."""
        return self.ready + self.running + self.scheduled


class Sampler:
    """Samples in a thread of its own, from the start of a block to its end."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._is_over = threading.Event()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: Exception | None = None
        self.samples: list[Sample] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait(_START_SECONDS)
        if self._error is not None:
            raise self._error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except (EngineError, OSError, TimeoutError) as error:
            # Told to whoever waits for the start; a look that fails later is only missed.
            self._error = error
        finally:
            self._is_ready.set()

    async def _watch(self) -> None:
        probe = await open_probe(self._url)
        engine = None if self._url is None else open_engine(self._url)
        server = await server_of(self._url) if self._url else None
        watch = _Watch(probe, engine, Processors(server and server.pid))
        try:
            await watch.begin()
            self._is_ready.set()
            while not self._is_over.is_set():
                self.samples.append(await watch.second())
        finally:
            await probe.close()
            if engine is not None:
                await engine.close()


class _Watch:
    def __init__(self, probe: Probe, engine: Engine | None, processors: Processors) -> None:
        self._probe = probe
        self._engine = engine
        self._processors = processors
        self._began = self._last = time.perf_counter()
        self._hours = Hours.now()
        self._growth = Growth()
        self._depth: dict[str, int] = {}
        self._count_at = 0.0

    async def begin(self) -> None:
        self._growth = await self._probe.growth()

    async def second(self) -> Sample:
        waits: Counter[str] = Counter()
        for look in range(1, _LOOKS + 1):
            due = self._last + _EVERY * look / _LOOKS
            await asyncio.sleep(max(due - time.perf_counter(), 0.0))
            waits += await self._probe.waits()
        growth, before = await self._probe.growth(), self._growth
        self._growth = growth
        await self._count()
        now = time.perf_counter()
        passed, self._last = now - self._last, now
        busy, stolen = self._machine()
        used = self._processors.look()
        return Sample(
            at=round(now - self._began, 2),
            seconds=round(passed, 3),
            cores={role: round(cpu / passed, 3) for role, cpu in sorted(used.items())},
            busy=busy,
            stolen=stolen,
            written=max(growth.written - before.written, 0) if before.written else 0,
            store_bytes=growth.store_bytes,
            dead_rows=growth.dead_rows,
            waits=dict(waits),
            **self._depth,
        )

    async def _count(self) -> None:
        began = time.perf_counter()
        if self._engine is None or began < self._count_at:
            return
        try:
            counts = await self._engine.counts()
        except EngineError:
            self._depth = {}
            return
        now = time.perf_counter()
        self._count_at = now + _SHARE * (now - began) - _EVERY
        self._depth = {
            "ready": sum(one.ready for one in counts),
            "running": sum(one.running for one in counts),
            "scheduled": sum(one.scheduled for one in counts),
            "finished": sum(one.succeeded + one.dead + one.cancelled for one in counts),
        }

    def _machine(self) -> tuple[float, float]:
        before, now = self._hours, Hours.now()
        self._hours = now
        if before is None or now is None or now.total <= before.total:
            return 0.0, 0.0
        total, cores = now.total - before.total, available_cores()
        stolen = (now.stolen - before.stolen) / total
        busy = 1 - (now.idle - before.idle) / total - stolen
        return round(busy * cores, 3), round(stolen * cores, 3)
