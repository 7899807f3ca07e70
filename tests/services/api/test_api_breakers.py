"""Circuit breakers over HTTP."""

import httpx

from longshore.contract import Engine
from longshore.core.limit_settings import BreakerSettings, Layer
from longshore.records import breaker_settings
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker


async def test_a_breaker_is_patched_shown_and_reset(client: httpx.AsyncClient, engine: Engine):
    declared = BreakerSettings(failures=5, cooldown=30_000_000)
    await breaker_settings.put(engine, "noop", Layer.DECLARED, declared)
    path = "/v1/breakers/noop"

    changed = await client.patch(path, json={"failures": 1, "cooldown_seconds": 2.5})
    job = a_job()
    await engine.submit([job, a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim(1)
    await worker.fail(claim)
    opened = (await client.get("/v1/breakers")).json()["breakers"]
    reset = await client.post(f"{path}:reset")
    given_back = await client.patch(path, json={"failures": None})
    refused = [
        await client.patch(path, json={"failures": 0}),
        await client.patch("/v1/breakers/other", json={"probes": 2}),
    ]

    assert (changed.json()["settings"]["failures"], changed.json()["phase"]) == (1, "closed")
    assert [one["phase"] for one in opened] == ["open"]
    assert opened[0]["until"] > opened[0]["since"]
    assert reset.json()["phase"] == "closed"
    assert given_back.json()["settings"]["failures"] == 5
    assert given_back.json()["overridden"]["cooldown_seconds"] == 2.5
    assert [400 <= answer.status_code < 500 for answer in refused] == [True, True]
