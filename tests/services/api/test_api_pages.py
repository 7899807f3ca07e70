"""Every list over HTTP comes in pages."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Any, get_args, get_origin

import httpx
import msgspec
import pytest
from api_steps import UNKNOWN

from longshore.api.listing import cursor_behind
from longshore.api.routes import ROUTES
from longshore.contract import Engine
from longshore.core import ids
from longshore.core.account import Grant, Scope, Tenant
from longshore.core.consumer import Quarantined
from longshore.core.event import Name
from longshore.core.job import NewJob
from longshore.core.schedule import Schedule
from longshore.core.state import Verb
from longshore.operations import deliveries
from longshore.records import (
    api_keys,
    breaker_settings,
    pauses,
    quarantine,
    queue_settings,
    schedules,
    tenants,
)
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource
from longshore.testing.factories import a_job, a_settlement

BOUNDED = {
    "explainJob": "as many reasons as there are rules",
    "previewSchedule": "`count`, at most 100",
    "getDiagnosis": "one finding per check",
    "getSlowTypes": "`sample` jobs, at most 4,000",
}
"""Answers with a list that cannot grow, and what bounds it."""

FIVE = range(5)


def lists(kind: Any) -> list[str]:
    """The fields of an answer that are lists of documents."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return []
    return [
        field.name
        for field in msgspec.structs.fields(kind)
        if get_origin(field.type) is list
        and isinstance(inner := get_args(field.type)[0], type)
        and issubclass(inner, msgspec.Struct)
    ]


PAGED = {
    route.name: route
    for route in ROUTES
    if route.method == "GET" and lists(route.answers.get(200)) and route.name not in BOUNDED
}


async def queues(engine: Engine) -> str:
    await engine.submit([a_job(queue=f"q{n}") for n in FIVE])
    return "/v1/queues"


async def _pauses(engine: Engine) -> str:
    await pauses.pause(engine, type="a")
    await pauses.pause(engine, queue="q")
    for n in range(3):
        await pauses.pause(engine, queue="q", type=f"t{n}")
    return "/v1/pauses"


async def jobs(engine: Engine) -> str:
    await engine.submit([a_job() for _ in FIVE])
    return "/v1/jobs"


async def dead(engine: Engine) -> str:
    await killed(engine, [a_job() for _ in FIVE])
    return "/v1/dead"


async def attempts(engine: Engine) -> str:
    job = a_job(max_attempts=9)
    await engine.submit([job])
    session = await engine.open_session(
        worker="w", queues=[job.queue], types=[job.type], lease=30_000_000
    )
    for number in FIVE:
        (claim,) = (await session.exchange(2 * number + 1, want=1)).claims
        released = a_settlement(claim, Verb.RELEASE)
        await session.exchange(2 * number + 2, settlements=[released])
    return f"/v1/jobs/{ids.text(job.id)}/attempts"


async def _schedules(engine: Engine) -> str:
    for n in FIVE:
        await schedules.put(engine, Schedule(name=f"s{n}", type="a", every=60_000_000))
    return "/v1/schedules"


async def workers(engine: Engine) -> str:
    for n in FIVE:
        await engine.open_session(worker=f"w{n}", queues=["q"], types=["a"], lease=30_000_000)
    return "/v1/workers"


async def _tenants(engine: Engine) -> str:
    for n in range(4):
        await tenants.create(engine, Tenant(name=f"t{n}"))
    return "/v1/tenants"


async def breakers(engine: Engine) -> str:
    for n in FIVE:
        await breaker_settings.override(engine, f"t{n}", {"failures": 3})
    return "/v1/breakers"


async def lines(engine: Engine) -> str:
    await queue_settings.override(engine, "default", {"on_dead": "block"})
    await killed(engine, [a_job(ordering_key=f"k{n}") for n in FIVE])
    return "/v1/lines"


async def endpoints(engine: Engine) -> str:
    for n in FIVE:
        await deliveries.create(engine, tenant="default", url=f"https://example.com/{n}")
    return "/v1/webhooks"


async def _deliveries(engine: Engine) -> str:
    _, made = await deliveries.create(engine, tenant="default", url="https://example.com")
    source = IdSource(SystemClock())
    for _ in FIVE:
        await deliveries.test(engine, made, source)
    return f"/v1/webhooks/{made.id}/deliveries"


async def consumers(engine: Engine) -> str:
    for n in FIVE:
        await engine.take_cursor(f"c{n}", holder="h", lease=30_000_000)
    return "/v1/consumers"


async def quarantined(engine: Engine) -> str:
    cursor = await engine.take_cursor("kafka", holder="h", lease=30_000_000)
    assert cursor is not None
    job_id = ids.parse(UNKNOWN)
    for batch in ((1, 2, 3, 4), (5,)):
        aside = [
            Quarantined("kafka", f"1.{n}", Name.SUBMITTED, job_id, "too large", b"{}")
            for n in batch
        ]
        await engine.advance(
            cursor, position=1, quarantined=[quarantine.put(one, "default") for one in aside]
        )
    return "/v1/quarantined"


async def entries(engine: Engine) -> str:
    for n in FIVE:
        await pauses.pause(engine, queue=f"q{n}")
    await engine.chain(limit=100)
    return "/v1/audit/entries"


async def killed(engine: Engine, wanted: list[NewJob]) -> None:
    await engine.submit(wanted)
    session = await engine.open_session(
        worker="w", queues=[wanted[0].queue], types=[wanted[0].type], lease=30_000_000
    )
    claims = (await session.exchange(1, want=9)).claims
    settlements = [a_settlement(one, Verb.KILL, reason="poison") for one in claims]
    await session.exchange(2, settlements=settlements)
    await session.close()


FILLED: dict[str, Callable[[Engine], Awaitable[str]]] = {
    "listJobs": jobs,
    "listDeadJobs": dead,
    "listAttempts": attempts,
    "listQueues": queues,
    "listPauses": _pauses,
    "listWorkers": workers,
    "listBlockedLines": lines,
    "listBreakers": breakers,
    "listSchedules": _schedules,
    "listTenants": _tenants,
    "listWebhooks": endpoints,
    "listDeliveries": _deliveries,
    "listConsumers": consumers,
    "listQuarantinedEvents": quarantined,
    "listAuditEntries": entries,
}
"""How each list comes to five items. Keys, the audit log and broken records have
tests apart."""


def test_every_list_has_a_limit_and_a_cursor():
    for name, route in PAGED.items():
        assert {"limit", "cursor"} <= set(route.query.__struct_fields__), name
        assert "cursor" in route.answers[200].__struct_fields__, name
        assert "cursor" in route.problems, name
    assert {*FILLED, "listKeys", "listAudit", "listBrokenRecords"} == set(PAGED)


@pytest.mark.parametrize("name", FILLED)
async def test_pages_of_a_list_make_up_the_whole_list(
    client: httpx.AsyncClient, engine: Engine, name: str
):
    path = await FILLED[name](engine)
    (field,) = lists(PAGED[name].answers[200])
    whole = (await client.get(path, params={"limit": 1_000})).json()

    paged, sizes, cursor = list[Any](), list[int](), None
    while cursor is not None or not sizes:
        query = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        found = (await client.get(path, params=query)).json()
        paged += found[field]
        sizes.append(len(found[field]))
        cursor = found["cursor"]

    assert len(whole[field]) == 5
    assert whole["cursor"] is None
    assert paged == whole[field]
    assert max(sizes) == 2


@pytest.mark.parametrize("name", FILLED)
async def test_a_cursor_of_another_list_is_refused(
    client: httpx.AsyncClient, engine: Engine, name: str
):
    path = await FILLED[name](engine)
    other = "/v1/queues" if name != "listQueues" else await _schedules(engine)
    await queues(engine)
    foreign = (await client.get(other, params={"limit": 1})).json()["cursor"]

    answers = [
        await client.get(path, params={"cursor": cursor}) for cursor in (foreign, "?", "gQ")
    ]

    assert [one.status_code for one in answers] == [400] * 3
    assert {one.json()["code"] for one in answers} == {"cursor"}


@pytest.mark.parametrize(
    "name", sorted(FILLED.keys() - {"listJobs", "listDeadJobs", "listDeliveries"})
)
async def test_a_cursor_that_was_made_up_is_refused(
    client: httpx.AsyncClient, engine: Engine, name: str
):
    path = await FILLED[name](engine)
    own = (await client.get(path, params={"limit": 1})).json()["cursor"]
    of, place = msgspec.msgpack.decode(urlsafe_b64decode(own + "=="))
    odd = tuple(1 if isinstance(one, str) else "1" for one in place)

    answer = await client.get(path, params={"cursor": cursor_behind(odd, of=tuple(of))})

    assert (answer.status_code, answer.json()["code"]) == (400, "cursor")


@pytest.mark.parametrize(("path", "depth"), [("/v1/jobs", 1_400), ("/v1/audit", 5_900)])
async def test_a_cursor_that_is_nested_deeply_is_refused(
    client: httpx.AsyncClient, path: str, depth: int
):
    deep = urlsafe_b64encode(b"[1," + b"[" * depth).decode("ascii")

    answer = await client.get(path, params={"cursor": deep})

    assert (answer.status_code, answer.json()["code"]) == (400, "cursor")


async def test_keys_come_in_pages_too(client: httpx.AsyncClient, engine: Engine):
    made = [
        await api_keys.make(engine, tenant=None, grant=Grant((Scope.ADMIN,)), label=f"k{n}")
        for n in FIVE
    ]
    headers = {"authorization": f"Bearer {made[0][0].text}"}

    first = (await client.get("/v1/keys?limit=3", headers=headers)).json()
    rest = {"limit": 3, "cursor": first["cursor"]}
    second = (await client.get("/v1/keys", params=rest, headers=headers)).json()
    narrowed = await client.get(
        "/v1/keys", params={**rest, "tenant": "default"}, headers=headers
    )

    shown = [one["id"] for one in first["keys"] + second["keys"]]
    assert sorted(shown) == sorted(stored.id for _, stored in made)
    assert second["cursor"] is None
    assert (narrowed.status_code, narrowed.json()["code"]) == (400, "cursor")


async def test_what_is_removed_between_pages_makes_nothing_come_twice_or_not_at_all(
    client: httpx.AsyncClient, engine: Engine
):
    await _schedules(engine)
    first = (await client.get("/v1/schedules?limit=2")).json()

    await schedules.delete(engine, "s1")
    query = {"limit": 2, "cursor": first["cursor"]}
    second = (await client.get("/v1/schedules", params=query)).json()

    assert [one["name"] for one in second["schedules"]] == ["s2", "s3"]


async def test_a_page_of_many_queues_is_small(client: httpx.AsyncClient, engine: Engine):
    await engine.submit([a_job(queue=f"q{n:04}") for n in range(2_000)])

    answer = await client.get("/v1/queues")

    assert len(answer.json()["queues"]) == 100
    assert len(answer.content) < 200_000
