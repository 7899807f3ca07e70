"""A submitted job, as its producer holds it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from itertools import chain, repeat
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from longshore.core import ids
from longshore.core.codec import decode_result
from longshore.core.job import JobId, Verdict
from longshore.core.state import TERMINAL, State
from longshore.errors import (
    EngineBusyError,
    EngineUnavailableError,
    JobFailedError,
    WaitTimeoutError,
)
from longshore.operations.backend import Backend
from longshore.operations.job_documents import Job, ProgressView
from longshore.streaming.events import JobEvent

__all__ = ["Connected", "JobHandle"]

R_co = TypeVar("R_co", covariant=True)

_DEFAULT_WAIT = 60.0
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.25


class Connected(Protocol):
    """Whatever has a store at hand, or a service in front of one."""

    @property
    def backend(self) -> Backend:
        """Answers about jobs, or ConfigError when it is not open."""
        ...


class JobHandle(Generic[R_co]):
    """One job: ask how it is, wait for its result, cancel it."""

    __slots__ = ("_app", "_decode", "_id", "verdict")

    def __init__(
        self,
        app: Connected,
        job_id: JobId,
        verdict: Verdict | None = None,
        decode: Callable[[bytes | None], Any] = decode_result,
    ) -> None:
        self._app = app
        self._id = job_id
        self._decode = decode
        self.verdict = verdict
        """What submit did; None for a handle made from an id."""

    def __repr__(self) -> str:
        return f"<job {self.id}>"

    @property
    def id(self) -> str:
        """The job's id: a UUIDv7."""
        return ids.text(self._id)

    @property
    def is_new(self) -> bool:
        """True if this very submit created the job; else an earlier one stands for it."""
        return self.verdict is Verdict.ACCEPTED

    async def get(self) -> Job:
        """Everything that is known of the job now, or JobNotFoundError."""
        return await self._app.backend.get(self.id)

    async def status(self) -> State:
        """The state the job is in now."""
        return (await self.get()).state

    async def progress(self) -> ProgressView | None:
        """How far the job said it was in its last attempt; None if it said nothing."""
        return (await self.get()).progress

    async def cancel(self, reason: str = "cancelled by its producer") -> Job:
        """Cancel it if it waits, ask its worker to stop if it runs; the job as it is then.

        IllegalTransitionError if it has ended.
        """
        (job,) = await self._app.backend.change_jobs("cancel", [self.id], reason=reason)
        return job

    def events(self, timeout: timedelta | float | None = None) -> AsyncIterator[JobEvent]:
        """How the job stands, and then all that happens to it, up to its end.

        WaitTimeoutError if that takes longer than `timeout`; the job goes on.
        """
        return self._app.backend.events(self.id, timeout)

    def result(self, timeout: timedelta | float = _DEFAULT_WAIT) -> Coroutine[Any, Any, R_co]:
        """What the task returned, once the job has succeeded.

        JobFailedError if it ended dead or cancelled, WaitTimeoutError if it has not ended in
        time; the job goes on.
        """
        return self._result(_seconds(timeout))

    async def _result(self, patience: float) -> R_co:
        job = await self._ended(patience)
        if job.state is not State.SUCCEEDED:
            raise JobFailedError(self.id, job.state, _reason(job))
        return self._decode(_stored(job))

    async def _ended(self, patience: float) -> Job:
        """The job, once it has ended.

        A store that is away for a moment does not end the wait.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        state: str = "unknown"
        for pause in _pauses():
            left = deadline - loop.time()
            try:
                job = await self.get()
            except (EngineBusyError, EngineUnavailableError):
                if left <= 0:
                    raise
            else:
                if job.state in TERMINAL:
                    return job
                state = job.state
            if left <= 0:
                break
            await asyncio.sleep(min(pause, left))
        raise WaitTimeoutError(f"job {self.id} is still {state} after {patience:g} s")


def _stored(job: Job) -> bytes | None:
    """The result as it is stored: a task has a type of its own for it."""
    return None if job.result is None else msgspec.json.encode(job.result)


def _pauses() -> Iterator[float]:
    """Short at first, for jobs that run at once; then longer, to be no burden."""
    growing = (_FIRST_PAUSE * 1.5**step for step in range(10))
    return chain(growing, repeat(_LONGEST_PAUSE))


def _seconds(value: timedelta | float) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _reason(job: Job) -> str | None:
    if job.state is State.DEAD and job.failure:
        return f"{job.reason}; {job.failure.kind}: {job.failure.message}"
    return job.reason
