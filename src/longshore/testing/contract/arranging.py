from collections.abc import Awaitable, Callable

from longshore.contract import Engine
from longshore.core import event
from longshore.core.event import Event
from longshore.core.job import Job, JobId, Submitted
from longshore.core.state import State
from longshore.testing.factories import HOUR, a_job
from longshore.testing.manual import a_worker

__all__ = ["a_job_that_is", "all_events", "bare", "events_of", "numbers", "snapshot"]

QUEUE = "arranged"


async def a_job_that_is(state: State, engine: Engine) -> Job:
    """A job in that state, brought there by the shortest way, on a queue with none ready."""
    delay = HOUR if state is State.SCHEDULED else 0
    (submitted,) = await engine.submit([a_job(queue=QUEUE, delay=delay)])
    if state in _WAYS:
        await _WAYS[state](engine, submitted.id)
    job = await engine.get(submitted.id)
    assert job.state is state
    return job


async def _cancel(engine: Engine, job_id: JobId) -> None:
    await engine.change("cancel", [job_id], reason="changed my mind")


async def _run(engine: Engine, _: JobId) -> None:
    worker = await a_worker(engine, queues=[QUEUE])
    await worker.claim()


async def _succeed(engine: Engine, _: JobId) -> None:
    worker = await a_worker(engine, queues=[QUEUE])
    (claim,) = await worker.claim()
    await worker.succeed(claim, b'"done"')


async def _kill(engine: Engine, _: JobId) -> None:
    worker = await a_worker(engine, queues=[QUEUE])
    (claim,) = await worker.claim()
    await worker.kill(claim)


_WAYS: dict[State, Callable[[Engine, JobId], Awaitable[None]]] = {
    State.CANCELLED: _cancel,
    State.RUNNING: _run,
    State.SUCCEEDED: _succeed,
    State.DEAD: _kill,
}


def bare(answer: Submitted) -> Submitted:
    """Which job stands for the one that was submitted, and why; not since when."""
    return Submitted(answer.id, answer.verdict)


def numbers(job: Job) -> tuple[int, int, int, int, int]:
    """Delivery, attempt, failures, crashes and lapses."""
    return (job.delivery, job.attempt, job.failures, job.crashes, job.lapses)


async def all_events(engine: Engine) -> list[Event]:
    """Everything that happened, in order."""
    batches = await engine.events(after=0, limit=10_000)
    return [happened for batch in batches for happened in event.expand(batch)]


async def events_of(engine: Engine, job_id: JobId) -> list[event.Name]:
    """What happened to one job, in order."""
    return [happened.name for happened in await all_events(engine) if happened.job_id == job_id]


async def snapshot(engine: Engine, *job_ids: JobId) -> list[object]:
    """All that people can see of these jobs, to show later that nothing changed."""
    seen: list[object] = [await engine.get(job_id) for job_id in job_ids]
    return [*seen, await engine.counts(), await all_events(engine)]
