"""The worker protocol: who may speak for a session, and answers that are held back."""

import asyncio
from typing import Any

import httpx
import pytest
from api_steps import asking

from longshore.api.application import Application
from longshore.api.service import Service
from longshore.core.account import NewKey, Scope, Tenant
from longshore.engine import Engine
from longshore.engines.remote.engine import RemoteEngine
from longshore.engines.remote.line import Line
from longshore.errors import ConfigError, JobNotFoundError
from longshore.runtime.keys import mint
from longshore.testing.factories import a_job

OFFER = {"worker": "w", "queues": ["default"], "types": ["noop"], "lease_us": 30_000_000}


async def a_key(engine: Engine, *scopes: Scope, tenant: str | None = None) -> str:
    made = mint()
    await engine.add_key(
        NewKey(id=made.id, digest=made.digest, tenant=tenant, scopes=scopes, label="test")
    )
    return made.text


def with_key(application: Application, key: str) -> Engine:
    """The engine as the holder of this key reaches it."""
    transport = httpx.ASGITransport(application, client=("127.0.0.1", 1))
    return RemoteEngine(Line("http://localhost", key=key, transport=transport))


async def test_a_sessions_id_is_good_only_with_the_key_it_was_given_to(
    engine: Engine,
) -> None:
    mine, other = [await a_key(engine, Scope.WORK) for _ in range(2)]
    async with asking(Application(Service(engine))) as client:
        ours = {"authorization": f"Bearer {mine}"}
        theirs = {"authorization": f"Bearer {other}"}
        opened = (await client.post("/v1/sessions", json=OFFER, headers=ours)).json()
        path = f"/v1/sessions/{opened['id']}"

        answers = [
            (await client.post(f"{path}:{verb}", json={}, headers=theirs)).status_code
            for verb in ("renew", "bury")
        ]
        guessed = await client.get(f"/v1/sessions/{opened['token']}", headers=ours)
        own = await client.post(f"{path}:renew", json={}, headers=ours)

    assert answers == [410, 410]
    assert guessed.status_code == 410
    assert own.status_code == 200


async def test_a_tenants_key_opens_no_session(engine: Engine) -> None:
    application = Application(Service(engine))
    key = await a_key(engine, Scope.READ, Scope.SUBMIT, tenant="default")

    with pytest.raises(ConfigError):
        await with_key(application, key).open_session(
            worker="w", queues=["q"], types=["t"], lease=10**7
        )


async def test_a_tenants_key_reaches_its_own_jobs_only(engine: Engine) -> None:
    await engine.put_tenant(Tenant(name="acme"))
    application = Application(Service(engine))
    acme = with_key(application, await a_key(engine, Scope.READ, Scope.SUBMIT, tenant="acme"))
    foreign = a_job(tenant="default")
    await engine.submit([foreign])

    (own,) = await acme.submit([a_job()])

    assert (await engine.get(own.id)).tenant == "acme"
    assert (await acme.get(own.id)).tenant == "acme"
    with pytest.raises(JobNotFoundError):
        await acme.get(foreign.id)


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
