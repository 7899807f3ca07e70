"""Looking at jobs over HTTP, and giving them orders."""

import base64

import httpx
import pytest
from api_steps import UNKNOWN, shown

from longshore.contract import Engine
from longshore.core import ids, poison
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker


async def submit(client: httpx.AsyncClient, **body: object) -> str:
    answer = await client.post("/v1/jobs", json={"type": "a", **body})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def test_a_job_can_be_looked_at(client: httpx.AsyncClient):
    job_id = await submit(client, payload={"n": 1}, queue="mail")

    answer = await client.get(f"/v1/jobs/{job_id}")

    told = answer.json()
    assert answer.status_code == 200
    assert (told["id"], told["state"], told["queue"]) == (job_id, "ready", "mail")
    assert (told["payload"], told["result"], told["failure"]) == ({"n": 1}, None, None)
    assert (await client.get(f"/v1/jobs/{job_id.upper()}")).content == answer.content


@pytest.mark.parametrize(
    "job_id", ["x", UNKNOWN[:-1], UNKNOWN + "0", UNKNOWN.replace("-7", "-4")]
)
async def test_an_id_that_is_none_is_told_from_one_that_nobody_has(
    client: httpx.AsyncClient, job_id: str
):
    malformed = await client.get(f"/v1/jobs/{job_id}")
    unknown = await client.get(f"/v1/jobs/{UNKNOWN}")

    assert (malformed.status_code, unknown.status_code) == (422, 404)
    assert unknown.json()["code"] == "job_not_found"


async def test_jobs_are_listed_page_by_page(client: httpx.AsyncClient):
    made = [await submit(client) for _ in range(5)]

    pages = [await client.get("/v1/jobs", params={"limit": 2})]
    while cursor := pages[-1].json()["cursor"]:
        pages.append(await client.get("/v1/jobs", params={"limit": 2, "cursor": cursor}))

    listed = [job["id"] for page in pages for job in page.json()["jobs"]]
    assert sorted(listed) == sorted(made)
    assert len(listed) == 5


async def test_a_filter_takes_queue_type_state_and_tag(client: httpx.AsyncClient):
    wanted = await submit(client, queue="q", type="t", tags=["blue"], delay_seconds=60)
    for other in ({"queue": "x"}, {"type": "x"}, {"tags": ["red"]}, {}):
        await submit(client, **{"queue": "q", "type": "t", "tags": ["blue"], **other})

    answer = await client.get("/v1/jobs?queue=q&type=t&tag=blue&state=scheduled")

    assert [job["id"] for job in answer.json()["jobs"]] == [wanted]


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=x", "state=odd", "colour=red", "queue=%00", "queue=%ff",
     "queue=a&queue=b", "queue=null", "tag=" + "x" * 257],
)  # fmt: skip
async def test_a_query_that_makes_no_sense_is_refused(client: httpx.AsyncClient, query: str):
    answer = await client.get(f"/v1/jobs?{query}")

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_a_cursor_is_good_for_its_own_filter_only(client: httpx.AsyncClient):
    for _ in range(3):
        await submit(client, queue="q")
    cursor = (await client.get("/v1/jobs?queue=q&limit=1")).json()["cursor"]
    written = base64.urlsafe_b64decode(cursor).decode()
    huge = base64.urlsafe_b64encode(f"[{2**70},{written.partition(',')[2]}".encode()).decode()

    answers = [
        await client.get("/v1/jobs", params={"queue": queue, "cursor": one})
        for queue, one in (
            ("other", cursor),
            ("q", cursor[:-5]),
            ("q", huge),
            ("q", "nonsense"),
        )
    ]
    good = await client.get("/v1/jobs", params={"queue": "q", "cursor": cursor})

    assert [(one.status_code, one.json()["code"]) for one in answers] == [(400, "cursor")] * 4
    assert len(good.json()["jobs"]) == 2


async def test_a_page_of_large_jobs_ends_early_and_the_next_goes_on(
    client: httpx.AsyncClient, engine: Engine
):
    large = [a_job(payload=b'{"x":"%s"}' % (b"x" * 900_000)) for _ in range(6)]
    await engine.submit([*large, *[a_job() for _ in range(20)]])

    pages = [await client.get("/v1/jobs", params={"limit": 1_000})]
    while cursor := pages[-1].json()["cursor"]:
        pages.append(await client.get("/v1/jobs", params={"limit": 1_000, "cursor": cursor}))

    listed = [job["id"] for page in pages for job in page.json()["jobs"]]
    assert len(listed) == len(set(listed)) == 26
    assert len(pages) == 2
    assert max(len(page.content) for page in pages) < 5 << 20


async def test_a_waiting_job_is_cancelled_once(client: httpx.AsyncClient):
    job_id = await submit(client)

    cancelled = await client.post(f"/v1/jobs/{job_id}:cancel", json={"reason": "a mistake"})
    again = await client.post(f"/v1/jobs/{job_id}:cancel")

    told = cancelled.json()
    assert (cancelled.status_code, told["state"]) == (200, "cancelled")
    assert told["reason"] == "a mistake"
    assert (again.status_code, again.json()["code"]) == (409, "illegal_transition")


async def test_a_scheduled_job_runs_now_and_a_cancelled_one_again(client: httpx.AsyncClient):
    waiting = await submit(client, delay_seconds=600)
    over = await submit(client)
    await client.post(f"/v1/jobs/{over}:cancel")

    answers = [await client.post(f"/v1/jobs/{job_id}:retry") for job_id in (waiting, over)]
    refused = await client.post(f"/v1/jobs/{waiting}:retry")

    assert [(one.status_code, one.json()["state"]) for one in answers] == [(200, "ready")] * 2
    assert refused.status_code == 409


async def test_the_attempts_of_a_job_are_its_history(client: httpx.AsyncClient, engine: Engine):
    job_id = await submit(client, max_attempts=1)
    session = await engine.open_session(
        worker="w", queues=["default"], types=["a"], lease=30_000_000
    )
    await session.exchange(1, want=1)
    await session.close()

    answer = await client.get(f"/v1/jobs/{job_id}/attempts")

    (told,) = answer.json()["attempts"]
    assert (told["delivery"], told["outcome"], told["worker"]) == (1, "released", "w")


async def test_a_job_tells_who_died_beside_it(client: httpx.AsyncClient, engine: Engine):
    first, other = [await submit(client) for _ in range(2)]
    worker = await a_worker(engine, types=["a"])
    claims = await worker.claim(2)
    await worker.start(*claims)
    held = await engine.held(worker.session.token)
    assert held is not None
    await engine.end_session(worker.session.token, poison.unreported(held))

    answer = await client.get(f"/v1/jobs/{first}")

    assert (answer.json()["crashes"], answer.json()["victims"]) == (1, [other])


async def test_orders_to_a_job_that_nobody_has_are_404(client: httpx.AsyncClient):
    answers = [
        await client.get(f"/v1/jobs/{UNKNOWN}/attempts"),
        await client.post(f"/v1/jobs/{UNKNOWN}:cancel"),
        await client.post(f"/v1/jobs/{UNKNOWN}:retry"),
    ]

    assert {(one.status_code, one.json()["code"]) for one in answers} == {
        (404, "job_not_found")
    }


async def test_a_job_of_another_tenant_looks_like_one_that_does_not_exist(
    client: httpx.AsyncClient, engine: Engine
):
    foreign = a_job(tenant="other")
    await engine.submit([foreign])
    path = f"/v1/jobs/{ids.text(foreign.id)}"
    own = {"Longshore-Tenant": "default"}

    for method, suffix in (
        ("GET", ""),
        ("GET", "/attempts"),
        ("POST", ":cancel"),
        ("POST", ":retry"),
    ):
        theirs = await client.request(method, path + suffix, headers=own)
        missing = await client.request(method, f"/v1/jobs/{UNKNOWN}{suffix}", headers=own)

        assert theirs.status_code == 404
        assert theirs.content == missing.content
        assert shown(theirs) == shown(missing)


async def test_a_job_is_explained(client: httpx.AsyncClient, engine: Engine):
    job = a_job(queue="mail", delay=60_000_000)
    await engine.submit([job])

    answer = await client.get(f"/v1/jobs/{ids.text(job.id)}/explain")
    unknown = await client.get(f"/v1/jobs/{UNKNOWN}/explain")

    told = answer.json()
    assert (answer.status_code, told["state"]) == (200, "scheduled")
    assert [one["code"] for one in told["reasons"]] == ["scheduled", "no_worker"]
    assert told["reasons"][0]["until"] is not None
    assert unknown.status_code == 404
