"""The audit log over HTTP: who did what, and who may know."""

from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from api_steps import asking

from longshore import audit_query
from longshore.api import audit
from longshore.api.application import Application
from longshore.api.context import Service
from longshore.audit_query import Filter
from longshore.contract import Engine
from longshore.core.account import NewKey, Scope, Tenant
from longshore.core.audit import Entry, Kind
from longshore.errors import EngineError
from longshore.records import api_keys, pauses, tenants
from longshore.runtime.clock import ManualClock
from longshore.runtime.keys import MintedKey, mint
from longshore.scheduler.audit_chain import Chainer
from longshore.testing.factories import MINUTE
from longshore.testing.flaky import FlakyEngine


async def a_key(engine: Engine, *scopes: Scope, tenant: str | None) -> MintedKey:
    minted = mint()
    await api_keys.add(
        engine, NewKey(id=minted.id, digest=minted.digest, tenant=tenant, scopes=scopes)
    )
    return minted


def bearing(key: MintedKey, **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.text}", **headers}


async def test_what_a_key_did_is_told_to_those_who_manage_keys(engine: Engine):
    await tenants.create(engine, Tenant(name="acme"))
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
        await pauses.pause(engine, queue=f"q{number}")
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


async def test_a_log_is_read_whole_page_by_page_with_an_admin_key_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    reader = await a_key(engine, Scope.READ, Scope.OPERATE, tenant=None)
    admin = await a_key(engine, Scope.ADMIN, tenant=None)
    for number in range(5):
        await pauses.pause(engine, queue=f"q{number}")
    await Chainer(engine, transitions=True).tick()
    monkeypatch.setattr(audit, "_AT_ONCE", 2)
    async with asking(Application(Service(engine), is_local=False)) as client:
        refused = [
            await client.get(path, headers=bearing(reader))
            for path in ("/v1/audit/head", "/v1/audit/entries")
        ]
        head = await client.get("/v1/audit/head", headers=bearing(admin))
        four = await client.get("/v1/audit/entries?limit=4", headers=bearing(admin))
        monkeypatch.setattr(audit, "_MOST_BYTES", 1)
        pages: list[Any] = []
        query: dict[str, Any] = {"after": 1}
        while query:
            page = await client.get("/v1/audit/entries", params=query, headers=bearing(admin))
            pages.append(page.json()["entries"])
            cursor = page.json()["cursor"]
            query = {"cursor": cursor} if cursor else {}

    standing = await engine.audit_standing()
    read = [msgspec.convert(one, Entry) for page in pages for one in page]
    assert [one.status_code for one in refused] == [403] * 2
    assert head.json() == {"head": standing.head.text, "anchor": standing.anchor.text}
    assert read == await engine.audit_entries(after=1, limit=100)
    assert [one["number"] for one in four.json()["entries"]] == [1, 2, 3, 4]
    assert {len(page) for page in pages[:-1]} == {2}


async def test_a_submitter_cannot_say_it_was_another(engine: Engine):
    async with asking(Application(Service(engine, tells_who=True))) as client:
        job = {"id": "019a8a6e-7c00-7000-8000-000000000000", "type": "a"}
        answer = await client.post("/v1/jobs", json=job)
        refused = await client.post("/v1/jobs", json={"type": "a", "by": "key of another"})
    await Chainer(engine, transitions=True).tick()

    page = await audit_query.find(engine, Filter(kind=Kind.TRANSITIONS), limit=10)
    assert (answer.status_code, refused.status_code) == (201, 422)
    assert [(one.actor, one.subject) for one in page.items] == [("loopback", job["id"])]


class Submitted(NamedTuple):
    actor: str
    tenant: str
    subject: str


async def submitted(engine: Engine) -> list[Submitted]:
    """What the log says of submits, oldest first."""
    await Chainer(engine).tick()
    page = await audit_query.find(engine, Filter(action="job.submit"), limit=10)
    return [Submitted(one.actor, one.tenant, one.subject) for one in reversed(page.items)]


async def test_who_submitted_how_much_is_told_once_a_minute_and_at_the_end(engine: Engine):
    await tenants.create(engine, Tenant(name="acme"))
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
    service = Service(flaky)
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
    await pauses.pause(memory, queue="mail")

    await Chainer(memory, transitions=transitions).tick()

    names = [one.name for one in await memory.consumers()]
    assert names == (["audit"] if transitions else [])
    page = await audit_query.find(memory, Filter(), limit=10)
    assert "queue.pause" in [one.action for one in page.items]
