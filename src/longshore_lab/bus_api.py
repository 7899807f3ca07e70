"""`longshore api` as a process, and callers who count what it refuses."""

import asyncio
import os
import sys
import time
from asyncio.subprocess import Process
from contextlib import suppress
from itertools import count
from statistics import quantiles

import httpx

from longshore_lab.servers import free_port

__all__ = ["Counter", "Desk"]

_START_SECONDS = 60.0
_PATIENCE = 60.0
_PULSE = 0.5
_STANDSTILL = 5.0
"""Seconds without a pulse after which the process must have been stopped."""
_JOBS = {"jobs": [{"type": "noop", "payload": {"user": number}} for number in range(20)]}


class Counter:
    """What callers of the API met."""

    def __init__(self) -> None:
        self.jobs = 0
        self.errors = 0
        """Requests without an answer, or with another than asked for."""
        self.standstills = 0
        """Times that this very process was stopped: what was under way then tells nothing."""
        self.took: list[float] = []
        """Seconds of each request."""

    @property
    def p99_ms(self) -> float:
        """Milliseconds within which 99 of 100 were answered."""
        return round(quantiles(self.took, n=100)[98] * 1e3, 1) if len(self.took) > 1 else 0.0


class Desk:
    """The API in a process of its own, inside `async with`; each `submit` is a request."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._port = free_port()
        self._process: Process | None = None
        self._client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self._port}", timeout=_PATIENCE, trust_env=False
        )
        self.counter = Counter()
        self._pulse: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Desk":
        words = ("--url", self._url, "api", "--port", f"{self._port}")
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "longshore", *words),
            env={**os.environ, "LONGSHORE_LOG_LEVEL": "warning"},
        )
        async with asyncio.timeout(_START_SECONDS):
            for _ in count():
                if await self._is_ready():
                    break
                await asyncio.sleep(0.1)
        self._pulse = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pulse is not None:
            self._pulse.cancel()
        await self._client.aclose()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def submit(self) -> None:
        """Twenty jobs by one request."""
        counter, began = self.counter, time.perf_counter()
        before, accepted = counter.standstills, 0
        with suppress(httpx.HTTPError):
            answer = await self._client.post("/v1/jobs:batch", json=_JOBS)
            accepted = answer.json()["accepted"] if answer.is_success else 0
        took = time.perf_counter() - began
        if took > _STANDSTILL:
            await asyncio.sleep(2 * _PULSE)
        if counter.standstills == before:
            counter.took.append(took)
            counter.errors += accepted != len(_JOBS["jobs"])
        counter.jobs += accepted

    async def _beat(self) -> None:
        last = time.monotonic()
        for _ in count():
            await asyncio.sleep(_PULSE)
            now = time.monotonic()
            self.counter.standstills += now - last > _STANDSTILL
            last = now

    async def _is_ready(self) -> bool:
        with suppress(httpx.TransportError):
            return (await self._client.get("/readyz")).is_success
        return False
