"""One record that cannot be decoded is set aside and named, and the others are read as ever."""

import asyncio
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path

import asyncpg
import httpx
import pytest
from msgspec.structs import replace

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.client import Client
from longshore.contract import Engine, JobFilter
from longshore.contract.records import Kind, Put, Ref
from longshore.core import ids, webhook
from longshore.core.account import NewKey, Scope, Tenant
from longshore.core.consumer import Quarantined
from longshore.core.event import Group, Name, encode
from longshore.core.limit_settings import BreakerSettings, Layer, QueueSettings
from longshore.core.state import State
from longshore.core.webhook import Endpoint, Secret, secret_text
from longshore.engines import open_engine
from longshore.errors import BrokenRecordError
from longshore.operations import deliveries
from longshore.operations.backend import EngineBackend
from longshore.records import (
    api_keys,
    breaker_settings,
    broken,
    pauses,
    quarantine,
    queue_settings,
    schedules,
    tenants,
    webhooks,
)
from longshore.runtime.ids import IdSource
from longshore.runtime.keys import mint
from longshore.scheduler.fire import Firer
from longshore.scheduler.notify import Notifier
from longshore.testing.factories import MINUTE, a_job, a_schedule, an_unchecked_job
from longshore.testing.manual import a_worker

Plant = Callable[[str], Awaitable[None]]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def engine(url: str) -> AsyncIterator[Engine]:
    engine = open_engine(url)
    await engine.migrate()
    yield engine
    await engine.close()


@pytest.fixture
def plant(url: str) -> Plant:
    """Change the store behind the engine's back; `{}` before a table's name is its schema."""

    async def on_sqlite(statement: str) -> None:
        def change() -> int:
            path = url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, timeout=30)) as db, db:
                return db.execute(statement.replace("{}", "longshore_")).rowcount

        assert await asyncio.to_thread(change)

    async def on_postgres(statement: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            assert await connection.execute(statement.replace("{}", "longshore.")) != "UPDATE 0"
        finally:
            await connection.close()

    return on_sqlite if url.startswith("sqlite") else on_postgres


BAD, GOOD = (f"wh_{number:024x}" for number in (1, 2))


def an_endpoint(name: str, *, tenant: str) -> Endpoint:
    secret = Secret(secret_text(bytes(range(32))), until=None)
    return Endpoint(id=name, tenant=tenant, url="https://example.com/", secrets=(secret,))


def warnings_of(log: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (one.__dict__["kind"], one.__dict__["record"])
        for one in log.records
        if one.name == "longshore.store" and one.levelno == logging.WARNING
    ]


async def found_broken(engine: Engine) -> list[tuple[str, str, str | None]]:
    return [(one.kind, one.name, one.tenant) for one in await broken.every(engine)]


@pytest.mark.parametrize("definition", ["no json", '{"name": 1}', "[]", '{"type": "t"}'])
async def test_a_schedule_that_cannot_be_decoded_keeps_no_other_from_firing(
    engine: Engine, plant: Plant, definition: str, caplog: pytest.LogCaptureFixture
) -> None:
    now = await engine.now()
    for number, name in enumerate(["bad-1", "bad-2", "good"]):
        await schedules.put(engine, a_schedule(name=name, next_due=now - MINUTE + number))
    where = "kind = 'schedule' and name like 'bad%'"
    await plant(f"update {{}}record set body = '{definition}' where {where}")

    due = await schedules.due(engine, limit=1)
    listed = await schedules.every(engine)
    await Firer(engine, IdSource()).tick()

    assert [one.schedule.name for one in due] == ["good"]
    assert [one.name for one in listed] == ["good"]
    assert [one.type for one in (await engine.find(JobFilter(), limit=9)).jobs] == ["noop"]
    assert await found_broken(engine) == [
        ("schedule", "bad-1", "default"),
        ("schedule", "bad-2", "default"),
    ]
    told = [name for kind, name in warnings_of(caplog) if kind == "schedule"]
    assert len(told) == len(set(told))


async def test_a_record_is_warned_of_once_with_its_name_and_what_is_wrong(
    engine: Engine, plant: Plant, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"told once by {engine.url[:8]}"
    await schedules.put(engine, a_schedule(name=name))
    await plant("update {}record set body = '[1]' where kind = 'schedule'")

    for _ in range(3):
        await schedules.every(engine)

    (warning,) = [one for one in caplog.records if one.name == "longshore.store"]
    assert warning.__dict__["record"] == name
    assert warning.__dict__["tenant"] == "default"
    assert "Expected `object`, got `array`" in warning.__dict__["error"]


async def test_a_schedule_that_can_be_decoded_and_not_fired_keeps_no_other_from_firing(
    engine: Engine, plant: Plant
) -> None:
    now = await engine.now()
    for name in ("zero", "good"):
        await schedules.put(engine, a_schedule(name=name, next_due=now - MINUTE))
    zero = json.dumps({"name": "zero", "type": "t", "every": 0})
    where = "kind = 'schedule' and name = 'zero'"
    await plant(f"update {{}}record set body = '{zero}' where {where}")

    await Firer(engine, IdSource()).tick()

    assert len((await engine.find(JobFilter(), limit=9)).jobs) == 1


async def test_a_record_is_what_its_name_says_whatever_its_body_says(
    engine: Engine, plant: Plant
) -> None:
    now = await engine.now()
    await tenants.create(engine, Tenant(name="acme"))
    await webhooks.create(engine, an_endpoint(GOOD, tenant="acme"))
    for name in ("bad", "good"):
        await schedules.put(engine, a_schedule(name=name, tenant="acme", next_due=now - MINUTE))
    await plant("update {}record set body = replace(body, 'bad', 'worse')")
    await plant("update {}record set body = replace(body, 'acme', 'other')")
    await plant(f"update {{}}record set body = replace(body, '{GOOD}', '{BAD}')")

    await Firer(engine, IdSource()).tick()
    (endpoint,) = await webhooks.every(engine)
    await tenants.change(engine, "acme", lambda it: replace(it, weight=2))

    assert [one.tenant for one in (await engine.find(JobFilter(), limit=9)).jobs] == [
        "acme"
    ] * 2
    assert [one.name for one in await schedules.every(engine) if one.last_due] == [
        "bad",
        "good",
    ]
    assert (endpoint.id, endpoint.tenant) == (GOOD, "acme")
    assert [one.name for one in await tenants.every(engine)] == ["acme", "default"]


async def test_settings_that_cannot_be_decoded_leave_those_of_others_in_force(
    engine: Engine, plant: Plant
) -> None:
    for name in ("bad", "good"):
        await queue_settings.put(engine, name, Layer.OVERRIDDEN, QueueSettings(max_running=1))
        await breaker_settings.put(engine, name, Layer.OVERRIDDEN, BreakerSettings(failures=3))
    await plant(
        "update {}record set body = '[]' where kind in ('queue', 'breaker') and name = 'bad'"
    )

    queues, breakers = await queue_settings.every(engine), await breaker_settings.every(engine)
    found = await found_broken(engine)
    await queue_settings.put(engine, "bad", Layer.OVERRIDDEN, QueueSettings(max_running=2))
    await breaker_settings.put(engine, "bad", Layer.OVERRIDDEN, BreakerSettings(failures=4))

    assert [one.queue for one in queues] == ["good"]
    assert [one.type for one in breakers] == ["good"]
    assert found == [("queue", "bad", None), ("breaker", "bad", None)]
    assert await found_broken(engine) == []
    assert [one.queue for one in await queue_settings.every(engine)] == ["bad", "good"]


async def test_a_breaker_whose_count_cannot_be_decoded_is_closed_and_holds_up_nobody(
    engine: Engine, plant: Plant
) -> None:
    await breaker_settings.put(engine, "noop", Layer.DECLARED, BreakerSettings(failures=3))
    await plant("update {}breaker set standing = '[]'")
    (found,) = await breaker_settings.every(engine)
    await breaker_settings.put(engine, "noop", Layer.OVERRIDDEN, BreakerSettings(probes=2))
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)

    first, second = await worker.claim(2)
    await worker.fail(first)
    await worker.succeed(second)

    (after,) = await breaker_settings.every(engine)
    assert (found.phase, after.phase) == ("closed", "closed")
    assert after.effective == BreakerSettings(failures=3, probes=2)
    assert len((await engine.find(JobFilter(), limit=9)).jobs) == 2


async def test_tenants_and_webhooks_that_cannot_be_decoded_are_left_out_and_can_be_put_anew(
    engine: Engine, plant: Plant
) -> None:
    key = mint()
    for name, endpoint_id in (("bad", BAD), ("good", GOOD)):
        await tenants.create(engine, Tenant(name=name))
        await webhooks.create(engine, an_endpoint(endpoint_id, tenant=name))
    await api_keys.add(
        engine,
        NewKey(id=key.id, digest=key.digest, tenant="bad", scopes=(Scope.READ,), label=""),
    )
    await plant("update {}record set body = '[]' where kind = 'tenant' and name = 'bad'")
    await plant("update {}record set body = '[]' where kind = 'webhook' and tenant = 'bad'")

    names, endpoints = await tenants.every(engine), await webhooks.every(engine)
    found = await found_broken(engine)
    for call in (
        lambda: tenants.get(engine, "bad"),
        lambda: webhooks.get(engine, BAD),
        lambda: api_keys.find_access(engine, key.id),
    ):
        with pytest.raises(BrokenRecordError, match="cannot be decoded"):
            await call()
    await Notifier(engine, IdSource()).tick()
    await tenants.create(engine, Tenant(name="bad"))
    await webhooks.create(engine, an_endpoint(BAD, tenant="bad"))

    assert [one.name for one in names] == ["default", "good"]
    assert [one.id for one in endpoints] == [GOOD]
    assert found == [("tenant", "bad", "bad"), ("webhook", BAD, "bad")]
    assert await found_broken(engine) == []
    assert await api_keys.find_access(engine, key.id) is not None


async def test_a_scope_of_a_later_version_is_nothing(engine: Engine) -> None:
    key = mint()
    new = NewKey(id=key.id, digest=key.digest, scopes=(Scope.SUBMIT, Scope.READ), label="")
    await api_keys.add(engine, new)
    ref = Ref(Kind.KEY, key.id, None)
    (record,) = (await engine.get_records([ref])).records
    assert record is not None
    body = record.body.replace(b'"submit"', b'"fly","submit"')
    owned = Ref(Kind.KEY, key.id, record.tenant)
    put = Put(ref=owned, body=body, expected=record.version)
    await engine.write_records([put], audit=None)

    found = await api_keys.find_access(engine, key.id)

    assert found is not None
    assert found.key.scopes == (Scope.SUBMIT, Scope.READ)


async def test_records_of_a_kind_of_later_code_stand_in_nobodys_way(
    engine: Engine, plant: Plant
) -> None:
    """They go with their tenant."""
    await tenants.create(engine, Tenant(name="acme"))
    await webhooks.create(engine, an_endpoint(BAD, tenant="acme"))
    copied = "version, '[1]', created_at, changed_at"
    columns = "version, body, created_at, changed_at"
    if "sqlite" not in engine.url:
        copied, columns = f"{copied}, false", f"{columns}, is_unique"
    for tenant in ("acme", ""):
        await plant(
            f"insert into {{}}record (kind, name, tenant, {columns}) "
            f"select 'rumour', '{BAD}', '{tenant}', {copied} from {{}}record "
            "where kind = 'webhook'"
        )

    assert await found_broken(engine) == []
    assert [one.id for one in await webhooks.every(engine)] == [BAD]
    await tenants.delete(engine, "acme")
    assert await webhooks.every(engine) == []
    await plant("update {}record set body = '[2]' where kind = 'rumour' and tenant = ''")
    with pytest.raises(AssertionError):  # nothing to change
        await plant("update {}record set body = '[2]' where kind = 'rumour' and tenant <> ''")


async def test_a_webhooks_gate_that_cannot_be_decoded_is_open(
    engine: Engine, plant: Plant
) -> None:
    await webhooks.create(engine, an_endpoint(BAD, tenant="default"))
    await webhooks.admit(engine, BAD, "first", max_in_flight=1, lease=MINUTE)
    full = await webhooks.admit(engine, BAD, "second", max_in_flight=1, lease=MINUTE)
    await plant("update {}record set body = '[]' where kind = 'webhook_gate'")

    rejected = await webhooks.admit(engine, BAD, "second", max_in_flight=1, lease=MINUTE)
    await webhooks.release(engine, BAD, "second", succeeded=True)

    assert full is not None
    assert rejected is None


async def test_a_job_whose_failure_cannot_be_decoded_is_listed_and_says_so(
    engine: Engine, plant: Plant
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    for claim in await worker.claim(2):
        await worker.fail(claim)
    (_, bad) = (await engine.find(JobFilter(), limit=9)).jobs
    where = "seq = 1" if "sqlite" in engine.url else "ordinal = 0"
    await plant(f"update {{}}attempt set failure = '[1]' where {where}")

    jobs = (await engine.find(JobFilter(), limit=9)).jobs
    (attempt,) = await engine.attempts(bad.id)

    kinds = {one.id: one.failure.kind for one in jobs if one.failure}
    assert kinds.pop(bad.id) == "undecodable"
    assert list(kinds.values()) == ["ValueError"]
    assert attempt.failure is not None
    assert "Expected `object`, got `array`" in attempt.failure.message


async def test_a_job_whose_tags_cannot_be_decoded_is_listed_by_the_api_and_claimed(
    engine: Engine, plant: Plant
) -> None:
    if "sqlite" not in engine.url:
        pytest.skip("PostgreSQL stores tags as JSON that its own type checks")
    await engine.submit(
        [a_job(tags=("red",)), an_unchecked_job(tags=("red",), payload=b"\xff{")]
    )
    await plant("update {}job set tags = 'no json' where seq = 1")
    transport = httpx.ASGITransport(Application(Service(engine)), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        listed = (await http.get("/v1/jobs")).json()["jobs"]
        red = (await http.get("/v1/jobs", params={"tag": "red"})).json()["jobs"]
    worker = await a_worker(engine)

    claims = await worker.claim(9)

    assert [one["tags"] for one in listed] == [["red"], []]
    assert [one["id"] for one in red] == [listed[0]["id"]]
    assert [one.tags for one in claims] == [(), ("red",)]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b"\xff{",
        b"",
        b"[1]",
        b'{"a": 1, "a": 2}',
    ],
    ids=["deep", "no text", "empty", "no object", "key twice"],
)
async def test_jobs_are_listed_and_told_whatever_payload_one_of_them_has(
    engine: Engine, payload: bytes
) -> None:
    bad = an_unchecked_job(payload=payload)
    await engine.submit([a_job(), bad])
    transport = httpx.ASGITransport(Application(Service(engine)), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        listed = await http.get("/v1/jobs")
        told = await http.get(f"/v1/jobs/{ids.text(bad.id)}")
        dead = await http.get("/v1/dead")

    assert (listed.status_code, told.status_code, dead.status_code) == (200, 200, 200)
    assert len(listed.json()["jobs"]) == 2


@pytest.mark.parametrize(
    "result",
    [b"1e999", b"9" * 5_000, b'["\xff"]', b"[" * 900 + b"]" * 900],
    ids=["no float", "digits", "no text", "deep"],
)
async def test_a_result_that_python_cannot_hold_is_read_as_text_and_spoils_no_list(
    engine: Engine, result: bytes
) -> None:
    await engine.submit([a_job(type="good"), a_job(type="bad")])
    worker = await a_worker(engine, types=["good", "bad"])
    for claim in await worker.claim(2):
        await worker.succeed(claim, b"1" if claim.type == "good" else result)
    expected = {"good": 1, "bad": result.decode(errors="replace")}
    backend = EngineBackend(engine)
    transport = httpx.ASGITransport(Application(Service(engine)), client=("127.0.0.1", 1))

    beside = {job.type: job.result async for job in backend.jobs()}
    async with Client("http://localhost", transport=transport) as client:
        listed = {job.type: job async for job in client.jobs()}
        told = await client.get(listed["bad"].id)

    assert beside == expected
    assert {job.type: job.result for job in listed.values()} == expected
    assert told.result == expected["bad"]


async def test_a_client_reads_the_jobs_it_changed_whatever_payload_one_of_them_has(
    engine: Engine,
) -> None:
    bad = an_unchecked_job(payload=b'{"a": 1e999}')
    await engine.submit([bad])
    transport = httpx.ASGITransport(Application(Service(engine)), client=("127.0.0.1", 1))

    async with Client("http://localhost", transport=transport) as client:
        (cancelled,) = await client.change_jobs("cancel", [ids.text(bad.id)])

    assert (cancelled.state, cancelled.payload) == (State.CANCELLED, '{"a":1e999}')


@pytest.mark.parametrize("due", [-(2**60), -1])
async def test_a_schedule_due_outside_of_the_calendar_keeps_no_other_from_firing(
    engine: Engine, plant: Plant, due: int
) -> None:
    now = await engine.now()
    for name in ("far", "good"):
        await schedules.put(engine, a_schedule(name=name, next_due=now - MINUTE))
    where = "kind = 'schedule' and name = 'far'"
    await plant(f"update {{}}record set due = {due} where {where}")

    await Firer(engine, IdSource()).tick()

    assert len((await engine.find(JobFilter(), limit=9)).jobs) == 1


async def test_an_event_that_makes_no_delivery_keeps_no_other_webhook_from_its_own(
    engine: Engine,
) -> None:
    for name, tenant in ((BAD, "bad"), (GOOD, "good")):
        await tenants.create(engine, Tenant(name=tenant))
        await webhooks.create(engine, an_endpoint(name, tenant=tenant))
    notifier = Notifier(engine, IdSource())
    await notifier.tick()
    await engine.submit(
        [an_unchecked_job(tenant="bad", trace="no trace"), a_job(tenant="good")],
    )

    await notifier.tick()

    found = (await engine.find(JobFilter(queue=webhook.QUEUE), limit=9)).jobs
    assert [one.tenant for one in found] == ["good"]


async def test_a_delivery_that_cannot_be_read_keeps_no_other_from_being_listed(
    engine: Engine,
) -> None:
    endpoint = an_endpoint(GOOD, tenant="default")
    message = deliveries.Message(endpoint=GOOD, message="m", event="test", body="{}")
    good, deep = (deliveries.delivery_job(IdSource().make(), endpoint, message) for _ in "ab")
    bad = an_unchecked_job(
        type=webhook.TASK, queue=webhook.QUEUE, tags=(GOOD,), payload=b'{"endpoint": "\xff"}'
    )
    await engine.submit([good, bad, deep])
    worker = await a_worker(engine, queues=[webhook.QUEUE], types=[webhook.TASK])
    for claim in await worker.claim(3):
        nested = b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"
        await worker.succeed(claim, nested if claim.id == deep.id else b'{"status": 204}')

    found, _ = await deliveries.deliveries(engine, endpoint)

    assert {one.job.id: one.status for one in found} == {good.id: 204, deep.id: None}


async def test_a_session_that_cannot_be_decoded_keeps_no_other_from_being_listed(
    engine: Engine, plant: Plant
) -> None:
    if "sqlite" not in engine.url:
        pytest.skip("PostgreSQL stores queues and types as arrays")
    good, bad = await a_worker(engine, name="good"), await a_worker(engine, name="bad")
    await plant("update {}session set queues = 'no json' where worker = 'bad'")

    listed = (await engine.sessions()).sessions

    assert [one.worker for one in listed] == ["good"]
    with pytest.raises(BrokenRecordError, match="session"):
        await engine.attach_session(bad.session.token)
    assert await engine.attach_session(good.session.token)


async def test_a_quarantined_event_of_an_unknown_name_keeps_no_other_from_being_listed(
    engine: Engine, plant: Plant
) -> None:
    cursor = await engine.take_cursor("bus", holder="h", lease=MINUTE)
    assert cursor is not None
    aside = [
        quarantine.put(
            Quarantined("bus", f"1.{place}", Name.DEAD, a_job().id, "too large", b""),
            "default",
        )
        for place in range(2)
    ]
    await engine.advance(cursor, position=0, quarantined=aside)
    where = "kind = 'quarantined' and name = 'bus 1.1'"
    unheard = "replace(body, 'job.dead', 'job.unheard_of')"
    await plant(f"update {{}}record set body = {unheard} where {where}")

    assert [one.event_id for one in await quarantine.latest(engine, limit=9)] == ["1.0"]


SHORT = [Group(Name.SUBMITTED, "q", "t", "default", bytes(32), types=["t"])]
CUT = [Group(Name.SUBMITTED, "q", "t", "default", bytes(15))]


@pytest.mark.parametrize(
    "body", [b"\0\xff", encode(SHORT), encode(CUT)], ids=["unreadable", "short", "cut"]
)
async def test_a_batch_of_events_that_cannot_be_decoded_holds_no_consumer_up(
    engine: Engine, plant: Plant, body: bytes
) -> None:
    for _ in range(3):
        await engine.submit([a_job()])
    before = await engine.events(after=0, limit=9)
    which = "position = 2" if "sqlite" in engine.url else "number = 2"
    await plant(f"update {{}}outbox set body = {_bytes(engine, body)} where {which}")

    after = await engine.events(after=0, limit=9)
    cursor = await engine.take_cursor("bus", holder="h", lease=MINUTE)
    assert cursor is not None
    read = await engine.events(after=0, limit=9, cursor=cursor)
    chained = await engine.chain(limit=9)

    assert [one.count for one in before] == [1, 1, 1]
    assert [one.position for one in after] == [one.position for one in before]
    assert [one.count for one in after] == [one.count for one in read] == [1, 0, 1]
    assert chained.entries == 0


async def test_an_audit_entry_of_an_unknown_kind_keeps_no_other_from_being_listed(
    engine: Engine, plant: Plant
) -> None:
    for name in ("a", "b", "c"):
        await pauses.pause(engine, queue=name)
    await engine.chain(limit=9)
    await plant("update {}audit set kind = 'rumour' where number = 2")

    newest = await engine.audit_entries(before=99, limit=2)
    oldest = await engine.audit_entries(after=0, limit=2)

    assert [one.number for one in newest] == [3, 1]
    assert [one.number for one in oldest] == [1, 3]


def _bytes(engine: Engine, body: bytes = b"\0\xff") -> str:
    return f"x'{body.hex()}'" if "sqlite" in engine.url else f"'\\x{body.hex()}'"
