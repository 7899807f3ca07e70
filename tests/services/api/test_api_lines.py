"""Ordering keys over HTTP."""

import httpx

from longshore.core import ids
from longshore.engine import Engine
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
    assert strange.json() == {"is_released": False}
    assert [one.json() for one in released] == [{"is_released": True}, {"is_released": False}]
    assert (await client.get("/v1/lines")).json() == {"lines": [], "cursor": None}
    assert (await client.post("/v1/lines:release", json={"queue": "q"})).status_code == 422
