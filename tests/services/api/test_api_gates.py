"""What holds for every route: methods, problems, headers, health and the document."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from api_steps import asking

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.problems import CATALOGUE
from longshore.api.routes import ROUTES
from longshore.api.settings import ApiSettings
from longshore.contract import Engine
from longshore.engines import open_engine
from longshore.testing.flaky import FlakyEngine


@pytest.fixture
async def here(memory: Engine) -> AsyncIterator[httpx.AsyncClient]:
    async with asking(Application(Service(memory))) as opened:
        yield opened


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/", "/v1/jobs/", "//v1/jobs", "/v2/jobs", "/%2e"]
)
async def test_a_path_that_leads_nowhere_is_404(here: httpx.AsyncClient, path: str):
    answer = await here.get(path)

    assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "NONSENSE"])
async def test_a_method_that_a_route_does_not_know_is_405_with_those_it_knows(
    here: httpx.AsyncClient, method: str
):
    answer = await here.request(method, "/v1/jobs")

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, POST"


async def test_head_tells_what_get_would(here: httpx.AsyncClient):
    head, get = await here.head("/healthz"), await here.get("/healthz")

    assert (head.status_code, head.headers["content-length"]) == (
        get.status_code,
        get.headers["content-length"],
    )


@pytest.mark.parametrize("path", ["/v1/jobs", "/nowhere", "/docs"])
async def test_every_answer_has_the_headers_that_keep_browsers_out(
    here: httpx.AsyncClient, path: str
):
    answer = await here.get(path)

    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"])
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8080"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "localhost:8080", "Origin": "http://localhost:8080"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
async def test_without_keys_no_web_page_may_ask_anything(
    here: httpx.AsyncClient, headers: dict[str, str], status: int
):
    answer = await here.get("/v1/jobs", headers=headers)

    assert answer.status_code == status


async def test_a_service_that_is_full_says_when_to_ask_again(memory: Engine):
    service = Service(memory, ApiSettings(max_requests=2))
    async with asking(Application(service)) as client:
        answers = await asyncio.gather(*[client.get("/v1/jobs") for _ in range(5)])

    full = [one for one in answers if one.status_code == 503]
    assert len(full) == 3
    assert {(one.json()["code"], one.headers["retry-after"]) for one in full} == {
        ("overloaded", "1")
    }


@pytest.mark.parametrize("path", ["/healthz", "/health", "/readyz"])
async def test_a_healthy_service_says_so(client: httpx.AsyncClient, path: str):
    assert (await client.get(path)).status_code == 200


async def test_a_service_without_its_store_lives_but_is_not_ready():
    engine = open_engine("postgresql://nobody@127.0.0.1:1/none")
    async with asking(Application(Service(engine))) as client:
        alive = await client.get("/healthz")
        ready = await client.get("/readyz")
        jobs = await client.get("/v1/jobs")
    await engine.close()

    assert alive.status_code == 200
    assert (ready.status_code, ready.json()["missing"]) == (503, ["engine"])
    assert (jobs.status_code, jobs.json()["code"]) == (503, "engine_unavailable")
    assert int(jobs.headers["retry-after"]) >= 1
    assert "127.0.0.1" not in ready.text + jobs.text


async def test_the_document_has_every_route_and_every_problem_it_can_answer(
    here: httpx.AsyncClient,
):
    told = (await here.get("/openapi.json")).json()

    assert told["openapi"].startswith("3.1")
    for route in ROUTES:
        operation = told["paths"][route.path][route.method.lower()]
        assert operation["summary"]
        statuses = {int(status) for status in operation["responses"]}
        assert statuses >= {*route.answers, *(CATALOGUE[one].status for one in route.problems)}
    names = [one["operationId"] for path in told["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))


async def test_no_reference_of_the_document_leads_nowhere(here: httpx.AsyncClient):
    answer = await here.get("/openapi.json")

    schemas = answer.json()["components"]["schemas"]
    found = set(re.findall(r'"#/components/schemas/([^"]+)"', answer.text))
    assert found <= schemas.keys()
    assert "\\\\A" not in answer.text


async def test_the_page_loads_nothing_from_anywhere_else(here: httpx.AsyncClient):
    answer = await here.get("/docs")

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(
        r"(src|href)=|https?://|//[a-z]+\.", answer.text.replace("// Text", "")
    )


def test_every_problem_is_on_the_page_of_errors():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "errors.md").read_text()

    assert [code for code in CATALOGUE if f"`{code}`" not in page] == []


async def test_a_store_that_does_not_answer_costs_a_request_its_patience_and_no_more(
    memory: Engine,
):
    flaky = FlakyEngine(memory)
    settings = ApiSettings(request_timeout=timedelta(seconds=0.5))
    async with asking(Application(Service(flaky, settings))) as client:
        await client.get("/v1/queues")
        flaky.hang()
        async with asyncio.timeout(20):
            hanging = await asyncio.gather(*[client.get("/v1/queues") for _ in range(2)])
        flaky.come_back()
        well = await client.get("/v1/queues")

    assert {(one.status_code, one.json()["code"]) for one in hanging} == {
        (503, "engine_unavailable")
    }
    assert hanging[0].headers["retry-after"] == "1"
    assert well.status_code == 200


DEEP = "[" * 5_000 + "]" * 5_000
TOO_DEEP = '{"type": "a", "name": "s", "every_seconds": 60, "payload": {"a": ' + DEEP + "}}"
NO_NAME = '{"type": "a", "name": "s", "every_seconds": 60, "queue": "no name"}'


@pytest.mark.parametrize("item", [TOO_DEEP, NO_NAME], ids=["deep", "queue"])
@pytest.mark.parametrize(
    ("method", "path", "form"),
    [
        ("POST", "/v1/jobs", "%s"),
        ("POST", "/v1/jobs:batch?independent=false", '{"jobs": [%s]}'),
        ("POST", "/v1/schedules", "%s"),
        ("PUT", "/v1/schedules/s", "%s"),
        ("PUT", "/v1/declarations", '{"schedules": [%s]}'),
    ],
)
async def test_every_route_refuses_the_same_payloads_and_names(
    here: httpx.AsyncClient, memory: Engine, method: str, path: str, form: str, item: str
):
    headers = {"Content-Type": "application/json"}
    # Each route is given the fields that it knows.
    if "schedules" not in path and "declarations" not in path:
        item = item.replace('"name": "s", "every_seconds": 60, ', "")
    elif path.endswith("/s"):
        item = item.replace('"name": "s", ', "")

    answer = await here.request(method, path, content=form % item, headers=headers)
    well = await here.request(
        method,
        path,
        content=form % item.replace(DEEP, "[]").replace("no name", "name"),
        headers=headers,
    )

    assert answer.status_code == 422, answer.text
    assert well.status_code < 300, well.text
