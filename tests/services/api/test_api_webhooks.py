"""Webhook endpoints over HTTP: a tenant's own, with a secret that is shown once."""

import httpx
from api_steps import asking, shown

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.openapi import document
from longshore.api.routes import ROUTES
from longshore.contract import Engine, JobFilter
from longshore.core.account import Tenant
from longshore.operations import deliveries
from longshore.records import tenants, webhooks
from longshore.tasks.settings import WebhookSettings
from longshore.testing.manual import a_worker

URL = "https://example.com/hook"
ACME = {"Longshore-Tenant": "acme"}


async def test_an_endpoint_from_its_making_to_its_end(client: httpx.AsyncClient):
    body = {"url": URL, "events": ["job.*"], "queues": ["mail"], "description": "ops"}
    made = await client.post("/v1/webhooks", json=body)
    path = made.headers["location"]
    got = await client.get(path)
    changed = await client.patch(path, json={"events": ["job.dead"], "is_disabled": True})
    again = await client.patch(path, json={"is_disabled": False})
    rotated = await client.post(f"{path}:rotate", json={"grace_seconds": 60})
    listed = await client.get("/v1/webhooks")
    deleted = await client.delete(path)
    gone = await client.get(path)

    secret = made.json()["secret"]
    assert made.status_code == 201
    assert secret.startswith("whsec_")
    assert secret not in got.text + listed.text + rotated.text
    assert rotated.json()["secret"] != secret
    assert rotated.json()["webhook"]["previous_until"] is not None
    assert got.json() == made.json()["webhook"]
    assert (changed.json()["is_disabled"], changed.json()["events"]) == (True, ["job.dead"])
    assert again.json()["disabled_reason"] is None
    assert len(listed.json()["webhooks"]) == 1
    assert (deleted.status_code, gone.status_code) == (204, 404)


async def test_why_an_endpoint_is_disabled_is_told(client: httpx.AsyncClient):
    path = (await client.post("/v1/webhooks", json={"url": URL})).headers["location"]

    unsaid = await client.patch(path, json={"is_disabled": True})
    said = await client.patch(path, json={"is_disabled": True, "disabled_reason": "moved"})
    alone = await client.patch(path, json={"disabled_reason": "moved"})
    opposite = await client.patch(path, json={"is_disabled": False, "disabled_reason": "x"})

    assert unsaid.json()["disabled_reason"] == "by hand"
    assert said.json()["disabled_reason"] == "moved"
    assert [one.status_code for one in (alone, opposite)] == [422, 422]
    assert (await client.get(path)).json() == said.json()


async def test_deliveries_are_looked_at_and_replayed(engine: Engine, client: httpx.AsyncClient):
    path = (await client.post("/v1/webhooks", json={"url": URL})).headers["location"]
    begun = await client.post(f"{path}:test")
    worker = await a_worker(engine, queues=["longshore.webhooks"], types=["longshore.webhook"])
    (claim,) = await worker.claim()
    waiting = await client.post(f"{path}/deliveries/{begun.json()['id']}:replay")
    await worker.succeed(claim, b'{"status":204}')
    (one,) = (await client.get(f"{path}/deliveries?state=succeeded")).json()["deliveries"]
    replayed = await client.post(f"{path}/deliveries/{one['id']}:replay")
    them = (await client.get(f"{path}/deliveries")).json()["deliveries"]

    assert begun.status_code == replayed.status_code == 202
    assert waiting.status_code == 409
    assert (one["event"], one["status"], one["state"]) == ("webhook.test", 204, "succeeded")
    assert len(them) == 2
    assert {it["message_id"] for it in them} == {one["message_id"]}
    assert replayed.json()["id"] != one["id"]


async def test_another_tenants_endpoint_is_as_if_it_were_not_there(memory: Engine):
    await tenants.create(memory, Tenant(name="acme"))
    async with asking(Application(Service(memory))) as client:
        theirs = (await client.post("/v1/webhooks", json={"url": URL})).headers["location"]
        nobodys = "/v1/webhooks/wh_" + "0" * 24
        pairs = [
            [
                await client.request(method, path + rest, headers=ACME)
                for path in (theirs, nobodys)
            ]
            for method, rest in (
                ("GET", ""),
                ("DELETE", ""),
                ("POST", ":rotate"),
                ("POST", ":test"),
                ("GET", "/deliveries"),
            )
        ]
        refused = [
            (await client.post("/v1/webhooks", json=body)).status_code
            for body in (
                {"url": "ftp://example.com"},
                {"url": "https://user@example.com/"},
                {"url": URL, "events": ["job.unheard"]},
                {"url": URL, "secret": "mine"},
            )
        ]

    for one, other in pairs:
        assert one.status_code == other.status_code == 404
        assert (one.content, shown(one)) == (other.content, shown(other))
    assert refused == [422] * 4
    assert (await memory.find(JobFilter(), limit=10)).jobs == []


async def test_a_url_that_leads_inward_is_refused_unless_the_settings_allow_its_network(
    memory: Engine,
):
    inward = ("http://127.0.0.1:9/", "http://10.1.2.3/", "http://169.254.169.254/latest")
    async with asking(Application(Service(memory))) as client:
        made = await client.post("/v1/webhooks", json={"url": "https://1.1.1.1/"})
        refused = [await client.post("/v1/webhooks", json={"url": url}) for url in inward]
        changed = [
            await client.patch(made.headers["location"], json={"url": url}) for url in inward
        ]
    guard = deliveries.guard_of(WebhookSettings(allowed_networks=("10.1.0.0/16",)))
    async with asking(Application(Service(memory, webhook_guard=guard))) as client:
        allowed = [await client.post("/v1/webhooks", json={"url": url}) for url in inward]

    assert [one.status_code for one in refused + changed] == [422] * 6
    assert "public address" in refused[0].json()["errors"][0]["detail"]
    assert [one.status_code for one in allowed] == [422, 201, 422]
    assert [one.url for one in await webhooks.every(memory)] == ["https://1.1.1.1/", inward[1]]


async def test_an_endpoint_of_a_tenant_that_is_not_there_is_refused_as_the_document_says(
    client: httpx.AsyncClient,
):
    nobody = {"Longshore-Tenant": "nobody"}
    answer = await client.post("/v1/webhooks", json={"url": URL}, headers=nobody)

    told = document(ROUTES)["paths"]["/v1/webhooks"]["post"]["responses"]
    assert (answer.status_code, answer.json()["code"]) == (404, "tenant_not_found")
    assert "404" in told
