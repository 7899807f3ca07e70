"""Lets handlers end their jobs in transactions of their own: `job.transaction()`."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from longshore.errors import ConfigError, LeaseLostError, LongshoreError
from longshore.job_context import Slot
from longshore.worker.attempt import Attempt, Stop
from longshore.worker.lease import Standing

__all__ = ["Completer"]


class Completer:
    """One for all handlers of a worker; knows each by its attempt."""

    def __init__(self, standing: Standing, loop: asyncio.AbstractEventLoop) -> None:
        self._standing = standing
        self._loop = loop

    @asynccontextmanager
    async def transaction(self, slot: Slot) -> AsyncGenerator[Any]:
        """A connection in a transaction that ends the job at the end of the block."""
        attempt = cast("Attempt", slot)
        self._check(attempt)
        try:
            opened = self._standing.transaction(attempt.reference, attempt.started)
            async with opened as completion:
                attempt.completion = completion
                yield completion.connection
        finally:
            if not attempt.is_committed:
                # It was rolled back, so the handler may try another.
                attempt.completion = None

    def keep(self, slot: Slot, result: object) -> None:
        """Store this as the job's result, in the commit of its transaction."""
        attempt = cast("Attempt", slot)
        if attempt.completion is None or attempt.completion.is_committed:
            raise LongshoreError("set_result() is for inside `async with job.transaction()`")
        attempt.completion.result = attempt.handler.encode_result(result)

    def _check(self, attempt: Attempt) -> None:
        if attempt.task is None or asyncio.get_running_loop() is not self._loop:
            raise ConfigError(
                "job.transaction() is for async tasks, on the event loop of their worker"
            )
        if attempt.completion is not None:
            raise LongshoreError(
                "this job has its transaction already; a job ends once, so write everything "
                "in one block"
            )
        if attempt.stop is Stop.LOST:
            raise LeaseLostError(self._standing.token)
