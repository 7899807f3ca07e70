"""The worker protocol: who may speak for a session, and answers that are held back."""

import asyncio
from typing import Any, cast

import httpx
import pytest
from api_steps import UNKNOWN, asking

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.routes import ROUTES
from longshore.client import Client
from longshore.client.connection import ServiceConnection
from longshore.client.remote_store import RemoteStore
from longshore.contract import Engine, StandaloneSession
from longshore.core import ids
from longshore.core.account import NewKey, Scope, Tenant
from longshore.engines import open_engine
from longshore.errors import ConfigError, JobNotFoundError
from longshore.records import api_keys, pauses, schedules, tenants
from longshore.runtime.clock import ManualClock
from longshore.runtime.keys import mint
from longshore.testing.factories import a_job, a_schedule

JSON = {"Content-Type": "application/json"}
OFFER = {"worker": "w", "queues": ["default"], "types": ["noop"], "lease_us": 30_000_000}


async def a_key(
    engine: Engine, *scopes: Scope, tenant: str | None = None, **narrowing: tuple[str, ...]
) -> str:
    made = mint()
    await api_keys.add(
        engine,
        NewKey(
            id=made.id,
            digest=made.digest,
            tenant=tenant,
            scopes=scopes,
            label="test",
            **narrowing,
        ),
    )
    return made.text


def with_key(application: Application, key: str) -> RemoteStore:
    """The store as the holder of this key reaches it."""
    transport = httpx.ASGITransport(application, client=("127.0.0.1", 1))
    connection = ServiceConnection("http://localhost", key=key, transport=transport)
    return RemoteStore(
        connection, lambda: Client("http://localhost", key=key, transport=transport)
    )


VERBS = ("exchange", "renew", "wait", "keep", "held", "bury", "attempts", "waiting")

BODIES = {"exchange": {"number": 2}, "attempts": {"job_id": UNKNOWN}}


async def test_another_keys_session_looks_like_none(engine: Engine) -> None:
    mine, other = [await a_key(engine, *Scope) for _ in range(2)]
    beside = await engine.open_session(worker="w", queues=["q"], types=["t"], lease=10**8)
    await engine.submit([a_job()])
    async with asking(Application(Service(engine))) as client:
        ours = {"authorization": f"Bearer {mine}"}
        theirs = {"authorization": f"Bearer {other}"}
        opened = (await client.post("/v1/sessions", json=OFFER, headers=ours)).json()
        path = f"/v1/sessions/{opened['id']}"
        claimed = await client.post(
            f"{path}:exchange", json={"number": 1, "want": 1}, headers=ours
        )

        async def told(name: object) -> list[tuple[int, bytes]]:
            """What the other key is told of a session, in all ways to ask."""
            asked = [
                await client.post(
                    f"/v1/sessions/{name}:{verb}",
                    json=BODIES.get(verb, {}),
                    headers=theirs,
                )
                for verb in VERBS
            ]
            asked += [
                await client.request(way, f"/v1/sessions/{name}", headers=theirs)
                for way in ("GET", "DELETE")
            ]
            return [(one.status_code, one.content) for one in asked]

        missing = await told(987654321)
        found = [await told(opened["id"]), await told(beside.token), await told("41-9f2c")]
        own = await client.post(f"{path}:renew", json={"number": 1}, headers=ours)

    assert len(claimed.json()["claims"]) == 1
    assert [status for status, _ in missing] == [410] * 9 + [204]
    assert found == [missing] * 3
    assert own.status_code == 200
    assert own.json()["lost"] == []


async def test_a_narrow_key_is_given_only_jobs_that_it_may_claim(engine: Engine) -> None:
    key = await a_key(engine, Scope.WORK, queues=("mail",), types=("email.*",))
    ours = a_job(queue="mail", type="email.send")
    await engine.submit([ours, a_job(queue="mail", type="pay"), a_job(type="email.send")])
    offer = {"worker": "w", "queues": ["mail"], "types": ["email.send", "pay"]}
    headers = {"authorization": f"Bearer {key}"}

    async with asking(Application(Service(engine)), headers=headers) as client:
        opened = (await client.post("/v1/sessions", json=offer)).json()
        path = f"/v1/sessions/{opened['id']}:exchange"
        claimed = await client.post(path, json={"number": 1, "want": 9})
        others = [
            await client.post("/v1/sessions", json={**offer, **change})
            for change in (
                {"queues": ["mail", "default"]},
                {"queues": ["default"]},
                {"types": ["pay"]},
            )
        ]

    assert [one["id"] for one in claimed.json()["claims"]] == [ids.text(ours.id)]
    assert [one.status_code for one in others] == [403, 403, 403]
    assert "'default'" in others[0].json()["detail"]
    assert "email.*" in others[2].json()["detail"]


@pytest.mark.parametrize(
    "offer", [{"queues": ["default", "longshore.webhooks"]}, {"types": ["longshore.webhook"]}]
)
async def test_deliveries_of_webhooks_are_handed_to_no_remote_worker(
    engine: Engine, offer: dict[str, list[str]]
) -> None:
    key = await a_key(engine, Scope.WORK)
    headers = {"authorization": f"Bearer {key}"}

    async with asking(Application(Service(engine)), headers=headers) as client:
        answer = await client.post("/v1/sessions", json={**OFFER, **offer})

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_session_tells_the_history_of_what_it_holds_and_of_nothing_else(
    engine: Engine,
) -> None:
    held, free = a_job(), a_job(queue="other")
    await engine.submit([held, free])
    first = await engine.open_session(
        worker="w1", queues=["default"], types=["noop"], lease=10**8
    )
    await first.exchange(1, want=1)
    await first.close()
    worker = with_key(Application(Service(engine)), await a_key(engine, Scope.WORK))
    session = await worker.open_session(
        worker="w2", queues=["default"], types=["noop"], lease=10**8
    )
    session = cast(StandaloneSession, session)
    await session.exchange(1, want=1)

    told = await session.attempts(held.id)

    assert told == await engine.attempts(held.id)
    assert [one.outcome for one in told] == ["released"]
    for job_id in (free.id, a_job().id):
        with pytest.raises(JobNotFoundError):
            await session.attempts(job_id)


async def test_a_session_tells_whether_jobs_wait_that_it_should_have_been_given(
    store: str,
) -> None:
    clock = ManualClock()
    engine = open_engine(store, clock=clock)
    await engine.migrate()
    worker = with_key(Application(Service(engine)), await a_key(engine, Scope.WORK))
    session = cast(
        StandaloneSession,
        await worker.open_session(worker="w", queues=["mail"], types=["noop"], lease=10**8),
    )
    told = [await session.has_waiting_jobs()]
    await engine.submit([a_job(), a_job(queue="mail", type="other")])
    clock.advance(6_000_000)
    told.append(await session.has_waiting_jobs())
    await engine.submit([a_job(queue="mail")])
    told.append(await session.has_waiting_jobs())
    clock.advance(6_000_000)
    told.append(await session.has_waiting_jobs())
    await pauses.pause(engine, queue="mail")
    told.append(await session.has_waiting_jobs())
    await engine.close()

    assert told == [False, False, False, True, False]


async def test_a_tenants_key_opens_no_session(engine: Engine) -> None:
    application = Application(Service(engine))
    key = await a_key(engine, Scope.READ, Scope.SUBMIT, tenant="default")

    with pytest.raises(ConfigError):
        await with_key(application, key).open_session(
            worker="w", queues=["q"], types=["t"], lease=10**7
        )


async def test_a_tenants_key_reaches_its_own_jobs_only(engine: Engine) -> None:
    await tenants.create(engine, Tenant(name="acme"))
    application = Application(Service(engine))
    acme = with_key(application, await a_key(engine, Scope.READ, Scope.SUBMIT, tenant="acme"))
    foreign = a_job(tenant="default")
    await engine.submit([foreign])

    (own,) = await acme.submit([a_job()])

    assert (await engine.get(own.id)).tenant == "acme"
    assert (await acme.client.get(ids.text(own.id))).tenant == "acme"
    with pytest.raises(JobNotFoundError):
        await acme.client.get(ids.text(foreign.id))


async def test_an_empty_answer_is_held_back_until_work_arrives(engine: Engine) -> None:
    async with asking(Application(Service(engine))) as client:
        opened = (await client.post("/v1/sessions", json=OFFER)).json()
        path = f"/v1/sessions/{opened['id']}:exchange"
        for number in (1, 2):
            # Whoever begins to listen, or to wait, may have missed something and looks again.
            await client.post(path, json={"number": number, "want": 1, "wait_seconds": 0.5})
        asked: dict[str, Any] = {"number": 3, "want": 1, "wait_seconds": 20}
        waiting = asyncio.ensure_future(client.post(path, json=asked))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        held_back = not done

        await engine.submit([a_job()])

        async with asyncio.timeout(15):
            answer = await waiting
        following = await client.post(path, json={"number": 4, "want": 1})
    assert held_back
    assert answer.json()["claims"] == []
    assert len(following.json()["claims"]) == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"number": 1, "want": -1},
        {"number": 2**70},
        {"number": 1, "started": ["x"]},
        {"number": 1, "settlements": [{"claim": "1.1", "verb": "claim"}]},
        {"number": 1, "settlements": [{"claim": "1.1", "verb": "retry", "delay_us": 2**60}]},
        {"number": 1, "wait_seconds": 21},
    ],
)
async def test_an_exchange_that_makes_no_sense_is_refused(
    engine: Engine, body: dict[str, Any]
) -> None:
    async with asking(Application(Service(engine))) as client:
        opened = (await client.post("/v1/sessions", json=OFFER)).json()
        answer = await client.post(f"/v1/sessions/{opened['id']}:exchange", json=body)

    assert answer.status_code == 422


DIGITS = b"9" * 5_000
BAD_DOCUMENTS = {
    "a key twice": b'{"number":1,"number":1}',
    "a key twice in a list": b'{"number":1,"settlements":[{"claim":"1.1","claim":"1.1"}]}',
    "a key twice in a result": (
        b'{"number":1,"settlements":[{"claim":"1.1","verb":"succeed","result":{"a":1,"a":2}}]}'
    ),
    "a result that is not UTF-8": (
        b'{"number":1,"settlements":[{"claim":"1.1","verb":"succeed","result":"\xff"}]}'
    ),
    "values without number": b'{"number":1,"started":[' + b"0," * 900_000 + b"0]}",
}


@pytest.mark.parametrize("body", BAD_DOCUMENTS.values(), ids=BAD_DOCUMENTS.keys())
async def test_an_exchange_passes_the_same_gates_as_a_job(memory: Engine, body: bytes) -> None:
    async with asking(Application(Service(memory)), headers=JSON) as client:
        opened = (await client.post("/v1/sessions", json=OFFER)).json()
        answer = await client.post(f"/v1/sessions/{opened['id']}:exchange", content=body)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_result_of_many_digits_is_a_result(memory: Engine) -> None:
    body = b'{"number":1,"settlements":[{"claim":"1.1","verb":"succeed","result":%s}]}' % DIGITS

    async with asking(Application(Service(memory)), headers=JSON) as client:
        opened = (await client.post("/v1/sessions", json=OFFER)).json()
        answer = await client.post(f"/v1/sessions/{opened['id']}:exchange", content=body)

    assert answer.json()["stale"] == ["1.1"]


async def test_a_queue_that_the_session_did_not_open_is_refused_and_the_number_stays_free(
    engine: Engine, client: httpx.AsyncClient
) -> None:
    await engine.submit([a_job(), a_job(queue="mail")])
    opened = (await client.post("/v1/sessions", json=OFFER)).json()
    path = f"/v1/sessions/{opened['id']}:exchange"

    refused = await client.post(path, json={"number": 1, "want": 2, "queues": ["mail"]})
    claimed = await client.post(path, json={"number": 1, "want": 2, "queues": ["default"]})

    assert (refused.status_code, refused.json()["code"]) == (422, "queue_not_opened")
    assert [one["queue"] for one in claimed.json()["claims"]] == ["default"]


async def test_the_contract_of_engines_has_no_route(engine: Engine) -> None:
    key = await a_key(engine, *Scope)
    headers = {"authorization": f"Bearer {key}"}
    names = [name for name in dir(Engine) if not name.startswith("_")]

    async with asking(Application(Service(engine)), headers=headers) as client:
        answers = {
            name: (await client.post(f"/v1/engine/{name}", json={})).status_code
            for name in names
        }

    assert len(names) > 40
    assert answers == dict.fromkeys(names, 404)


async def test_a_workers_key_reaches_its_sessions_and_nothing_else(engine: Engine) -> None:
    key = await a_key(engine, Scope.WORK)
    headers = {"authorization": f"Bearer {key}"}
    paths = {
        route.path: route.method
        for route in ROUTES
        if route.scope is not None and not route.path.startswith("/v1/sessions")
    }

    application = Application(Service(engine), is_local=False)
    async with asking(application, headers=headers) as client:
        answers = {
            path: (await client.request(method, path)).status_code
            for path, method in paths.items()
        }

    assert set(answers.values()) == {403}


async def test_when_a_schedule_is_due_is_not_for_its_caller_to_say(engine: Engine) -> None:
    remote = with_key(Application(Service(engine)), await a_key(engine, *Scope))

    await remote.client.put_schedule(a_schedule(next_due=1))

    (stored,) = await schedules.every(engine)
    assert stored.next_due is not None
    assert stored.next_due > await engine.now()
