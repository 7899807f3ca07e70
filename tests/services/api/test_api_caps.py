"""Caps of a tenant: how many queues, schedules, webhooks, keys and the like it may have."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from api_steps import asking
from msgspec.structs import replace

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.contract import Engine, JobFilter
from longshore.core import webhook
from longshore.core.account import Grant, Scope, Tenant
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.operations import deliveries
from longshore.records import api_keys, queue_settings, schedules, tenants
from longshore.testing.factories import a_job

HOOK = {"url": "https://example.com/"}


@pytest.fixture
async def public(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    """A service that the world can reach."""
    async with asking(Application(Service(engine), is_local=False)) as opened:
        yield opened


async def capped(engine: Engine, **caps: Any) -> dict[str, str]:
    """The header of a key whose tenant has these caps."""
    await tenants.create(engine, Tenant(name="acme", **caps))
    return await a_header(engine, Scope.SUBMIT, Scope.READ, Scope.OPERATE)


async def a_header(
    engine: Engine, *scopes: Scope, tenant: str | None = "acme"
) -> dict[str, str]:
    minted, _ = await api_keys.make(engine, tenant=tenant, grant=Grant(scopes))
    return {"Authorization": f"Bearer {minted.text}"}


def refusal(answer: httpx.Response) -> tuple[int, str, str, float]:
    said = answer.json()
    return answer.status_code, said["code"], said["cap"], said["most"]


async def test_a_tenant_has_jobs_in_no_more_queues_than_its_cap(
    public: httpx.AsyncClient, engine: Engine
):
    key = await capped(engine, max_queues=2)

    async def post(queue: str) -> httpx.Response:
        return await public.post("/v1/jobs", json={"type": "a", "queue": queue}, headers=key)

    first, second, third, again = [await post(name) for name in ("a", "b", "c", "a")]
    batch = await public.post(
        "/v1/jobs:batch",
        json={"jobs": [{"type": "a", "queue": name} for name in ("d", "b")]},
        headers=key,
    )
    fired = await public.post(
        "/v1/schedules",
        json={"name": "s", "type": "a", "queue": "f", "every_seconds": 60},
        headers=key,
    )

    assert [one.status_code for one in (first, second, again)] == [201] * 3
    assert refusal(third) == (409, "cap_reached", "max_queues", 2)
    assert "at most 2 queues with jobs in them (max_queues)" in third.json()["detail"]
    assert [one["status"] for one in batch.json()["results"]] == [409, 201]
    assert refusal(fired) == refusal(third)
    found = (await engine.find(JobFilter(), limit=9)).jobs
    assert {one.queue for one in found} == {"a", "b"}


async def test_another_process_knows_the_queues_that_a_tenant_has(engine: Engine):
    key = await capped(engine, max_queues=1)
    await engine.submit([a_job(tenant="acme", queue="a"), a_job(tenant="other", queue="b")])
    async with asking(Application(Service(engine), is_local=False)) as client:
        mine = await client.post("/v1/jobs", json={"type": "a", "queue": "a"}, headers=key)
        new = await client.post("/v1/jobs", json={"type": "a", "queue": "b"}, headers=key)

    assert (mine.status_code, new.status_code) == (201, 409)


async def test_queues_of_schedules_count_before_they_have_jobs(engine: Engine):
    key = await capped(engine, max_queues=1)
    schedule = {"name": "s", "type": "a", "queue": "a", "every_seconds": 60}
    async with asking(Application(Service(engine), is_local=False)) as client:
        made = await client.post("/v1/schedules", json=schedule, headers=key)
    async with asking(Application(Service(engine), is_local=False)) as client:
        another = {**schedule, "name": "t", "queue": "b"}
        refused = await client.post("/v1/schedules", json=another, headers=key)

    assert made.status_code == 201
    assert refusal(refused) == (409, "cap_reached", "max_queues", 1)


async def test_payloads_of_a_tenants_schedules_are_bounded_all_together(
    public: httpx.AsyncClient, engine: Engine
):
    key = await capped(engine)
    schedule = {"type": "a", "every_seconds": 60, "payload": {"text": "x" * 1_000_000}}

    async def put(name: str, **changes: Any) -> httpx.Response:
        body = {**schedule, **changes}
        return await public.put(f"/v1/schedules/{name}", json=body, headers=key)

    stored = [(await put(f"s{number}")).status_code for number in range(16)]
    refused = await put("last")
    again, small = await put("s0"), await put("last", payload={})

    assert stored == [201] * 16
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/payload")
    assert (again.status_code, small.status_code) == (200, 201)


async def test_queues_that_only_have_settings_are_not_a_tenants(engine: Engine):
    key = await capped(engine, max_queues=1)
    for name in ("b", "c"):
        await queue_settings.put(engine, name, Layer.DECLARED, QueueSettings(max_depth=9))
    async with asking(Application(Service(engine), is_local=False)) as client:
        listed = await client.get("/v1/queues", headers=key)
        shown = await client.get("/v1/queues/b", headers=key)
        made = await client.post("/v1/jobs", json={"type": "a", "queue": "a"}, headers=key)

    assert listed.json()["queues"] == []
    assert shown.status_code == 404
    assert made.status_code == 201


async def test_a_tenant_has_no_more_schedules_than_its_cap(
    public: httpx.AsyncClient, engine: Engine
):
    key = await capped(engine, max_schedules=1)

    async def post(name: str) -> httpx.Response:
        body = {"name": name, "type": "a", "every_seconds": 60}
        return await public.post("/v1/schedules", json=body, headers=key)

    first, second = await post("a"), await post("b")
    changed = await public.patch("/v1/schedules/a", json={"every_seconds": 30}, headers=key)
    body = {"type": "a", "every_seconds": 60}
    put = await public.put("/v1/schedules/c", json=body, headers=key)
    put_again = await public.put("/v1/schedules/a", json=body, headers=key)

    assert (first.status_code, changed.status_code, put_again.status_code) == (201, 200, 200)
    assert refusal(second) == refusal(put) == (409, "cap_reached", "max_schedules", 1)


@pytest.mark.parametrize(
    "caps", [{"rate": 1.0}, {"max_schedule_rate": 1.0}, {"rate": 9.0, "max_schedule_rate": 1.0}]
)
async def test_the_schedules_of_a_tenant_fire_no_faster_together_than_it_may_submit(
    public: httpx.AsyncClient, engine: Engine, caps: dict[str, float]
):
    key = await capped(engine, **caps)

    async def post(name: str, **times: Any) -> httpx.Response:
        body = {"name": name, "type": "a", **times}
        return await public.post("/v1/schedules", json=body, headers=key)

    half = await post("a", every_seconds=2)
    cron = await post("b", cron="*/4 * * * * *")
    over = await post("c", every_seconds=2)
    paused = await post("c", every_seconds=2, is_paused=True)
    resumed = await public.post("/v1/schedules/c:resume", headers=key)
    faster = await public.patch("/v1/schedules/a", json={"every_seconds": 1}, headers=key)

    assert [one.status_code for one in (half, cron, paused)] == [201] * 3
    assert refusal(over) == (409, "cap_reached", "max_schedule_rate", 1)
    assert refusal(resumed) == refusal(faster) == refusal(over)
    assert not any(one.every == 1_000_000 for one in await schedules.every(engine))


async def test_a_tenant_has_no_more_webhooks_keys_and_tags_than_its_caps(
    public: httpx.AsyncClient, engine: Engine
):
    key = await capped(engine, max_webhooks=1, max_keys=2, max_tags=1)
    admin = await a_header(engine, Scope.ADMIN, tenant=None)
    more = {"tenant": "acme", "scopes": ["read"]}

    hooks = [await public.post("/v1/webhooks", json=HOOK, headers=key) for _ in range(2)]
    keys = [await public.post("/v1/keys", json=more, headers=admin) for _ in range(2)]
    jobs = [
        await public.post("/v1/jobs", json={"type": "a", "tags": tags}, headers=key)
        for tags in (["x"], ["x", "y"])
    ]

    assert [one.status_code for one in (hooks[0], keys[0], jobs[0])] == [201] * 3
    assert refusal(hooks[1]) == (409, "cap_reached", "max_webhooks", 1)
    assert refusal(keys[1]) == (409, "cap_reached", "max_keys", 2)
    assert refusal(jobs[1]) == (409, "cap_reached", "max_tags", 1)


async def test_a_tenant_opens_no_more_streams_than_its_cap(
    public: httpx.AsyncClient, engine: Engine
):
    key = await capped(engine, max_streams=0)

    async with asyncio.timeout(20):
        answer = await public.get("/v1/events", headers=key)

    assert answer.status_code == 429
    assert answer.json()["violated-policies"] == ["streams"]


async def test_a_test_of_a_webhook_is_charged_to_the_tenants_quota(
    public: httpx.AsyncClient, engine: Engine
):
    key = await capped(engine, rate=0.01, burst=1)
    made = (await public.post("/v1/webhooks", json=HOOK, headers=key)).json()
    path = f"/v1/webhooks/{made['webhook']['id']}:test"

    first, second = [await public.post(path, headers=key) for _ in range(2)]

    assert (first.status_code, second.status_code) == (202, 429)


async def test_caps_are_settings_of_a_tenant_and_an_operator_has_none(
    public: httpx.AsyncClient, engine: Engine
):
    admin = await a_header(engine, Scope.ADMIN, tenant=None)
    operator = await a_header(engine, Scope.SUBMIT, Scope.OPERATE, tenant=None)
    await tenants.change(
        engine, "default", lambda seen: replace(seen, max_queues=0, max_webhooks=0)
    )

    made = await public.post("/v1/tenants", json={"name": "acme"}, headers=admin)
    changed = await public.patch("/v1/tenants/acme", json={"max_queues": 7}, headers=admin)
    wrong = await public.patch("/v1/tenants/acme", json={"max_queues": -1}, headers=admin)
    job = await public.post("/v1/jobs", json={"type": "a"}, headers=operator)
    hook = await public.post("/v1/webhooks", json=HOOK, headers=operator)

    assert (made.json()["max_queues"], made.json()["max_webhooks"]) == (1_000, 100)
    assert (changed.json()["max_queues"], wrong.status_code) == (7, 422)
    assert (job.status_code, hook.status_code) == (201, 201)


async def test_queues_that_longshore_itself_uses_are_refused_to_tenants(
    public: httpx.AsyncClient, engine: Engine
):
    key = await capped(engine)
    operator = await a_header(engine, Scope.SUBMIT, tenant=None)
    job = {"type": "a", "queue": webhook.QUEUE}

    answers = [
        await public.post("/v1/jobs", json=job, headers=key),
        await public.post(
            "/v1/schedules", json=job | {"name": "s", "every_seconds": 60}, headers=key
        ),
        await public.put("/v1/schedules/s", json=job | {"every_seconds": 60}, headers=key),
    ]
    batch = await public.post("/v1/jobs:batch", json={"jobs": [job]}, headers=key)
    allowed = await public.post("/v1/jobs", json=job, headers=operator)

    assert [one.status_code for one in answers] == [422] * 3
    assert [one["status"] for one in batch.json()["results"]] == [422]
    assert allowed.status_code == 201
    assert await schedules.every(engine) == []


async def test_a_tenant_has_as_many_webhooks_as_its_cap_says_and_operators_make_more(
    public: httpx.AsyncClient, engine: Engine
):
    key = await capped(engine)
    operator = await a_header(engine, Scope.OPERATE, tenant=None)
    most = Tenant(name="acme").max_webhooks
    for n in range(most - 1):
        await deliveries.create(engine, tenant="acme", url=f"https://1.1.1.1/{n}")

    last = await public.post("/v1/webhooks", json=HOOK, headers=key)
    over = await public.post("/v1/webhooks", json=HOOK, headers=key)
    by_operator = await public.post(
        "/v1/webhooks", json=HOOK, headers=operator | {"Longshore-Tenant": "acme"}
    )

    assert (last.status_code, by_operator.status_code) == (201, 201)
    assert refusal(over) == (409, "cap_reached", "max_webhooks", most)
