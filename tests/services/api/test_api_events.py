"""Events on an engine and over HTTP: the same calls tell the same."""

from collections.abc import AsyncIterator

import pytest
from api_steps import served

from longshore.client import Client
from longshore.contract import Engine
from longshore.core import ids
from longshore.core.account import Tenant
from longshore.errors import (
    EventsExpiredError,
    JobNotFoundError,
    LongshoreError,
    WaitTimeoutError,
)
from longshore.operations.backend import Backend, EngineBackend
from longshore.records import tenants
from longshore.streaming.events import JobEvent
from longshore.testing.factories import a_job


@pytest.fixture(params=["beside the store", "over HTTP"])
async def backend(request: pytest.FixtureRequest, engine: Engine) -> AsyncIterator[Backend]:
    await tenants.create(engine, Tenant(name="acme"))
    if request.param == "beside the store":
        yield EngineBackend(engine, tenant="acme")
        return
    async with (
        served(engine) as (host, port),
        Client(f"http://{host}:{port}", tenant="acme") as client,
    ):
        yield client


def jobs_of(events: list[JobEvent]) -> list[str | None]:
    return [one.job_id for one in events]


async def test_events_after_one_in_the_middle_of_a_commit_leave_none_out(
    engine: Engine, backend: Backend
):
    jobs = [a_job(tenant="acme") for _ in range(3)]
    await engine.submit(jobs)
    await engine.submit([a_job(tenant="other"), last := a_job(tenant="acme")])
    names = [ids.text(job.id) for job in [*jobs, last]]

    kept = [one async for one in backend.kept_events()]
    after = [one async for one in backend.kept_events(after=kept[1].id)]
    end = [one async for one in backend.kept_events(after=kept[-1].id)]
    about = [one async for one in backend.kept_events(job_id=names[2])]
    named = [one async for one in backend.kept_events(names=["job.dead"])]

    assert jobs_of(kept) == names
    assert jobs_of(after) == names[2:]
    assert jobs_of(about) == [names[2]]
    assert end == named == []


async def test_events_are_followed_from_now_on_or_from_the_start_until_the_time_is_over(
    engine: Engine, backend: Backend
):
    await engine.submit([job := a_job(tenant="acme")])
    told: list[JobEvent] = []

    with pytest.raises(WaitTimeoutError):
        async for one in backend.follow(timeout=0.3):
            told.append(one)
    assert told == []
    with pytest.raises(WaitTimeoutError):
        async for one in backend.follow(from_start=True, timeout=0.3):
            told.append(one)
    assert jobs_of(told) == [ids.text(job.id)]


@pytest.mark.parametrize(
    ("after", "kind"),
    [("999999.0", EventsExpiredError), ("no id", LongshoreError)],
)
async def test_a_place_that_there_is_not_is_refused(
    backend: Backend, after: str, kind: type[LongshoreError]
):
    with pytest.raises(kind):
        await anext(backend.follow(after=after))
    with pytest.raises(kind):
        await anext(backend.kept_events(after=after))


async def test_a_job_of_another_tenant_cannot_be_followed(engine: Engine, backend: Backend):
    await engine.submit([own := a_job(tenant="acme"), other := a_job(tenant="other")])

    assert (await anext(backend.events(ids.text(own.id)))).tenant == "acme"
    with pytest.raises(JobNotFoundError):
        await anext(backend.events(ids.text(other.id)))


async def test_a_name_that_no_event_has_is_refused(backend: Backend):
    with pytest.raises(LongshoreError, match="is not the name of an event"):
        await anext(backend.kept_events(names=["job.odd"]))
