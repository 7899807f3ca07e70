"""Trailers of a chunked request: they come after the request was admitted, and set nothing."""

import json

import pytest
from api_steps import exchange, served

from longshore.contract import Engine, JobFilter
from longshore.core.account import NewKey, Scope, Tenant
from longshore.records import api_keys, tenants
from longshore.runtime.keys import mint

HEAD = (
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nTransfer-Encoding: chunked\r\n"
)
BODY = b'{"type":"a"}'
CHUNKS = b"\r\n%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)


async def operator(engine: Engine) -> bytes:
    minted = mint()
    await api_keys.add(
        engine, NewKey(id=minted.id, digest=minted.digest, tenant=None, scopes=tuple(Scope))
    )
    return b"Authorization: Bearer %s\r\n" % minted.text.encode()


async def test_a_key_in_a_trailer_admits_nobody(memory: Engine):
    bearer = await operator(memory)
    async with served(memory) as address:
        status, _ = await exchange(address, HEAD + CHUNKS + bearer + b"\r\n")
        good, _ = await exchange(address, HEAD + bearer + CHUNKS + b"\r\n")

    assert (status, good) == (401, 201)


@pytest.mark.parametrize(
    "trailer",
    [
        b"Longshore-Tenant: acme\r\n",
        b"Idempotency-Key: late\r\n",
        b"Content-Type: text/plain\r\n",
        b"Content-Encoding: gzip\r\n",
        b"Host: example.com\r\n",
        b"X-Forwarded-For: 192.0.2.1\r\n",
    ],
)
async def test_a_trailer_changes_nothing_of_the_job(memory: Engine, trailer: bytes):
    await tenants.create(memory, Tenant(name="acme"))
    bearer = await operator(memory)
    async with served(memory) as address:
        status, said = await exchange(address, HEAD + bearer + CHUNKS + trailer + b"\r\n")

    assert status == 201, said
    stored = await memory.find(JobFilter(), limit=2)
    assert [(one.tenant, one.idempotency_key) for one in stored.jobs] == [("default", None)]
    assert json.loads(said.partition(b"\r\n\r\n")[2])["type"] == "a"


async def test_the_request_after_one_with_trailers_has_its_own_headers(memory: Engine):
    bearer = await operator(memory)
    first = HEAD.replace(b"Connection: close\r\n", b"") + bearer + CHUNKS
    second = HEAD + bearer + b"Idempotency-Key: own\r\n" + CHUNKS + b"\r\n"
    async with served(memory) as address:
        _, said = await exchange(address, first + b"Idempotency-Key: late\r\n\r\n" + second)

    assert said.count(b"201 Created") == 2
    stored = await memory.find(JobFilter(), limit=3)
    assert {one.idempotency_key for one in stored.jobs} == {None, "own"}
