"""Two tenants, one of whom attacks: what the victim has, and what the attacker holds."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from longshore.api.routing import Route
from longshore.contract import Engine, JobFilter
from longshore.core import ids
from longshore.core.account import NewKey, Scope, Tenant
from longshore.core.job import JobId
from longshore.core.limit_settings import Layer, OnDead, QueueSettings
from longshore.core.state import Verb
from longshore.operations import deliveries
from longshore.records import (
    api_keys,
    breaker_settings,
    pauses,
    queue_settings,
    schedules,
    tenants,
    webhooks,
)
from longshore.runtime.keys import MintedKey, mint
from longshore.testing.factories import DAY, a_failure, a_job, a_schedule, a_settlement

SECRET = "planted-3f9c51"
"""Stands in all that the victim stores and the attacker never sends."""
NAME = "ledger"
"""The victim's names of queues, types, keys and tags, which the attacker has guessed."""


async def a_key(
    engine: Engine, *scopes: Scope, tenant: str | None = "evil", **narrowing: Any
) -> MintedKey:
    """A key with these scopes, stored."""
    minted = mint()
    await api_keys.add(
        engine,
        NewKey(id=minted.id, digest=minted.digest, tenant=tenant, scopes=scopes, **narrowing),
    )
    return minted


def bearing(key: MintedKey, **more: str) -> dict[str, str]:
    """The headers of a request with this key."""
    return {"authorization": f"Bearer {key.text}", **more}


@dataclass
class Victim:
    """What the tenant `victim` has in the store."""

    jobs: dict[str, JobId] = field(default_factory=dict[str, JobId])
    """One job by each state."""
    webhook: str = ""
    delivery: str = ""
    key: str = ""
    """The id of its API key."""
    session: int = 0
    """The token of the worker that runs its jobs."""


async def plant(engine: Engine) -> Victim:
    """Make the tenants, and something of every kind for the victim."""
    for name in ("victim", "evil"):
        await tenants.create(engine, Tenant(name=name))
    made = Victim()
    made.key = (await a_key(engine, Scope.READ, tenant="victim", label=SECRET)).id
    blocking = QueueSettings(on_dead=OnDead.BLOCK)
    await queue_settings.put(engine, NAME, Layer.OVERRIDDEN, blocking)
    await schedules.put(
        engine,
        a_schedule(
            name=NAME,
            tenant="victim",
            queue=NAME,
            every=DAY,
            payload=b'{"secret":"%s"}' % SECRET.encode(),
        ),
    )
    text, endpoint = await deliveries.create(
        engine,
        tenant="victim",
        url=f"https://8.8.8.8/{SECRET}",
        description=SECRET,
    )
    assert text
    made.webhook = endpoint.id
    await _plant_jobs(engine, made)
    message = deliveries.Message(endpoint.id, "msg_1", "job.dead", SECRET)
    delivery = deliveries.delivery_job(_new_id(), endpoint, message)
    await engine.submit([delivery])
    made.delivery = ids.text(delivery.id)
    return made


async def _plant_jobs(engine: Engine, made: Victim) -> None:
    fields: dict[str, Any] = {
        "tenant": "victim",
        "queue": NAME,
        "type": NAME,
        "tags": (NAME, SECRET),
        "payload": b'{"secret":"%s"}' % SECRET.encode(),
    }
    session = await engine.open_session(
        worker=f"worker-{SECRET}", queues=[NAME], types=[NAME], lease=600_000_000
    )
    made.session = session.token
    ended = {
        "succeeded": {"result": b'"%s"' % SECRET.encode()},
        "dead": {"failure": a_failure(message=SECRET), "reason": SECRET, "charge": True},
        "cancelled": {"reason": SECRET},
    }
    verbs = {"succeeded": Verb.SUCCEED, "dead": Verb.KILL, "cancelled": Verb.CANCEL}
    number = 0
    for state, changes in ended.items():
        job = a_job(**fields, ordering_key=NAME if state == "dead" else None)
        made.jobs[state] = job.id
        await engine.submit([job])
        number += 1
        (claim,) = (await session.exchange(number, want=1)).claims
        settlement = a_settlement(claim, verbs[state], started_at=1, **changes)
        number += 1
        await session.exchange(number, settlements=[settlement])
    running = a_job(**fields)
    made.jobs["running"] = running.id
    await engine.submit([running])
    number += 1
    (claim,) = (await session.exchange(number, want=1)).claims
    await session.exchange(number + 1, started=[(claim.handle, claim.delivery)])
    ready = a_job(
        **fields,
        ordering_key=NAME,
        unique_key=NAME,
        idempotency_key=NAME,
        fingerprint=bytes(32),
    )
    scheduled = a_job(**fields, delay=DAY)
    made.jobs |= {"ready": ready.id, "scheduled": scheduled.id}
    await engine.submit([ready, scheduled])


def _new_id() -> JobId:
    return a_job().id


async def picture(engine: Engine) -> str:
    """All that the victim has and that concerns everybody, to be compared."""
    jobs = (await engine.find(JobFilter(tenant="victim"), limit=100)).jobs
    found: list[Any] = [
        sorted(jobs, key=lambda one: one.id),
        [await engine.attempts(one.id) for one in jobs],
        await schedules.every(engine, tenant="victim"),
        await webhooks.every(engine, tenant="victim"),
        await api_keys.every(engine, tenant="victim"),
        await tenants.get(engine, "victim"),
        await queue_settings.every(engine),
        await breaker_settings.every(engine),
        await pauses.every(engine),
        await engine.consumers(),
        [one for one in (await engine.sessions()).sessions if SECRET in one.worker],
        await engine.counts(tenant="victim"),
        await engine.blocked_lines(limit=10, tenant="victim"),
        await tenants.every(engine),
    ]
    return msgspec.json.encode([repr(one) for one in found]).decode()


def paths_of(route: Route[Any, Any, Any], **values: Any) -> list[str]:
    """The paths of a route with these values in the places of its parameters."""
    return [one.format(**values) for one in (route.path, *route.aliases)]
