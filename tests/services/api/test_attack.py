"""An attack on the service with keys of every kind, which finds and breaks nothing.

The tenant `victim` has something of every kind, and in all of it stands a text that the
attacker never sends (`SECRET`). The attacker has guessed every name and id of the victim.
"""

import json
from collections.abc import AsyncIterator
from itertools import combinations
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from api_steps import UNKNOWN, asking
from attack_steps import NAME, SECRET, Victim, a_key, bearing, paths_of, picture, plant

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.routes import ROUTES
from longshore.contract import Engine, JobFilter
from longshore.core import ids
from longshore.core.account import Scope
from longshore.records import pauses, schedules
from longshore.runtime.keys import MintedKey
from longshore.scheduler.fire import Firer
from longshore.testing.factories import DAY, a_job, a_schedule

TENANT_SCOPES = (Scope.SUBMIT, Scope.READ, Scope.OPERATE)
JSON = {"content-type": "application/json"}
BOUNDED = {"followEvents": {"follow": "false", "from_start": "true"}}
"""What a stream needs to end by itself."""
EVERY = {"payload": {}, "every_seconds": 60}


@pytest.fixture
async def victim(engine: Engine) -> Victim:
    return await plant(engine)


@pytest.fixture
async def public(engine: Engine, victim: Victim) -> AsyncIterator[httpx.AsyncClient]:
    """A service that the world can reach, on the store with both tenants."""
    async with asking(Application(Service(engine), is_local=False)) as opened:
        yield opened


def bodies(victim: Victim) -> dict[str, list[Any]]:
    """What is sent to the routes that take a document, by name."""
    jobs = [ids.text(one) for one in victim.jobs.values()]
    filters = [{"filter": {}}, {"filter": {"queue": NAME}}, {"filter": {"tag": NAME}}]
    many = [{"ids": jobs[:1]}, {"ids": jobs}, *filters]
    job = {"type": NAME, "queue": "mine"}
    taken = [
        {**job, "id": jobs[0]},
        {**job, "unique_key": NAME},
        {**job, "idempotency_key": NAME},
        {**job, "ordering_key": NAME},
    ]
    schedule = {"name": NAME, "type": NAME, "queue": "mine", **EVERY}
    definition = {name: value for name, value in schedule.items() if name != "name"}
    claim = f"{victim.session}.1"
    return {
        "submitJob": taken,
        "submitJobs": [{"jobs": taken}],
        "cancelJobs": [*many, {"filter": {"state": "running"}}],
        "retryJobs": [*many, {"filter": {"state": "dead"}}],
        "replayDead": many,
        "purgeManyDead": many,
        "cancelJob": [{}],
        "changeQueue": [{"is_paused": True}, {"settings": {"max_depth": 1}}],
        "pauseQueue": [{}],
        "resumeQueue": [{}],
        "releaseLine": [
            {"queue": NAME, "key": NAME},
            {"queue": NAME, "key": NAME, "tenant": "victim"},
        ],
        "changeBreaker": [{"failures": 1}],
        "createSchedule": [schedule],
        "putSchedule": [definition],
        "changeSchedule": [{"is_paused": True}, {"payload": {}}],
        "previewTimes": [{"every_seconds": 60}],
        "declare": [{}, {"queues": {NAME: {"max_depth": 1}}}, {"schedules": [schedule]}],
        "createTenant": [{"name": "victim", "rate": 1}],
        "changeTenant": [{"is_disabled": True}],
        "createKey": [{"tenant": "victim", "scopes": ["read"]}, {"tenant": None, "scopes": []}],
        "rotateKey": [{}],
        "createWebhook": [{"url": "https://8.8.4.4/"}],
        "changeWebhook": [{"url": "https://8.8.4.4/"}, {"is_disabled": True}],
        "rotateWebhook": [{}],
        "openSession": [
            {"worker": "evil", "queues": [NAME], "types": [NAME], "lease_us": 1_000_000}
        ],
        "exchangeSession": [
            {"number": 9, "settlements": [{"claim": claim, "verb": "succeed"}]}
        ],
        "renewSession": [{"number": 9}],
        "waitSession": [{"seconds": 0}],
        "burySession": [{}],
        "attemptsSession": [{"job_id": jobs[0]}],
    }


def places(victim: Victim) -> list[dict[str, Any]]:
    """The victim's names for every parameter of a path."""
    fixed: dict[str, Any] = {
        "queue": NAME,
        "type": NAME,
        "name": NAME,
        "tenant": "victim",
        "endpoint": victim.webhook,
        "delivery": victim.delivery,
        "token": victim.session,
    }
    named = [ids.text(one) for one in victim.jobs.values()]
    return [
        {**fixed, "id": one} for one in (*named, victim.delivery, victim.key, victim.session)
    ]


async def attack(
    client: httpx.AsyncClient, victim: Victim, headers: dict[str, str]
) -> dict[str, set[int]]:
    """Ask every route for what is the victim's; the statuses by route, of safe answers only."""
    statuses: dict[str, set[int]] = {}
    known = bodies(victim)
    for route in ROUTES:
        asked = {
            (path, json.dumps(body))
            for values in places(victim)
            for path in paths_of(route, **values)
            for body in (known.get(route.name, [None]) if route.has_body else [None])
        }
        for path, body in sorted(asked):
            answer = await client.request(
                route.method,
                path,
                content=None if body == "null" else body,
                params=queries(route.name),
                headers={**headers, **JSON},
            )
            where = f"{route.method} {path} {body[:200]}"
            assert answer.status_code < 500, where
            assert SECRET not in answer.text, where
            statuses.setdefault(route.name, set()).add(answer.status_code)
    return statuses


def queries(name: str) -> dict[str, str]:
    known = {"getLine": {"key": NAME}, **BOUNDED}
    return known.get(name, {})


SCOPES = [set_ for count in (1, 3) for set_ in combinations(TENANT_SCOPES, count)]


@pytest.mark.parametrize("scopes", SCOPES, ids="-".join)
async def test_a_tenants_key_reaches_nothing_of_another_tenant(
    public: httpx.AsyncClient, engine: Engine, victim: Victim, scopes: tuple[Scope, ...]
):
    key = await a_key(engine, *scopes)
    before = await picture(engine)

    statuses = await attack(public, victim, bearing(key))

    assert await picture(engine) == before
    if Scope.SUBMIT in scopes:
        assert 201 in statuses["submitJob"]
    fleetwide = [route.name for route in ROUTES if route.is_fleetwide]
    assert all(statuses[name] == {403} for name in fleetwide)
    if len(scopes) == 3:
        # It may ask, and there is nothing.
        for name in ("getJob", "listAttempts", "explainJob", "followJob", "getWebhook"):
            assert statuses[name] <= {404, 422}, name


@pytest.mark.parametrize("named", ["victim", "nobody", "evil, victim", "VICTIM", "*", "null"])
async def test_a_tenants_key_cannot_speak_for_another(
    public: httpx.AsyncClient, engine: Engine, named: str
):
    key = await a_key(engine, *TENANT_SCOPES)

    answers = [
        await public.request(
            route.method, path, headers=bearing(key, **{"longshore-tenant": named})
        )
        for route in ROUTES
        if route.scope in TENANT_SCOPES and not route.is_fleetwide
        for path in paths_of(route, **places_of_nothing())
    ]

    assert {one.status_code for one in answers} <= {403, 422}
    assert not any(SECRET in one.text for one in answers)


def places_of_nothing() -> dict[str, Any]:
    return {
        "id": UNKNOWN,
        "queue": "q",
        "type": "t",
        "name": "n",
        "tenant": "t",
        "endpoint": "wh_" + "0" * 24,
        "delivery": UNKNOWN,
        "token": 1,
    }


async def test_two_headers_for_the_tenant_or_the_key_are_none(
    public: httpx.AsyncClient, engine: Engine
):
    key, operator = (
        await a_key(engine, *TENANT_SCOPES),
        await a_key(engine, *Scope, tenant=None),
    )
    twice = [("longshore-tenant", "evil"), ("longshore-tenant", "victim")]
    keys = [("authorization", f"Bearer {one.text}") for one in (key, operator)]

    both = await public.get("/v1/jobs", headers=[*twice, *keys[:1]])
    two_keys = await public.get("/v1/jobs", headers=keys)

    assert both.status_code == 422
    assert two_keys.status_code == 401


async def test_what_is_anothers_cannot_be_told_from_what_is_not_there(
    public: httpx.AsyncClient, engine: Engine, victim: Victim
):
    key = await a_key(engine, *TENANT_SCOPES)
    nothing = places_of_nothing()
    there = {
        **nothing,
        "queue": NAME,
        "name": NAME,
        "endpoint": victim.webhook,
        "delivery": victim.delivery,
    }
    known = bodies(victim)
    told: dict[str, list[tuple[int, bytes]]] = {}
    for route in ROUTES:
        if route.scope not in TENANT_SCOPES or route.is_fleetwide or "{" not in route.path:
            continue
        body = known.get(route.name, [{}])[0] if route.has_body else None
        if route.name in ("putSchedule", "getLine"):
            continue  # the name is in the answer
        for job_id in map(ids.text, victim.jobs.values()):
            for values in (nothing, {**there, "id": job_id}):
                answer = await public.request(
                    route.method, route.path.format(**values), json=body, headers=bearing(key)
                )
                told.setdefault(route.name, []).append((answer.status_code, answer.content))

    assert {name: len(set(answers)) for name, answers in told.items()} == dict.fromkeys(told, 1)
    assert len(told) > 20


async def test_ids_of_another_tenant_among_ones_own_are_refused_whole(
    public: httpx.AsyncClient, engine: Engine, victim: Victim
):
    key = await a_key(engine, *TENANT_SCOPES)
    own = a_job(tenant="evil")
    await engine.submit([own])
    before = await picture(engine)

    answers: list[httpx.Response] = []
    for path in ("jobs:cancel", "jobs:retry", "dead:replay", "dead:purge"):
        for stranger in victim.jobs.values():
            mixed = [ids.text(own.id), ids.text(stranger)]
            missing = [ids.text(own.id), UNKNOWN]
            pair = [
                await public.post(f"/v1/{path}", json={"ids": some}, headers=bearing(key))
                for some in (mixed, missing)
            ]
            assert pair[0].content == pair[1].content, path
            answers += pair

    assert {one.status_code for one in answers} <= {404, 409}
    assert await picture(engine) == before
    assert (await engine.get(own.id)).state == "ready"


async def test_ids_and_a_filter_together_are_refused(
    public: httpx.AsyncClient, engine: Engine, victim: Victim
):
    key = await a_key(engine, *TENANT_SCOPES)
    named = ids.text(victim.jobs["dead"])
    before = await picture(engine)

    answers = [
        await public.post(f"/v1/{path}", json=body, headers=bearing(key))
        for path in ("jobs:cancel", "jobs:retry", "dead:replay", "dead:purge")
        for body in (
            {"ids": [named], "filter": {}},
            {"ids": [named], "dry_run": True},
            {"ids": [named], "limit": 1},
            {"ids": [], "filter": {}},
            {"ids": []},
            {"filter": {"tenant": "victim"}},
            {"filter": {"ids": [named]}},
            {"filter": None},
            {"ids": None},
            {"tenant": "victim", "filter": {}},
            {},
        )
    ]

    assert {one.status_code for one in answers} == {422}
    assert await picture(engine) == before


async def test_a_dry_run_counts_ones_own_jobs_alone(
    public: httpx.AsyncClient, engine: Engine, victim: Victim
):
    key = await a_key(engine, *TENANT_SCOPES)

    answers = [
        await public.post(
            f"/v1/{path}", json={"filter": chosen, "dry_run": True}, headers=bearing(key)
        )
        for path in ("jobs:cancel", "jobs:retry", "dead:replay", "dead:purge")
        for chosen in ({}, {"queue": NAME}, {"type": NAME}, {"tag": NAME})
    ]

    assert {(one.status_code, one.json()["matched"]) for one in answers} == {(200, 0)}


@pytest.mark.parametrize(
    "path", ["/v1/jobs", "/v1/jobs:batch", "/v1/jobs:batch?independent=false"]
)
async def test_keys_and_ids_of_another_tenant_change_nothing_of_a_submit(
    public: httpx.AsyncClient, engine: Engine, victim: Victim, path: str
):
    """A unique, an ordering and an idempotency key are each tenant's own; an id is taken."""
    key = await a_key(engine, *TENANT_SCOPES)
    before = await picture(engine)
    is_batch = "batch" in path

    async def sent(**fields: Any) -> httpx.Response:
        job = {"type": NAME, "queue": NAME, **fields}
        body = {"jobs": [job]} if is_batch else job
        return await public.post(path, json=body, headers=bearing(key))

    own = [
        await sent(**{name: NAME}) for name in ("unique_key", "idempotency_key", "ordering_key")
    ]
    taken = [await sent(id=ids.text(one)) for one in victim.jobs.values()]

    assert {one.status_code for one in own} == {200 if is_batch else 201}
    if is_batch:
        assert {one.json()["accepted"] for one in own} == {1}
    assert not any(SECRET in one.text for one in [*own, *taken])
    assert all(_is_refused(one) for one in taken)
    mine = [one for one in (await public.get("/v1/jobs", headers=bearing(key))).json()["jobs"]]
    assert {one["tenant"] for one in mine} == {"evil"}
    assert await picture(engine) == before


def _is_refused(answer: httpx.Response) -> bool:
    if answer.status_code != 200:
        return answer.status_code == 409
    return [one["status"] for one in answer.json()["results"]] == [409]


async def test_no_list_tells_an_id_or_a_name_of_another_tenant(
    public: httpx.AsyncClient, engine: Engine, victim: Victim
):
    key = await a_key(engine, *TENANT_SCOPES)
    named = [NAME, SECRET, "victim", victim.webhook, victim.delivery, victim.key]
    named += [ids.text(one) for one in victim.jobs.values()]
    asked = [
        (path, {**queries(route.name), **more})
        for route in ROUTES
        if route.method == "GET" and route.scope is Scope.READ and not route.is_fleetwide
        for path in paths_of(route, **places_of_nothing())
        for more in ({}, {"after": "0"}, {"after": "1.0"})
        if not more or route.name == "followEvents"
    ]

    answers = [
        await public.get(path, params=params, headers=bearing(key)) for path, params in asked
    ]

    assert len(answers) > 15
    assert {one.status_code for one in answers} <= {200, 204, 404, 410, 422}
    for answer in answers:
        found = [one for one in named if one in answer.text]
        is_own_words = answer.request.url.path.endswith("/line")
        assert not found or is_own_words, answer.request.url


async def test_names_of_queues_in_which_a_tenant_has_no_job_are_not_told(
    public: httpx.AsyncClient, engine: Engine
):
    """A queue with settings or a pause may be named after another tenant."""
    key = await a_key(engine, Scope.READ)
    await pauses.pause(engine, queue=f"{NAME}.paused")

    answers = [
        await public.get(path, headers=bearing(key))
        for path in ("/v1/queues", "/v1/queues?may_estimate=true", "/v1/lines", "/stats")
    ]

    assert {one.status_code for one in answers} == {200}
    assert not any(NAME in one.text for one in answers)


# What an attack on an earlier version found.

OPERATOR_ONLY = ("renew", "claims", "fire", "due_schedules", "reclaim", "prune", "webhooks")


@pytest.mark.parametrize("scopes", [(Scope.WORK,), tuple(Scope)], ids="-".join)
async def test_no_verb_of_an_engine_is_served(
    public: httpx.AsyncClient, engine: Engine, scopes: tuple[Scope, ...]
):
    key = await a_key(engine, *scopes, tenant=None)

    answers = [
        await public.post(path, json={}, headers=bearing(key))
        for name in OPERATOR_ONLY
        for path in (f"/v1/engine/{name}", f"/v1/maintenance/{name}", f"/v1/sessions:{name}")
    ]

    assert {one.status_code for one in answers} <= {404, 405}


DEEP = '{"a":' * 5_000 + "1" + "}" * 5_000
PAYLOADS = {
    "deep": DEEP,
    "33 levels": '{"a":' * 33 + "1" + "}" * 33,
    "list": "[" * 40 + "]" * 40,
    "NaN": '{"a":NaN}',
    "infinity": '{"a":-Infinity}',
    "overflow": '{"a":1e999}',
    "65 bits": '{"a":18446744073709551616}',
    "5,000 digits": f'{{"a":{"9" * 5_000}}}',
    "a key twice": '{"a":1,"a":2}',
    "a key twice inside": '{"a":{"b":1,"b":2}}',
    "NUL": '{"a":"\\u0000"}',
    "NUL in a key": '{"\\u0000":1}',
    "half a surrogate": '{"a":"\\ud800"}',
    "text": '"text"',
    "number": "1",
    "bytes": '{"a":"\xff\xfe"}',
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
async def test_a_payload_that_would_break_a_list_is_stored_by_no_route(
    public: httpx.AsyncClient, engine: Engine, payload: str
):
    key = await a_key(engine, *set(Scope) - {Scope.WORK}, tenant=None)
    times = f'"type":"t","every_seconds":60,"payload":{payload}'
    schedule, definition = f'{{"name":"n",{times}}}', f"{{{times}}}"
    job = f'{{"type":"t","payload":{payload}}}'
    batch, declared = f'{{"jobs":[{job}]}}', f'{{"schedules":[{schedule}]}}'
    sent = [
        ("POST", "/v1/jobs", job),
        ("POST", "/v1/jobs:batch", batch),
        ("POST", "/v1/jobs:batch?independent=false", batch),
        ("POST", "/v1/schedules", schedule),
        ("PUT", "/v1/schedules/n", definition),
        ("PUT", "/v1/declarations", declared),
    ]

    answers = [
        await public.request(
            method, path, content=text.encode("latin-1"), headers=bearing(key, **JSON)
        )
        for method, path, text in sent
    ]
    lists = [
        (await public.get(f"/v1/{path}", headers=bearing(key, **{"longshore-tenant": "evil"})))
        for path in ("jobs", "schedules")
    ]

    assert {one.status_code for one in answers} <= {422, 200}
    assert all(one.json()["accepted"] == 0 for one in answers if one.status_code == 200)
    assert [(one.status_code, one.json()["cursor"]) for one in lists] == [(200, None)] * 2
    assert (
        await schedules.every(engine, tenant="default"),
        await engine.counts(tenant="default"),
    ) == (
        [],
        await engine.counts(tenant="nobody"),
    )


TIMES = [
    {"every_seconds": 1e308},
    {"every_seconds": 1e-9},
    {"every_seconds": -1},
    {"every_seconds": 0.1, "anchor": "0001-01-01T00:00:00Z"},
    {"every_seconds": 315_360_000, "anchor": "9999-12-31T23:59:59Z"},
    {"every_seconds": 60, "anchor": "9999-12-31T23:59:59-23:59"},
    {"every_seconds": 60, "anchor": 1e300},
    {"every_seconds": 60, "jitter_seconds": 1e300},
    {"cron": "0 0 31 2 *"},
    {"cron": "0 0 29 2 1"},
    {"cron": "* * * * *", "timezone": "../../etc/passwd"},
    {"cron": "* * * * *", "timezone": "Europe"},
    {"cron": "* " * 90},
    {"cron": "0-59/0 * * * *"},
    {"cron": "99999999999999999999 * * * *"},
    {"cron": "* * * * *", "every_seconds": 60},
    {"cron": "* * * * *", "next_due": 1},
    {"every_seconds": 60, "next_due": "9999-12-31T23:59:59Z"},
    {"every_seconds": 60, "catch_up_limit": 1 << 63},
    {"every_seconds": 60, "timeout_seconds": 1e308},
]


async def test_schedules_with_times_beyond_the_calendar_stop_nobodys(
    public: httpx.AsyncClient, engine: Engine
):
    key = await a_key(engine, *TENANT_SCOPES)
    await schedules.put(engine, a_schedule(name="good", tenant="victim", next_due=1))

    answers = [
        await public.put(
            f"/v1/schedules/{number}-{copy}", json={"type": "t", **times}, headers=bearing(key)
        )
        for number, times in enumerate(TIMES)
        # A hundred that are due at once were all that a scheduler looked at.
        for copy in range(6)
    ]
    shown = [
        await public.get(path, headers=bearing(key))
        for path in ("/v1/schedules", *(f"/v1/schedules/{one}-0/preview" for one in range(20)))
    ]
    await fire(engine, rounds=3)

    assert {one.status_code for one in answers} <= {201, 422}
    assert {one.status_code for one in shown} <= {200, 404}
    fired = (await engine.find(JobFilter(tenant="victim", type="noop"), limit=10)).jobs
    assert fired


async def fire(engine: Engine, *, rounds: int) -> None:
    """Have a scheduler look for what is due."""
    firer = Firer(engine, Service(engine).ids)
    for _ in range(rounds):
        await firer.tick()


async def test_a_worker_forges_nothing_for_jobs_that_it_does_not_hold(
    public: httpx.AsyncClient, engine: Engine, victim: Victim
):
    key = await a_key(engine, Scope.WORK, tenant=None)
    offer = {"worker": "evil", "queues": ["mine"], "types": ["t"]}
    opened = await public.post("/v1/sessions", json=offer, headers=bearing(key))
    path = f"/v1/sessions/{opened.json()['id']}"
    before = await picture(engine)
    claims = [f"{handle}.{delivery}" for handle in range(-2, 20) for delivery in range(3)]

    number, answers = 0, list[httpx.Response]()
    for verb in ("succeed", "retry", "snooze", "release", "reclaim", "kill", "cancel"):
        number += 1
        settlements = [{"claim": one, "verb": verb, "result": "forged"} for one in claims]
        body = {
            "number": number,
            "settlements": settlements,
            "started": claims,
            "progress": [{"claim": one, "fraction": 0.5} for one in claims],
        }
        answers.append(await public.post(f"{path}:exchange", json=body, headers=bearing(key)))
    renewed = await public.post(
        f"{path}:renew", json={"number": number, "held": claims}, headers=bearing(key)
    )
    histories = [
        await public.post(
            f"{path}:attempts", json={"job_id": ids.text(one)}, headers=bearing(key)
        )
        for one in victim.jobs.values()
    ]
    forged = [{"claim": one, "verb": "succeed", "result": "forged"} for one in claims]
    buried = await public.post(
        f"{path}:bury", json={"settlements": forged}, headers=bearing(key)
    )

    assert {one.status_code for one in answers} <= {200, 422}
    assert {one.status_code for one in histories} == {404}
    assert (renewed.status_code, buried.status_code) == (200, 200)
    assert buried.json() == {"settled": 0}
    everything = [*answers, *histories, renewed, buried]
    assert not any(SECRET in one.text for one in everything)
    assert await picture(engine) == before


async def test_a_workers_key_reaches_nothing_but_its_sessions(
    public: httpx.AsyncClient, engine: Engine, victim: Victim
):
    key = await a_key(engine, Scope.WORK, tenant=None, queues=("mine",), types=("mine.*",))
    before = await picture(engine)

    statuses = await attack(public, victim, bearing(key))

    assert await picture(engine) == before
    for route in ROUTES:
        if route.scope is Scope.WORK:
            assert statuses[route.name] <= {403, 410, 404, 422, 204}, route.name
        elif route.scope is not None:
            assert statuses[route.name] == {403}, route.name


@pytest.mark.parametrize(
    "offer",
    [
        {"queues": [NAME], "types": ["mine.a"]},
        {"queues": ["mine", NAME], "types": ["mine.a"]},
        {"queues": ["mine"], "types": [NAME]},
        {"queues": ["mine"], "types": ["mine"]},
        {"queues": ["mine"], "types": ["MINE.a"]},
        {"queues": ["mine"], "types": ["mine.*"]},
        {"queues": ["mine"], "types": ["*"]},
        {"queues": ["mine"], "types": []},
        {"queues": [], "types": ["mine.a"]},
        {"queues": [], "types": []},
        {"queues": ["*"], "types": ["mine.a"]},
    ],
    ids=str,
)
async def test_a_narrow_workers_key_is_never_handed_another_job(
    public: httpx.AsyncClient, engine: Engine, offer: dict[str, Any]
):
    key = await a_key(engine, Scope.WORK, tenant=None, queues=("mine",), types=("mine.*",))
    secret = b'{"secret":"%s"}' % SECRET.encode()
    await engine.submit(
        [
            a_job(tenant="victim", queue=queue, type=kind, payload=secret)
            for queue, kind in (("mine", NAME), (NAME, "mine.a"), ("mine", "mine"))
        ]
    )

    answers = [
        await public.post("/v1/sessions", json={"worker": "w", **offer}, headers=bearing(key))
    ]
    if answers[0].status_code == 201:
        path = f"/v1/sessions/{answers[0].json()['id']}:exchange"
        for number, asked in enumerate(({}, {"queues": [NAME]}, {"queues": ["mine", NAME]}), 1):
            body = {"number": number, "want": 100, **asked}
            answers.append(await public.post(path, json=body, headers=bearing(key)))

    assert all(one.status_code < 500 for one in answers)
    assert not any(SECRET in one.text for one in answers)


async def test_a_key_that_declares_reads_nothing(
    public: httpx.AsyncClient, engine: Engine, victim: Victim
):
    key = await a_key(engine, Scope.DECLARE, tenant=None)
    known = bodies(victim)

    for route in ROUTES:
        if route.scope in (None, Scope.DECLARE):
            continue
        for values in places(victim):
            for body in known.get(route.name, [None]) if route.has_body else [None]:
                answer = await public.request(
                    route.method, route.path.format(**values), json=body, headers=bearing(key)
                )
                assert answer.status_code == 403, route.name


async def test_a_tenants_key_cannot_be_made_to_declare_work_or_administer(
    public: httpx.AsyncClient, engine: Engine
):
    admin = await a_key(engine, Scope.ADMIN, tenant=None)

    made = [
        await public.post(
            "/v1/keys", json={"tenant": "evil", "scopes": scopes}, headers=bearing(admin)
        )
        for scopes in (["declare"], ["work"], ["admin"], ["submit", "admin"], [])
    ]

    assert {one.status_code for one in made} == {422}


# What makes no sense, on each route.

STRANGE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1 << 31,
    1 << 63,
    -(1 << 63) - 1,
    10**40,
    1.5,
    1e308,
    "",
    " ",
    "null",
    "\x00",
    "\u202e",
    "../..",
    "%00",
    "x" * 10_000,
    [],
    [[]],
    {},
    {"a": {"b": []}},
)
RAW = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"1",
    b'"x"',
    b"NaN",
    b"{}{}",
    b'{"a":1,"a":2}',
    b"\xff\xfe{}",
    b"\xef\xbb\xbf{}",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"number":NaN}',
    b'{"limit":1e999}',
    b'{"ids":["' + b"0" * 100_000 + b'"]}',
)


def routes_with(which: str) -> list[Any]:
    kind = {"bodies": "has_body", "queries": "query", "paths": "parameters"}[which]
    return [
        pytest.param(route, id=route.name)
        for route in ROUTES
        if route.scope is not None
        and (route.has_body if kind == "has_body" else "{" in route.path or kind == "query")
        and "Session" not in route.name[:4]
    ]


@pytest.fixture
async def operator(engine: Engine, victim: Victim) -> MintedKey:
    """Whatever its scope, nothing that it sends is a reason to fail."""
    return await a_key(engine, *Scope, tenant=None)


@pytest.mark.parametrize("route", routes_with("bodies"))
async def test_no_body_makes_a_route_fail(
    public: httpx.AsyncClient, victim: Victim, operator: MintedKey, route: Any
):
    headers = bearing(operator, **JSON)
    path = route.path.format(**{**places_of_nothing(), "name": "n", "id": "1"})
    good = bodies(victim).get(route.name, [{}])
    fields = (
        {*msgspec.structs.asdict(route.body()).keys()}
        if not route.is_body_required
        else {one.name for one in msgspec.structs.fields(route.body)}
    )
    sent = [*RAW]
    for name in sorted(fields):
        for value in STRANGE:
            sent.append(json.dumps({**good[0], name: value}).encode())
        sent.append(json.dumps({**good[0], name: 0}).replace("0}", "NaN}").encode())

    for body in sent:
        answer = await public.request(route.method, path, content=body, headers=headers)
        assert answer.status_code < 500, body[:300]


@pytest.mark.parametrize("route", routes_with("queries"))
async def test_no_parameter_makes_a_route_fail(
    public: httpx.AsyncClient, operator: MintedKey, route: Any
):
    names = {one.name for one in msgspec.structs.fields(route.query)} | {"unknown"}
    texts = [value if isinstance(value, str) else json.dumps(value) for value in STRANGE]
    cursors = ["AAAA", "gqE", "k5Kk", "4pyT", "2gAA", "3_____8", "xP8", "_w"]
    path = route.path.format(**places_of_nothing())
    fixed = queries(route.name)

    for name in sorted(names):
        for text in [*texts, "NaN", "inf", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59"]:
            params = {**fixed, name: text[:5_000]}
            if name == "follow" and text not in ("false", "0"):
                continue  # a stream that follows does not end
            answer = await public.request(
                route.method, path, params=params, headers=bearing(operator)
            )
            assert answer.status_code < 500, params
    if "cursor" in names:
        for cursor in cursors:
            answer = await public.get(
                path, params={"cursor": cursor}, headers=bearing(operator)
            )
            assert answer.status_code in (400, 404, 422), cursor


@pytest.mark.parametrize("route", routes_with("paths"))
async def test_no_name_in_a_path_makes_a_route_fail(
    public: httpx.AsyncClient, victim: Victim, operator: MintedKey, route: Any
):
    if "{" not in route.path:
        return
    known = bodies(victim).get(route.name, [{}])[0] if route.has_body else None
    strange = [value if isinstance(value, str) else json.dumps(value) for value in STRANGE]
    for text in [*strange, "%ff", "%u0000", "é", "41-9f2c", "9" * 30, "-1", "a:b:c", ":cancel"]:
        for is_quoted in (True, False):
            part = quote(text, safe="") if is_quoted else quote(text, safe="%:")
            if not part or "/" in part:
                continue
            values = dict.fromkeys(places_of_nothing(), part)
            answer = await public.request(
                route.method, route.path.format(**values), json=known, headers=bearing(operator)
            )
            assert answer.status_code < 500, part[:100]


@pytest.mark.parametrize(
    "named", ["", " ", "\t", "x" * 10_000, "a b", "é", "../x", "null", "default, default"]
)
async def test_no_name_of_a_tenant_makes_the_service_fail(
    public: httpx.AsyncClient, operator: MintedKey, named: str
):
    headers = {**bearing(operator), "longshore-tenant": named.encode("latin-1")}
    answer = await public.get("/v1/jobs", headers=headers)  # pyright: ignore[reportArgumentType]

    assert answer.status_code in (404, 422)


TEXTS = (
    "\x00",
    "a\x00b",
    "\ud800",
    "\u202e",
    "\n\r\t",
    "\x1b[2J",
    "x" * 1_000,
    "\U0010ffff",
    "\ufffe",
)


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
async def test_a_text_of_any_characters_is_stored_or_refused(
    public: httpx.AsyncClient, engine: Engine, text: str
):
    key = await a_key(engine, *TENANT_SCOPES)
    admin = await a_key(engine, Scope.ADMIN, tenant=None)
    jobs = [a_job(tenant="evil", queue=f"q{number}", delay=DAY) for number in range(3)]
    await engine.submit(jobs)
    names = [ids.text(one.id) for one in jobs]
    schedule = {"type": "t", "every_seconds": 60}
    sent = [
        ("POST", f"/v1/jobs/{names[0]}:cancel", {"reason": text}),
        ("POST", "/v1/jobs:cancel", {"ids": [names[1]], "reason": text}),
        ("POST", "/v1/jobs:cancel", {"filter": {"queue": "q2"}, "reason": text}),
        ("POST", "/v1/jobs:cancel", {"filter": {"tag": text}}),
        ("POST", "/v1/dead:purge", {"filter": {"tag": text}}),
        ("POST", "/v1/lines:release", {"queue": "q", "key": text}),
        *(
            ("POST", "/v1/jobs", {"type": "t", name: value})
            for name, value in (
                ("tags", [text]),
                ("unique_key", text),
                ("ordering_key", text),
                ("idempotency_key", text),
                ("payload", {text: text}),
            )
        ),
        ("PUT", "/v1/schedules/n", {**schedule, "tags": [text]}),
        ("POST", "/v1/schedules", {**schedule, "name": text}),
        ("POST", "/v1/webhooks", {"url": "https://8.8.4.4/", "description": text}),
        ("POST", "/v1/webhooks", {"url": f"https://8.8.4.4/{text}"}),
        ("POST", "/v1/webhooks", {"url": "https://8.8.4.4/", "types": [text]}),
        ("POST", "/v1/keys", {"tenant": None, "scopes": ["read"], "label": text}),
        ("POST", "/v1/tenants", {"name": text}),
    ]

    answers = [
        await public.request(
            method,
            path,
            content=json.dumps(body),
            headers=bearing(admin if path in ("/v1/keys", "/v1/tenants") else key, **JSON),
        )
        for method, path, body in sent
    ]
    read = [
        await public.get(path, headers=bearing(key))
        for path in ("/v1/jobs", "/v1/schedules", "/v1/webhooks", f"/v1/jobs/{names[0]}")
    ]
    read += [
        await public.get(path, headers=bearing(admin))
        for path in ("/v1/keys", "/v1/tenants", "/v1/audit", "/v1/audit/entries")
    ]

    assert [one.status_code for one in answers if one.status_code >= 500] == []
    assert {one.status_code for one in read} == {200}
    for one in read:
        one.json()


EXTREMES: tuple[dict[str, Any], ...] = (
    {"verb": "succeed", "started_at_us": 0, "finished_at_us": 0},
    {"verb": "succeed", "started_at_us": 2**53 - 1, "finished_at_us": 0},
    {"verb": "succeed", "finished_at_us": 2**53 - 1},
    {"verb": "succeed", "result_base64": ""},
    {"verb": "succeed", "result_base64": "AP//"},
    {"verb": "succeed", "started_at_us": 1, "result": "x" * 900_000},
    {"verb": "retry", "delay_us": 315_360_000_000_000, "started_at_us": 2**53 - 1},
    {"verb": "snooze", "delay_us": 315_360_000_000_000, "reason": "x" * 100_000},
    {"verb": "snooze", "delay_us": 2**53 - 1},
    {"verb": "kill", "failure": {"kind": "", "message": "", "put_off_us": 10**14}},
    {"verb": "kill", "failure": {"kind": "\u202e" * 9_999, "message": "m" * 99_999}},
    {"verb": "kill", "crash": True, "lapse": True, "charge": True, "reason": ""},
    {"verb": "reclaim", "crash": True, "failure": {"kind": "crash", "message": "m"}},
    {"verb": "release", "charge": True, "result": {"a": 1}},
    {"verb": "cancel", "reason": "\ufffe"},
)


async def test_no_end_that_a_worker_gives_a_job_breaks_what_others_read(
    public: httpx.AsyncClient, engine: Engine
):
    key = await a_key(engine, *Scope, tenant=None)
    headers = bearing(key, **JSON)
    offer = {"worker": "\u202ew", "queues": ["x"], "types": ["t"], "lease_us": 86_400_000_000}
    opened = await public.post("/v1/sessions", json=offer, headers=headers)
    path = f"/v1/sessions/{opened.json()['id']}:exchange"
    jobs = [a_job(queue="x", type="t", tenant="evil") for _ in EXTREMES]
    await engine.submit(jobs)
    claims = await public.post(path, json={"number": 1, "want": 99}, headers=headers)
    held = [one["claim"] for one in claims.json()["claims"]]
    number, answers = 1, list[httpx.Response]()

    for claim, end in zip(held, EXTREMES, strict=True):
        number += 1
        body = {
            "number": number,
            "settlements": [{"claim": claim, **end}],
            "progress": [{"claim": one, "fraction": 1, "message": "\u202e"} for one in held],
        }
        answer = await public.post(path, json=body, headers=headers)
        number -= answer.status_code != 200
        answers.append(answer)
    read = [
        await public.get(route.path, params=queries(route.name), headers=headers)
        for route in ROUTES
        if route.method == "GET" and "{" not in route.path
    ]
    read += [
        await public.get(f"/v1/jobs/{ids.text(job.id)}{part}", headers=headers)
        for job in jobs
        for part in ("", "/attempts", "/explain")
    ]

    assert {one.status_code for one in answers} <= {200, 413, 422}
    assert sum(one.status_code == 200 for one in answers) > len(EXTREMES) // 2
    assert {one.status_code for one in read} <= {200, 422, 409}


async def test_whoever_takes_the_id_of_a_deleted_job_hears_nothing_of_that_job(
    public: httpx.AsyncClient, engine: Engine, victim: Victim
):
    key = await a_key(engine, *TENANT_SCOPES)
    name = ids.text(victim.jobs["dead"])
    await engine.change("purge", [victim.jobs["dead"]], tenant="victim")
    taken = await public.post("/v1/jobs", json={"id": name, "type": "t"}, headers=bearing(key))
    await public.post(f"/v1/jobs/{name}:cancel", headers=bearing(key))

    answers = [
        await public.get(path, params=params, headers=bearing(key))
        for path, params in (
            (f"/v1/jobs/{name}/stream", {}),
            (f"/v1/jobs/{name}/stream", {"after": "0"}),
            (f"/v1/jobs/{name}/stream", {"after": "1"}),
            ("/v1/events", {**BOUNDED["followEvents"], "job_id": name}),
            (f"/v1/jobs/{name}/attempts", {}),
            (f"/v1/jobs/{name}", {}),
        )
    ]

    assert (taken.status_code, {one.status_code for one in answers}) == (201, {200})
    for answer in answers:
        assert SECRET not in answer.text
        assert NAME not in answer.text
        assert "victim" not in answer.text.replace("victims", "")
