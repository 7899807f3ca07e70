"""Ordering keys over HTTP."""

import httpx

from longshore.contract import Engine
from longshore.core import ids
from longshore.core.account import Tenant
from longshore.records import tenants
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker


async def test_a_blocked_line_is_listed_and_released(client: httpx.AsyncClient, engine: Engine):
    set_ = await client.patch("/v1/queues/default", json={"settings": {"on_dead": "block"}})
    body = {"type": "noop", "payload": {}, "ordering_key": "anna/1"}
    first, second = [(await client.post("/v1/jobs", json=body)).json() for _ in range(2)]
    worker = await a_worker(engine)
    (claim,) = await worker.claim(9)
    await worker.kill(claim)

    (line,) = (await client.get("/v1/lines")).json()["lines"]
    parked = (await client.get(f"/v1/jobs/{second['id']}")).json()
    name = {"queue": "default", "key": "anna/1"}
    strange = await client.post("/v1/lines:release", json={**name, "tenant": "acme"})
    released = [await client.post("/v1/lines:release", json=name) for _ in range(2)]

    assert set_.json()["settings"]["on_dead"] == "block"
    assert ids.text(claim.id) == first["id"]
    assert (line["queue"], line["key"], line["dead"]) == ("default", "anna/1", [first["id"]])
    assert (parked["state"], parked["parked"]) == ("ready", "line")
    assert strange.json() == {**name, "tenant": "acme", "is_released": False}
    assert [one.json()["is_released"] for one in released] == [True, False]
    assert (await client.get("/v1/lines")).json() == {"lines": [], "cursor": None}
    assert (await client.post("/v1/lines:release", json={"queue": "q"})).status_code == 422


async def test_one_line_is_told_whatever_its_key_and_however_it_stands(
    client: httpx.AsyncClient, engine: Engine
):
    await client.patch("/v1/queues/a%2Fb", json={"settings": {"max_running_per_key": 1}})
    key = "../anna?x=1&y=é%2F+:release"
    body = {"type": "noop", "payload": {}, "queue": "a/b", "ordering_key": key}
    first, _ = [(await client.post("/v1/jobs", json=body)).json() for _ in range(2)]

    line = await client.get("/v1/queues/a%2Fb/line", params={"key": key})
    empty = await client.get("/v1/queues/a%2Fb/line", params={"key": "nobody"})
    null = await client.get("/v1/queues/null/line", params={"key": "null"})
    nameless = await client.get("/v1/queues/a%2Fb/line")

    assert line.json() == {
        "queue": "a/b",
        "key": key,
        "tenant": "default",
        "inside": 1,
        "parked": 1,
        "last": first["id"],
        "dead": [],
        "opens_at": None,
    }
    assert null.json()["key"] == "null"
    assert (empty.status_code, empty.json()["inside"], empty.json()["last"]) == (200, 0, None)
    assert nameless.status_code == 422


async def test_a_line_of_another_tenant_looks_empty(client: httpx.AsyncClient, engine: Engine):
    await tenants.create(engine, Tenant(name="acme"))
    await engine.submit([a_job(ordering_key="anna")])
    path, acme = "/v1/queues/default/line", {"longshore-tenant": "acme"}

    ours = (await client.get(path, params={"key": "anna"})).json()
    theirs = (await client.get(path, params={"key": "anna"}, headers=acme)).json()

    assert (ours["tenant"], ours["inside"]) == ("default", 1)
    assert theirs == {**ours, "tenant": "acme", "inside": 0, "last": None}


async def test_a_line_tells_when_its_rate_lets_the_next_job_in(client: httpx.AsyncClient):
    settings = {"rate_per_key": 0.01, "max_running_per_key": 5}
    await client.patch("/v1/queues/default", json={"settings": settings})
    body = {"type": "noop", "payload": {}, "ordering_key": "anna"}
    for _ in range(2):
        await client.post("/v1/jobs", json=body)

    line = (await client.get("/v1/queues/default/line", params={"key": "anna"})).json()

    assert (line["inside"], line["parked"]) == (1, 1)
    assert line["opens_at"] > (await client.get("/readyz")).json()["now"]
