"""The audit log over HTTP: who did what, and who may know."""

from typing import NamedTuple

import httpx
import pytest
from api_steps import asking

from longshore import auditing
from longshore.api.application import Application
from longshore.api.service import Service
from longshore.auditing import Filter
from longshore.core import ids
from longshore.core.account import NewKey, Scope, Tenant
from longshore.core.audit import Kind
from longshore.engine import Engine
from longshore.errors import EngineError
from longshore.runtime.clock import ManualClock
from longshore.runtime.keys import MintedKey, mint
from longshore.scheduler.chain import Chainer
from longshore.testing.factories import MINUTE
from longshore.testing.flaky import FlakyEngine


async def a_key(engine: Engine, *scopes: Scope, tenant: str | None) -> MintedKey:
    minted = mint()
    await engine.add_key(
        NewKey(id=minted.id, digest=minted.digest, tenant=tenant, scopes=scopes)
    )
    return minted


def bearing(key: MintedKey, **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.text}", **headers}


async def test_what_a_key_did_is_told_to_those_who_manage_keys(engine: Engine):
    await engine.put_tenant(Tenant(name="acme"))
    key = await a_key(engine, Scope.SUBMIT, Scope.OPERATE, tenant="acme")
    admin = await a_key(engine, Scope.ADMIN, Scope.OPERATE, tenant=None)
    service = Service(engine, tells_who=True)
    async with asking(Application(service, is_local=False)) as client:
        made = await client.post("/v1/jobs", json={"type": "a"}, headers=bearing(key))
        job = made.json()["id"]
        await client.post(f"/v1/jobs/{job}:cancel", headers=bearing(key))
        await client.post("/v1/queues/mail:pause", headers=bearing(admin))
        await Chainer(engine, transitions=True).tick()

        refused = await client.get("/v1/audit", headers=bearing(key))
        every = await client.get("/v1/audit", headers=bearing(admin))
        own = await client.get(
            "/v1/audit", headers=bearing(admin, **{"Longshore-Tenant": "acme"})
        )
        about = await client.get(f"/v1/audit?subject={job}", headers=bearing(admin))
        odd = await client.get("/v1/audit?cursor=odd", headers=bearing(admin))

    who = f"key {key.id}"
    told = [(one["actor"], one["action"], one["subject"]) for one in every.json()["items"]]
    assert refused.status_code == 403
    assert (f"key {admin.id}", "queue.pause", "mail") in told
    assert {one["tenant"] for one in own.json()["items"]} == {"acme"}
    assert {(one["actor"], one["action"]) for one in about.json()["items"]} == {
        (who, "job.submitted"),
        (who, "job.cancel"),
        ("", "job.cancelled"),
    }
    assert every.json()["head"] == (await engine.audit_standing()).head.text
    assert odd.status_code == 400


async def test_pages_show_every_row_once(client: httpx.AsyncClient, engine: Engine):
    await client.post("/v1/jobs:batch", json={"jobs": [{"type": "a"} for _ in range(5)]})
    for number in range(4):
        await engine.pause(queue=f"q{number}")
    await Chainer(engine, transitions=True).tick()

    seen: list[str] = []
    cursor = ""
    while True:
        answer = (await client.get(f"/v1/audit?limit=2{cursor}")).json()
        seen += [one["id"] for one in answer["items"]]
        if answer["cursor"] is None:
            break
        cursor = f"&cursor={answer['cursor']}"

    assert len(seen) == len(set(seen)) == 9
    assert seen == sorted(seen, key=lambda one: [int(n) for n in one.split(".")])[::-1]


async def test_a_submitter_cannot_say_it_was_another(engine: Engine):
    async with asking(Application(Service(engine, tells_who=True))) as client:
        job = {
            "id": "AZqKbnwAcACAAAAAAAAAAA==",
            "type": "a",
            "payload": "e30=",
            "by": "key of another",
        }
        answer = await client.post("/v1/engine/submit", json={"jobs": [job]})
    await Chainer(engine, transitions=True).tick()

    page = await auditing.find(engine, Filter(kind=Kind.TRANSITIONS), limit=10)
    assert answer.status_code == 200, answer.text
    assert [(one.actor, one.subject) for one in page.items] == [
        ("loopback", ids.text(ids.JobId(bytes.fromhex("019a8a6e7c0070008000000000000000"))))
    ]


class Submitted(NamedTuple):
    actor: str
    tenant: str
    subject: str


async def submitted(engine: Engine) -> list[Submitted]:
    """What the log says of submits, oldest first."""
    await Chainer(engine).tick()
    page = await auditing.find(engine, Filter(action="job.submit"), limit=10)
    return [Submitted(one.actor, one.tenant, one.subject) for one in reversed(page.items)]


async def test_who_submitted_how_much_is_told_once_a_minute_and_at_the_end(engine: Engine):
    await engine.put_tenant(Tenant(name="acme"))
    key = await a_key(engine, Scope.SUBMIT, tenant="acme")
    admin = await a_key(engine, Scope.SUBMIT, tenant=None)
    clock = ManualClock()
    service = Service(engine, clock=clock)
    batch = {"jobs": [{"type": "a"}, {"type": "b", "queue": 7}, {"type": "c"}]}
    headers = bearing(key, **{"Idempotency-Key": "once"})
    async with asking(Application(service, is_local=False)) as client:
        first = await client.post("/v1/jobs", json={"type": "a"}, headers=headers)
        await client.post("/v1/jobs", json={"type": "a"}, headers=headers)
        await client.post("/v1/jobs", json={"type": "a"}, headers=bearing(admin))
        await service.submissions.tick()
        at_once = await submitted(engine)
        for _ in range(2):
            await client.post("/v1/jobs:batch", json=batch, headers=bearing(key))
        await service.submissions.tick()
        meanwhile = await submitted(engine)
        clock.advance(MINUTE)
        await service.submissions.tick()
        after_a_minute = await submitted(engine)
        await client.post("/v1/jobs", json={"type": "a"}, headers=bearing(key))
        await service.submissions.tell_all()

    who = f"key {key.id}"
    assert at_once == meanwhile
    assert at_once == [
        (who, "acme", first.json()["id"]),
        (f"key {admin.id}", "default", at_once[1].subject),
    ]
    assert after_a_minute[2:] == [(who, "acme", "4 jobs")]
    assert len(await submitted(engine)) == 4


async def test_what_a_store_that_was_away_did_not_hear_is_told_later(engine: Engine):
    flaky = FlakyEngine(engine)
    service = Service(flaky.as_engine)
    async with asking(Application(service)) as client:
        await client.post("/v1/jobs", json={"type": "a"})
        with flaky.outage(), pytest.raises(EngineError):
            await service.submissions.tick()
        await client.post("/v1/jobs", json={"type": "a"})
        await service.submissions.tick()

    assert await submitted(engine) == [("loopback", "default", "2 jobs")]


@pytest.mark.parametrize("transitions", [True, False])
async def test_the_outbox_keeps_events_for_the_log_only_where_they_go_into_it(
    memory: Engine, transitions: bool
):
    await Chainer(memory, transitions=True).tick()
    await memory.pause(queue="mail")

    await Chainer(memory, transitions=transitions).tick()

    names = [one.name for one in await memory.consumers()]
    assert names == (["audit"] if transitions else [])
    page = await auditing.find(memory, Filter(), limit=10)
    assert "queue.pause" in [one.action for one in page.items]
