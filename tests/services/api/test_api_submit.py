"""Submitting over HTTP: what is accepted, what is answered, and what comes of a repetition."""

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from api_steps import asking

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.settings import ApiSettings
from longshore.contract import Engine, JobFilter
from longshore.core import ids
from longshore.core.account import Tenant
from longshore.core.job import JobId, Verdict
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.engines.postgres.engine import PostgresEngine
from longshore.operations.fields import instant
from longshore.options import Template
from longshore.records import tenants
from longshore.runtime.ids import IdSource
from longshore.testing.factories import a_job

BRIEF = ApiSettings(key_timeout=timedelta(seconds=0.3))


async def stored(engine: Engine) -> int:
    return len((await engine.find(JobFilter(), limit=100)).jobs)


class SameId(IdSource):
    """Makes the one id that a client has chosen."""

    def __init__(self, job_id: JobId) -> None:
        super().__init__()
        self._chosen = job_id

    def make(self) -> JobId:
        return self._chosen


async def test_nothing_is_told_of_another_tenants_job_whose_id_is_submitted(engine: Engine):
    theirs = a_job(tenant="theirs", run_at=2_000_000_000_000_000)
    await engine.submit([theirs])
    await tenants.create(engine, Tenant(name="mine"))
    service = Service(engine)
    service.ids = SameId(theirs.id)
    headers = {"Longshore-Tenant": "mine"}
    async with asking(Application(service), headers=headers) as client:
        one = await client.post("/v1/jobs", json={"type": "a"})
        batch = await client.post("/v1/jobs:batch", json={"jobs": [{"type": "a"}]})

    assert (one.status_code, one.json()["code"]) == (409, "id_taken")
    assert "location" not in one.headers
    (result,) = batch.json()["results"]
    assert (result["status"], result["problem"]["code"]) == (409, "id_taken")
    assert "2033" not in one.text + batch.text
    assert "theirs" not in one.text + batch.text
    assert await stored(engine) == 1


async def test_a_submitted_job_is_stored_and_its_place_is_told(
    client: httpx.AsyncClient, engine: Engine
):
    body = {
        "type": "email.send",
        "payload": {"to": "ann"},
        "queue": "mail",
        "priority": 2,
        "max_attempts": 3,
        "timeout_seconds": 1.5,
        "tags": ["blue"],
    }

    answer = await client.post("/v1/jobs", json=body)

    assert answer.status_code == 201
    told = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{told['id']}"
    assert {name: told[name] for name in body} == body
    assert (told["state"], told["attempt"], told["run_at"]) == ("ready", 0, told["created_at"])
    job = await engine.get(ids.parse(told["id"]))
    assert (job.type, job.queue, job.priority, job.payload) == (
        "email.send",
        "mail",
        2,
        b'{"to":"ann"}',
    )
    assert (job.timeout, job.tags, job.tenant) == (1_500_000, ("blue",), "default")


async def test_a_job_can_be_asked_to_wait(client: httpx.AsyncClient, engine: Engine):
    delayed = await client.post("/v1/jobs", json={"type": "a", "delay_seconds": 60})
    due = await client.post(
        "/v1/jobs", json={"type": "a", "run_at": "2030-01-01T00:00:00+01:00"}
    )
    past = await client.post("/v1/jobs", json={"type": "a", "run_at": "1999-01-01T00:00:00Z"})

    assert [one.json()["state"] for one in (delayed, due, past)] == [
        "scheduled",
        "scheduled",
        "ready",
    ]
    assert due.json()["run_at"] == "2029-12-31T23:00:00Z"
    for answer in (delayed, due, past):
        job = await engine.get(ids.parse(answer.json()["id"]))
        assert job.state == answer.json()["state"]


async def test_a_repeated_key_is_answered_with_the_first_answer_byte_for_byte(
    client: httpx.AsyncClient, engine: Engine
):
    first = await client.post(
        "/v1/jobs",
        content=b'{"type":"a","payload":{"b":1,"a":[2.0]},"delay_seconds":5}',
        headers={"Idempotency-Key": '"k-1"', "Content-Type": "application/json"},
    )
    again = await client.post(
        "/v1/jobs",
        content=b' {"delay_seconds": 5, "payload": {"a":[2.0],"b":1}, "type":"a"}',
        headers={"Idempotency-Key": "k-1", "Content-Type": "application/json; charset=UTF-8"},
    )

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    assert "idempotency-replayed" not in first.headers
    assert await stored(engine) == 1
    job = await engine.get(ids.parse(first.json()["id"]))
    told = [datetime.fromisoformat(first.json()[name]) for name in ("created_at", "run_at")]
    assert told == [instant(job.created_at), instant(job.created_at + 5_000_000)]


async def test_a_replay_outlives_the_job(client: httpx.AsyncClient, engine: Engine):
    key = {"Idempotency-Key": "k"}
    first = await client.post("/v1/jobs", json={"type": "a"}, headers=key)
    job_id = ids.parse(first.json()["id"])
    await engine.change("cancel", [job_id], reason="test")
    await engine.change("purge", [job_id])

    again = await client.post("/v1/jobs", json={"type": "a"}, headers=key)

    assert (again.status_code, again.content) == (200, first.content)
    assert await stored(engine) == 0


async def test_a_key_of_another_content_is_refused(client: httpx.AsyncClient, engine: Engine):
    key = {"Idempotency-Key": "k"}
    await client.post("/v1/jobs", json={"type": "a", "payload": {"n": 1}}, headers=key)

    answer = await client.post("/v1/jobs", json={"type": "a", "payload": {"n": 2}}, headers=key)

    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency")
    assert await stored(engine) == 1


async def test_a_refused_request_leaves_its_key_unused(client: httpx.AsyncClient):
    key = {"Idempotency-Key": "k"}
    refused = await client.post("/v1/jobs", json={"type": ""}, headers=key)

    accepted = await client.post("/v1/jobs", json={"type": "a"}, headers=key)

    assert (refused.status_code, accepted.status_code) == (422, 201)


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ('"a b"', "a b"),
        (r'"a\"b\\c"', r"a\"b\c".replace('\\"', '"')),
        ("plain-key_1.2:3", "plain-key_1.2:3"),
        ("x" * 512, "x" * 512),
    ],
)
async def test_a_key_is_read_with_and_without_quotes(
    client: httpx.AsyncClient, header: str, key: str
):
    answer = await client.post(
        "/v1/jobs", json={"type": "a"}, headers={"Idempotency-Key": header}
    )

    assert answer.json()["idempotency_key"] == key


@pytest.mark.parametrize(
    "header", ["", '""', '"a', 'a"', "a,b", '"a\\x"', "x" * 513, "é", "a b"]
)
async def test_a_key_that_cannot_be_read_is_refused(client: httpx.AsyncClient, header: str):
    answer = await client.post(
        "/v1/jobs", json={"type": "a"}, headers=[("Idempotency-Key", header.encode("latin-1"))]
    )

    assert (answer.status_code, answer.json()["code"]) == (400, "key_malformed")


async def test_requests_with_one_key_at_once_make_one_job(
    client: httpx.AsyncClient, engine: Engine
):
    async def post() -> httpx.Response:
        return await client.post(
            "/v1/jobs", json={"type": "a"}, headers={"Idempotency-Key": "k"}
        )

    answers = await asyncio.gather(*[post() for _ in range(20)])

    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.content for answer in answers}) == 1
    assert await stored(engine) == 1


async def test_a_key_that_an_open_transaction_holds_is_soon_said_to_be_under_way(
    empty_postgres_url: str,
):
    engine = open_engine(empty_postgres_url)
    assert isinstance(engine, PostgresEngine)
    other = await asyncpg.connect(empty_postgres_url)
    service = Service(engine, settings=BRIEF)
    async with asking(Application(service)) as client, other.transaction():
        held = engine.submit_on(other, [a_job(idempotency_key="k")])
        assert not isinstance(held, list)
        await held

        begun = time.monotonic()
        answer = await client.post(
            "/v1/jobs", json={"type": "a"}, headers={"Idempotency-Key": "k"}
        )
        jobs = [{"type": "a"}, {"type": "a", "idempotency_key": "k"}, {"type": "b"}]
        batch = await client.post("/v1/jobs:batch", json={"jobs": jobs})
        took = time.monotonic() - begun

    await other.close()
    await engine.close()
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_in_flight")
    assert answer.headers["retry-after"] == "1"
    results = batch.json()["results"]
    assert [one["status"] for one in results] == [201, 409, 201]
    assert [one.get("retry_after_seconds") for one in results] == [None, 1, None]
    # Two requests; the engine itself would wait for ten seconds each.
    assert 0.6 <= took < 8.0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/jobs", {"type": "a"}),
        ("/v1/jobs:batch", {"jobs": [{"type": "a", "idempotency_key": "k"}]}),
    ],
)
async def test_a_store_that_someone_holds_is_soon_said_to_be_busy_whatever_the_key(
    path: str, body: dict[str, Any], tmp_path: Path
):
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db?busy_timeout=60")
    await engine.migrate()
    other = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    async with asking(Application(Service(engine, settings=BRIEF))) as client:
        other.execute("begin immediate")

        begun = time.monotonic()
        answer = await client.post(path, json=body, headers={"Idempotency-Key": "k"})
        took = time.monotonic() - begun
        other.execute("rollback")

    other.close()
    await engine.close()
    assert (answer.status_code, answer.json()["code"]) == (503, "engine_busy")
    assert answer.headers["retry-after"] == "1"
    assert 0.3 <= took < 8.0


async def test_a_live_job_with_the_unique_key_stands_for_a_new_one(
    client: httpx.AsyncClient, engine: Engine
):
    body = {"type": "a", "unique_key": "u", "payload": {"n": 1}}
    first = await client.post("/v1/jobs", json=body)

    again = await client.post("/v1/jobs", json={**body, "payload": {"n": 2}})

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["longshore-duplicate"] == "unique"
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["payload"] == {"n": 1}
    assert await stored(engine) == 1


async def test_a_live_job_with_the_same_payload_stands_for_a_unique_one(
    client: httpx.AsyncClient, engine: Engine
):
    body = {"type": "a", "unique": True}
    first = await client.post("/v1/jobs", json={**body, "payload": {"n": 1, "m": [2]}})

    again = await client.post("/v1/jobs", json={**body, "payload": {"m": [2], "n": 1}})
    other = await client.post("/v1/jobs", json={**body, "payload": {"n": 2}})
    odd = await client.post("/v1/jobs", json={**body, "unique_key": "u"})

    assert [one.status_code for one in (first, again, other, odd)] == [201, 200, 201, 422]
    assert again.json()["id"] == first.json()["id"]
    assert odd.json()["errors"][0]["pointer"] == "/unique"
    template = Template.of("a").using({"unique": True})
    in_process = template.fill(IdSource().make(), b'{"n": 1, "m": [2]}')
    assert (await engine.submit([in_process]))[0].verdict is Verdict.UNIQUE


async def test_the_trace_of_the_caller_is_kept(client: httpx.AsyncClient, engine: Engine):
    trace = f"00-{'a' * 32}-{'b' * 16}-01"

    traced = await client.post("/v1/jobs", json={"type": "a"}, headers={"traceparent": trace})
    odd = await client.post("/v1/jobs", json={"type": "a"}, headers={"traceparent": "x"})

    assert (await engine.get(ids.parse(traced.json()["id"]))).trace == trace
    assert (await engine.get(ids.parse(odd.json()["id"]))).trace is None


async def test_a_batch_takes_the_good_jobs_and_names_the_bad(
    client: httpx.AsyncClient, engine: Engine
):
    await client.post("/v1/jobs", json={"type": "taken"}, headers={"Idempotency-Key": "k"})
    jobs = [
        {"type": "a"},
        {"type": ""},
        5,
        {"type": "b", "idempotency_key": "k"},
        {"type": "taken", "idempotency_key": "k"},
        {"type": "c", "queue": "q"},
    ]

    answer = await client.post("/v1/jobs:batch", json={"jobs": jobs})

    told = answer.json()
    assert answer.status_code == 200
    assert [one["status"] for one in told["results"]] == [201, 422, 422, 422, 200, 201]
    assert told["accepted"] == 2
    assert told["results"][1]["problem"]["errors"][0]["pointer"] == "/type"
    assert told["results"][3]["problem"]["code"] == "idempotency"
    assert await stored(engine) == 3
    job = await engine.get(ids.parse(told["results"][5]["id"]))
    assert (job.type, job.queue, job.state) == ("c", "q", State.READY)


async def test_an_object_inside_a_batch_may_not_have_a_key_twice(client: httpx.AsyncClient):
    kind = {"Content-Type": "application/json"}
    inside = await client.post(
        "/v1/jobs:batch",
        content=b'{"jobs":[{"type":"a","type":"b"},{"type":"c"}]}',
        headers=kind,
    )
    outside = await client.post(
        "/v1/jobs:batch", content=b'{"jobs":[{"type":"a"}],"jobs":[{"type":"b"}]}', headers=kind
    )

    assert [one["status"] for one in inside.json()["results"]] == [422, 201]
    assert outside.status_code == 422


ODD_BATCHES: dict[str, tuple[bytes, int | list[int]]] = {
    "a job that is the key": (b'{"jobs":["jobs"]}', [422]),
    "a job that stands twice": (b'{"jobs":[[],{},[]]}', [422, 422, 422]),
    "a job that is not UTF-8": (b'{"jobs":["\xff",{"type":"a"}]}', [422, 201]),
    "a job of 5,000 digits": (b'{"jobs":[' + b"9" * 5_000 + b',{"type":"a"}]}', [422, 201]),
    "much white space": (b' {\n"jobs"\t:\r\n [ {"type":"a"} ] } ', [201]),
    "a key that is escaped": (b'{"\\u006aobs":[{"type":"a"}]}', [201]),
    "two lists, alike": (b'{"jobs":[0],"jobs":[0]}', 422),
    "two lists, one escaped": (b'{"\\u006aobs":[0],"jobs":[{"type":"a"}]}', 422),
    "two lists, one in the other": (b'{"jobs":[[0]],"jobs":[0]}', 422),
    "5,000 digits before": (b'{"jobs":[' + b"9" * 5_000 + b'],"jobs":[0]}', 422),
    "no UTF-8 before": (b'{"jobs":["\xff"],"jobs":[0]}', 422),
    "nothing that was asked for": (b'{"jobs":[]}', 422),
    "no end": (b'{"jobs":[0', 422),
    "another key": (b'{"jobs":[0],"x":[0]}', 422),
    "values without number": (b'{"jobs":[' + b"0," * 900_000 + b"0]}", 422),
}


@pytest.mark.parametrize(("body", "found"), ODD_BATCHES.values(), ids=ODD_BATCHES.keys())
async def test_a_batch_is_refused_whole_or_job_by_job_and_never_breaks_the_service(
    memory: Engine, body: bytes, found: int | list[int]
):
    async with asking(Application(Service(memory))) as client:
        answer = await client.post(
            "/v1/jobs:batch", content=body, headers={"Content-Type": "application/json"}
        )

    if isinstance(found, int):
        assert answer.status_code == found
        assert answer.headers["content-type"] == "application/problem+json"
        assert await stored(memory) == 0
    else:
        assert [one["status"] for one in answer.json()["results"]] == found
        assert await stored(memory) == found.count(201)


BAD_BODIES = {
    "nothing": b"",
    "no json": b"{",
    "binary": bytes(range(256)),
    "not utf-8": b'{"type":"\xff"}',
    "a list": b"[]",
    "a type twice": b'{"type":"a","type":"b"}',
    "a key twice deep down": b'{"type":"a","payload":{"x":[{"y":1,"y":2}]}}',
    "NaN": b'{"type":"a","payload":{"x":NaN}}',
    "Infinity": b'{"type":"a","payload":{"x":-Infinity}}',
    "1e999": b'{"type":"a","payload":{"x":1e999}}',
    "a lone surrogate": b'{"type":"a","payload":{"x":"\\ud800"}}',
    "a lone surrogate as a key": b'{"type":"a","payload":{"\\udfff":1}}',
    "NUL": b'{"type":"a","payload":{"x":"\\u0000"}}',
    "NUL as a key": b'{"type":"a","payload":{"\\u0000":1}}',
    "65 bits": b'{"type":"a","payload":{"x":9223372036854775808}}',
    "5,000 digits": b'{"type":"a","payload":{"x":' + b"9" * 5_000 + b"}}",
    "too deep": b'{"type":"a","payload":' + b'{"x":' * 33 + b"1" + b"}" * 34,
    "much too deep": b'{"type":"a","payload":{"x":' + b"[" * 100_000,
    "too many values": b'{"type":"a","payload":{"x":[' + b"0," * 50_001 + b"0]}}",
    "an unknown field": b'{"type":"a","colour":"red"}',
    "no type": b"{}",
    "a line feed in a name": b'{"type":"a\\n"}',
    "a letter that is not ASCII in a name": b'{"type":"\xc3\xb1"}',
    "a control character in a key": b'{"type":"a","unique_key":"\\u0007"}',
    "a byte order mark": b'\xef\xbb\xbf{"type":"a"}',
    "a payload that is a list": b'{"type":"a","payload":[]}',
    "a payload that is null": b'{"type":"a","payload":null}',
    "a flag for a number": b'{"type":"a","priority":true}',
    "a number in quotes": b'{"type":"a","priority":"5"}',
    "a priority of ten": b'{"type":"a","priority":10}',
    "a time without zone": b'{"type":"a","run_at":"2030-01-01T00:00:00"}',
    "a distant past": b'{"type":"a","run_at":"1969-12-31T23:59:59Z"}',
    "a negative delay": b'{"type":"a","delay_seconds":-1}',
    "a delay and a time": b'{"type":"a","delay_seconds":1,"run_at":"2030-01-01T00:00:00Z"}',
    "no time at all": b'{"type":"a","timeout_seconds":0}',
    "33 tags": json.dumps({"type": "a", "tags": ["t"] * 33}).encode(),
    "two documents": b'{"type":"a"}{"type":"b"}',
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_body_that_makes_no_sense_is_refused_and_stores_nothing(
    memory: Engine, body: bytes
):
    async with asking(Application(Service(memory))) as client:
        answer = await client.post(
            "/v1/jobs", content=body, headers={"Content-Type": "application/json"}
        )

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(answer.json()) >= {"type", "title", "status", "detail", "code"}
    assert await stored(memory) == 0


async def test_what_was_refused_is_not_repeated_in_the_answer(client: httpx.AsyncClient):
    secret = "hunter2\u2028"

    answers = [
        await client.post("/v1/jobs", json=body)
        for body in (
            {"type": secret},
            {"type": "a", "unique_key": secret},
            {"type": "a", "tags": [secret]},
            {"type": "a", "priority": secret},
            {"type": "a", "trace": secret},
            {"type": "a", "run_at": secret},
        )
    ]

    assert [answer.status_code for answer in answers] == [422] * 6
    assert not any("hunter2" in answer.text for answer in answers)
    assert [answer.json()["errors"][0]["pointer"] for answer in answers] == [
        "/type",
        "/unique_key",
        "/tags",
        "/priority",
        "/trace",
        "/run_at",
    ]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
async def test_a_body_has_to_be_json(client: httpx.AsyncClient, headers: dict[str, str]):
    answer = await client.post("/v1/jobs", content=b'{"type":"a"}', headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_a_body_that_is_too_large_is_refused(client: httpx.AsyncClient, engine: Engine):
    large = {"type": "a", "payload": {"x": "y" * (1 << 20)}}

    async def streamed() -> AsyncIterator[bytes]:
        for _ in range(33):
            yield b" " * (1 << 15)

    declared = await client.post("/v1/jobs", json=large)
    undeclared = await client.post(
        "/v1/jobs", content=streamed(), headers={"Content-Type": "application/json"}
    )

    assert (declared.status_code, undeclared.status_code) == (413, 413)
    assert await stored(engine) == 0


async def test_an_id_that_is_sent_again_is_answered_with_what_was_stored(
    client: httpx.AsyncClient, engine: Engine
):
    job_id = "019a8a6e-7c00-7000-8000-000000000000"

    first = await client.post("/v1/jobs", json={"id": job_id, "type": "a", "queue": "mail"})
    again = await client.post("/v1/jobs", json={"id": job_id, "type": "b", "queue": "web"})
    batch = await client.post("/v1/jobs:batch", json={"jobs": [{"id": job_id, "type": "c"}]})

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.json()["type"], again.json()["queue"]) == ("a", "mail")
    assert [one["status"] for one in batch.json()["results"]] == [200]
    assert len((await engine.find(JobFilter(), limit=9)).jobs) == 1
