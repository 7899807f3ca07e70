"""What a service finds of its store, for operators."""

import msgspec
import pytest
from api_steps import asking

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.contract import Engine
from longshore.core.retention import Retention
from longshore.operations.findings import Diagnosis, Severity
from longshore.runtime.clock import ManualClock, SystemClock
from longshore.testing.factories import HOUR, a_job
from longshore.testing.flaky import FlakyEngine


async def diagnosed(service: Service) -> dict[str, tuple[Severity, str]]:
    async with asking(Application(service)) as client:
        answer = await client.get("/v1/doctor")
    assert answer.status_code == 200, answer.text
    told = msgspec.json.decode(answer.content, type=Diagnosis)
    assert told.health is max((one.health for one in told.findings), key=list(Severity).index)
    return {one.check: (one.health, one.text) for one in told.findings}


async def test_a_store_without_workers_is_told_to_need_one(engine: Engine):
    await engine.submit([a_job()])

    told = await diagnosed(Service(engine))

    assert told["store"][0] is Severity.FINE
    assert told["workers"] == (Severity.PROBLEM, "none is live; ready jobs: 1")
    assert told["clock"] == (Severity.FINE, "the service's machine and the engine agree")


@pytest.mark.parametrize(
    ("kept", "health"), [(-2 * HOUR, Severity.WARNING), (0, Severity.FINE)]
)
async def test_what_nobody_prunes_is_found_by_what_is_to_be_kept(
    memory: Engine, kept: int, health: Severity
):
    await memory.submit([a_job()])

    # An hour past its time an event should be gone: this one is as old as if hours had passed.
    told = await diagnosed(Service(memory, retention=Retention(outbox=kept)))

    assert told["pruning"][0] is health


async def test_a_service_whose_clock_is_wrong_says_so(memory: Engine):
    clock = ManualClock(SystemClock().now() - HOUR)

    health, text = (await diagnosed(Service(memory, clock=clock)))["clock"]

    assert health is Severity.WARNING
    assert text.startswith("the service's machine and the engine are ")


async def test_a_store_that_is_away_is_said_to_be(memory: Engine):
    flaky = FlakyEngine(memory)
    async with asking(Application(Service(flaky))) as client:
        with flaky.outage():
            answer = await client.get("/v1/doctor")

    assert (answer.status_code, answer.json()["code"]) == (503, "engine_unavailable")
