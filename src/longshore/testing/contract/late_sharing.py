"""What comes to a queue whose tenants take turns already is found in its tenant's turn."""

from typing import Any

import pytest
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.limit_settings import Layer, Order, QueueSettings
from longshore.records import queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker


async def _in_turns(engine: Engine) -> ManualWorker:
    """A worker that has claimed from the queue since its tenants take turns."""
    fair = replace(QueueSettings(), order=Order.FAIR)
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, fair)
    worker = await a_worker(engine)
    for _ in range(2):
        await engine.submit([a_job()])
        (claim,) = await worker.claim(9)
        await worker.succeed(claim)
    return worker


@requires("ordering_keys")
@pytest.mark.parametrize(
    "options",
    [
        [{}],
        [{}, {}],
        [{"tenant": "acme"}, {"tenant": "umbrella"}],
        [{"unique_key": "k"}],
        [{"idempotency_key": "k"}, {}],
        [{"ordering_key": "k"}],
        [{"delay": SECOND}, {"delay": SECOND, "ordering_key": "k"}],
    ],
    ids=["one", "two", "of two tenants", "unique", "with a key", "in line", "later"],
)
async def test_what_is_submitted_to_a_fair_queue_later_is_found(
    engine: Engine, clock: ManualClock, options: list[dict[str, Any]]
) -> None:
    worker = await _in_turns(engine)
    jobs = [a_job(**one) for one in options]

    await engine.submit(jobs)
    clock.advance(SECOND)
    await engine.promote(limit=9)

    assert {claim.id for claim in await worker.claim(9)} == {job.id for job in jobs}


@requires("ordering_keys")
async def test_what_comes_back_to_a_fair_queue_later_is_found(
    engine: Engine, clock: ManualClock
) -> None:
    worker = await _in_turns(engine)
    jobs = [a_job(), a_job(), a_job(ordering_key="k"), a_job(ordering_key="k")]
    await engine.submit(jobs)
    claims = {claim.id: claim for claim in await worker.claim(9)}
    await worker.settle(settle.released(claims[jobs[0].id]))
    await worker.kill(claims[jobs[1].id])
    await worker.succeed(claims[jobs[2].id])
    await engine.change("replay", [jobs[1].id])

    found = {claim.id for claim in await worker.claim(9)}

    assert found == {jobs[0].id, jobs[1].id, jobs[3].id}
