"""What the HTTP service tells monitors and scalers."""

import asyncio
from typing import Any

import httpx
import pytest
from api_steps import asking
from prometheus_client.parser import text_string_to_metric_families

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.contract import Engine, QueueCounts
from longshore.core import settle
from longshore.core.account import Tenant
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.observe.engine import observed
from longshore.observe.metrics import Metrics
from longshore.observe.overview import Overview
from longshore.records import pauses, queue_settings, tenants
from longshore.testing.factories import SECOND, a_job
from longshore.testing.flaky import FlakyEngine


def samples(page: httpx.Response) -> dict[tuple[str, ...], float]:
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (one.name.removeprefix("longshore_"), *one.labels.values()): one.value
        for family in text_string_to_metric_families(page.text)
        for one in family.samples
    }


async def test_requests_are_counted_by_template_and_the_queue_is_told(engine: Engine):
    service = Service(observed(engine, Metrics()))
    async with asking(Application(service)) as client:
        job = (await client.post("/v1/jobs", json={"type": "t", "queue": "mail"})).json()
        await client.get(f"/v1/jobs/{job['id']}")
        await client.get("/v1/jobs/00000000-0000-7000-8000-000000000000")
        await client.get("/nowhere")
        await client.request("BREW", "/v1/jobs")
        found = samples(await client.get("/metrics"))
        scale = (await client.get("/v1/autoscale", params={"queue": "mail"})).json()
        other = (await client.get("/v1/autoscale", params={"queue": "none"})).json()

    assert found["http_requests_total", "POST", "/v1/jobs", "201"] == 1
    assert found["http_requests_total", "GET", "/v1/jobs/{id}", "200"] == 1
    assert found["http_requests_total", "GET", "/v1/jobs/{id}", "404"] == 1
    assert found["http_requests_total", "GET", "none", "404"] == 1
    assert found["http_requests_total", "other", "none", "405"] == 1
    assert found["http_request_seconds_count", "POST", "/v1/jobs", "201"] == 1
    assert found["jobs_submitted_total", "mail", "t"] == 1
    assert found["queue_depth", "mail", "ready"] == 1
    assert found["queue_oldest_age_seconds", "mail"] >= 0
    assert found["engine_up",] == 1
    assert scale["value"] == scale["ready"] == 1
    assert scale["running"] == scale["workers"] == 0
    assert other["value"] == other["oldest_age_s"] == 0


async def test_what_is_paused_asks_for_no_workers(engine: Engine, client: httpx.AsyncClient):
    await engine.submit([a_job(queue="mail")])
    await pauses.pause(engine, queue="mail")

    scale = (await client.get("/v1/autoscale", params={"queue": "mail"})).json()

    assert (scale["value"], scale["oldest_age_s"]) == (0, 0)


async def test_a_tenant_whose_jobs_cannot_be_counted_is_not_told_that_there_are_none(
    engine: Engine,
):
    flaky = FlakyEngine(engine)
    await tenants.create(engine, Tenant(name="acme"))
    await engine.submit([a_job(tenant="acme")])
    async with asking(Application(Service(flaky))) as client:
        every = await client.get("/v1/autoscale")
        with flaky.outage():
            theirs = await client.get("/v1/autoscale", headers={"Longshore-Tenant": "acme"})

    assert every.json()["value"] == 1
    assert theirs.status_code == 503
    assert theirs.headers["retry-after"] == "1"


async def test_a_scaler_gets_the_new_count_though_counting_takes_a_moment(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("longshore.observe.overview._FRESH", 0.0)
    monkeypatch.setattr("longshore.observe.overview._SHARE", 0)
    count = engine.counts

    async def counted_slowly(**asked: Any) -> list[QueueCounts]:
        await asyncio.sleep(0.2)
        return await count(**asked)

    monkeypatch.setattr(engine, "counts", counted_slowly)
    await tenants.create(engine, Tenant(name="acme"))
    seen: list[int] = []
    async with asking(Application(Service(engine))) as client:
        for headers in ({}, {"Longshore-Tenant": "acme"}):
            for _ in range(2):
                await engine.submit([a_job(tenant="acme")])
                scale = await client.get("/v1/autoscale", headers=headers)
                seen.append(scale.json()["value"])

    assert seen == [1, 2, 3, 4]


async def test_types_that_wait_are_told_from_types_that_run(
    engine: Engine, client: httpx.AsyncClient
):
    for queue in ("mail", "mail", "else"):
        await engine.submit([a_job(queue=queue, type="t")])
    session = await engine.open_session(
        worker="w", queues=["mail", "else"], types=["t"], lease=60 * SECOND
    )
    claims = (await session.exchange(1, want=10)).claims
    ends = [
        settle.succeeded(
            one,
            started_at=one.run_at + 5 * SECOND,
            finished_at=one.run_at + (6 if one.queue == "mail" else 20) * SECOND,
        )
        for one in claims
    ]
    await session.exchange(2, settlements=ends)

    both = (await client.get("/v1/slow")).json()["types"]
    mail = (await client.get("/v1/slow", params={"queue": "mail"})).json()["types"]

    assert [(one["queue"], one["jobs"], one["mostly"]) for one in both] == [
        ("else", 1, "run"),
        ("mail", 2, "wait"),
    ]
    assert mail == [both[1]]
    assert mail[0]["wait"] == {"p50": 5, "p95": 5, "p99": 5}
    assert mail[0]["run"] == {"p50": 1, "p95": 1, "p99": 1}


async def test_a_tenant_that_invents_queues_takes_no_configured_one_out_of_the_metrics(
    engine: Engine,
):
    service = Service(observed(engine, Metrics()))
    await queue_settings.put(engine, "mail", Layer.DECLARED, QueueSettings(max_running=5))
    await engine.open_session(worker="w", queues=["mail"], types=["send"], lease=60 * SECOND)
    async with asking(Application(service)) as client:
        jobs = [{"type": "t", "queue": f"invented-{number}"} for number in range(400)]
        await client.post("/v1/jobs:batch", json={"jobs": jobs + jobs})
        await service.prefer_labels()
        await client.post("/v1/jobs", json={"type": "send", "queue": "mail"})
        # The first look is a second old at the most.
        service.overview = Overview(service.engine)
        found = samples(await client.get("/metrics"))

    assert found["jobs_submitted_total", "mail", "send"] == 1
    assert found["queue_depth", "mail", "ready"] == 1
    assert found["queue_depth", "other", "ready"] == 2 * 201
