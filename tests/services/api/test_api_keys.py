"""Keys, scopes, tenants and quotas: who may ask what over HTTP, and how much."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx
import pytest
from api_steps import UNKNOWN, asking, shown
from msgspec.structs import replace

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.problems import ProblemError
from longshore.api.quotas import Quotas
from longshore.api.routes import ROUTES
from longshore.contract import Engine, JobFilter
from longshore.contract.forwarding import ForwardingEngine
from longshore.contract.records import Found, Ref
from longshore.core import ids
from longshore.core.account import NewKey, Scope, Tenant
from longshore.engines import open_engine
from longshore.operations import deliveries
from longshore.records import api_keys, schedules, tenants
from longshore.runtime.clock import ManualClock, SystemClock
from longshore.runtime.keys import MintedKey, mint
from longshore.testing.factories import SECOND, a_job, a_schedule
from longshore.testing.flaky import FlakyEngine
from longshore.testing.harness import eventually

TENANTS = (Scope.SUBMIT, Scope.READ, Scope.OPERATE)


async def a_key(engine: Engine, *scopes: Scope, tenant: str | None = "acme") -> MintedKey:
    minted = mint()
    await tenants.create(engine, Tenant(name="acme"))
    await api_keys.add(
        engine,
        NewKey(id=minted.id, digest=minted.digest, tenant=tenant, scopes=scopes or TENANTS),
    )
    return minted


def bearing(key: MintedKey | str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key if isinstance(key, str) else key.text}"}


@pytest.fixture
async def public(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    """A service that the world can reach."""
    async with asking(Application(Service(engine), is_local=False)) as opened:
        yield opened


async def test_a_key_opens_its_tenant(public: httpx.AsyncClient, engine: Engine):
    key = await a_key(engine)

    answer = await public.post("/v1/jobs", json={"type": "a"}, headers=bearing(key))

    assert (answer.status_code, answer.json()["tenant"]) == (201, "acme")
    assert (await engine.get(ids.parse(answer.json()["id"]))).tenant == "acme"


async def test_every_route_but_those_that_tell_of_the_service_needs_a_key(
    public: httpx.AsyncClient,
):
    free = {route.path for route in ROUTES if route.scope is None}
    for route in ROUTES:
        other = {"endpoint": "wh_" + "0" * 24, "delivery": UNKNOWN}
        path = route.path.format(
            id=UNKNOWN, queue="q", type="x", name="n", token=1, tenant="t", **other
        )
        answer = await public.request(route.method, path)

        assert (answer.status_code == 401) is (route.scope is not None), route.path
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"] == "Bearer"
    assert free == {"/healthz", "/readyz", "/openapi.json", "/docs"}


class Counting(ForwardingEngine):
    """An engine whose reads of records are counted."""

    reads = 0

    async def get_records(self, refs: Sequence[Ref], *, with_tenants: bool = False) -> Found:
        self.reads += 1
        return await self._inner.get_records(refs, with_tenants=with_tenants)


async def test_a_request_is_admitted_by_one_read_of_key_and_tenant(engine: Engine):
    first, second = [await a_key(engine) for _ in range(2)]
    counting = Counting(engine)

    async with asking(Application(Service(counting))) as client:
        # A service on loopback has also to see, once, that there are keys.
        await client.get("/v1/jobs", headers=bearing(first))
        before = counting.reads
        answer = await client.get("/v1/jobs", headers=bearing(second))
        reads = counting.reads - before
        await client.get("/v1/jobs", headers=bearing(second))

    assert (answer.status_code, reads) == (200, 1)
    assert counting.reads == before + 1


async def test_keys_that_are_no_good_are_refused_alike(
    public: httpx.AsyncClient, engine: Engine
):
    good, revoked, expired = [await a_key(engine) for _ in range(3)]
    await api_keys.revoke(engine, revoked.id)
    short = mint()
    await api_keys.add(
        engine,
        NewKey(id=short.id, digest=short.digest, tenant="acme", scopes=TENANTS, lifetime=1),
    )
    await tenants.create(engine, Tenant(name="shut"))
    shut = await a_key(engine, tenant="shut")
    await tenants.change(engine, "shut", lambda seen: replace(seen, is_disabled=True))
    other = mint(good.id)

    presented = [mint().text, other.text, revoked.text, short.text, shut.text, "nonsense"]
    answers = [await public.get("/v1/jobs", headers=bearing(one)) for one in presented]

    assert {one.status_code for one in answers} == {401}
    assert len({one.content for one in answers}) == 1
    assert len({str(shown(one)) for one in answers}) == 1
    assert (await public.get("/v1/jobs", headers=bearing(expired))).status_code == 200


async def test_a_scope_allows_what_it_says_and_no_more(
    public: httpx.AsyncClient, engine: Engine
):
    keys = {scope: await a_key(engine, scope) for scope in TENANTS}

    async def status(scope: Scope, method: str, path: str) -> int:
        body = {"type": "a"} if method == "POST" else None
        answer = await public.request(method, path, json=body, headers=bearing(keys[scope]))
        return answer.status_code

    assert await status(Scope.SUBMIT, "POST", "/v1/jobs") == 201
    assert await status(Scope.SUBMIT, "GET", "/v1/jobs") == 403
    assert await status(Scope.READ, "GET", "/v1/jobs") == 200
    assert await status(Scope.READ, "POST", "/v1/jobs") == 403
    assert await status(Scope.OPERATE, "DELETE", f"/v1/dead/{UNKNOWN}") == 404
    assert await status(Scope.READ, "DELETE", f"/v1/dead/{UNKNOWN}") == 403


async def test_a_key_of_one_tenant_may_not_touch_what_concerns_all(
    public: httpx.AsyncClient, engine: Engine
):
    key = await a_key(engine)
    operator = await a_key(engine, Scope.OPERATE, Scope.READ, tenant=None)

    for method, path in (("POST", "/v1/queues/q:pause"), ("GET", "/v1/workers")):
        refused = await public.request(method, path, headers=bearing(key))
        allowed = await public.request(method, path, headers=bearing(operator))

        assert (refused.status_code, allowed.status_code) == (403, 200)


async def test_what_belongs_to_another_tenant_looks_like_nothing_at_all(
    public: httpx.AsyncClient, engine: Engine
):
    key = await a_key(engine)
    foreign, ready = a_job(tenant="other", queue="theirs"), a_job(tenant="other")
    await engine.submit([foreign, ready])
    await engine.change("cancel", [foreign.id], reason="x")
    await schedules.put(engine, a_schedule(name="theirs", tenant="other"))
    await tenants.create(engine, Tenant(name="other"))
    _, hook = await deliveries.create(engine, tenant="other", url="https://theirs.example/")
    names = {"id": ids.text(foreign.id), "queue": "theirs", "name": "theirs"}
    names |= {"endpoint": hook.id, "delivery": names["id"]}
    nothing = {"id": UNKNOWN, "queue": "missing", "name": "missing"}
    nothing |= {"endpoint": "wh_" + "0" * 24, "delivery": UNKNOWN}
    asked = 0
    for route in ROUTES:
        if route.scope not in TENANTS or route.is_fleetwide or "{" not in route.path:
            continue
        if route.method == "PUT":
            # What is put under a name is the caller's own, whoever else has one of that name.
            continue
        if route.name == "getLine":
            continue  # an ordering key without jobs has an empty line, whoever else uses it
        body = b"{}" if route.has_body else b""
        kind = {"Content-Type": "application/json"} if body else {}
        theirs, missing = [
            await public.request(
                route.method,
                route.path.format(**which),
                content=body,
                headers={**bearing(key), **kind},
            )
            for which in (names, nothing)
        ]

        assert theirs.status_code == 404, route.path
        assert (theirs.content, shown(theirs)) == (missing.content, shown(missing))
        asked += 1
    assert asked >= 15
    for path in ("/v1/jobs", "/v1/dead", "/v1/queues", "/v1/schedules", "/v1/webhooks"):
        answer = await public.get(path, headers=bearing(key))
        assert "theirs" not in answer.text
        assert ids.text(foreign.id) not in answer.text


async def test_a_schedule_is_put_beside_that_of_another_tenant_of_the_same_name(
    public: httpx.AsyncClient, engine: Engine
):
    key = await a_key(engine)
    await schedules.put(engine, a_schedule(name="nightly", tenant="other", type="theirs"))
    body = {"type": "own", "every_seconds": 60}

    answer = await public.put("/v1/schedules/nightly", json=body, headers=bearing(key))

    assert (answer.status_code, answer.json()["tenant"]) == (201, "acme")
    assert {(one.tenant, one.type) for one in await schedules.every(engine)} == {
        ("acme", "own"),
        ("other", "theirs"),
    }


async def test_tenants_do_not_share_idempotency_keys(public: httpx.AsyncClient, engine: Engine):
    await tenants.create(engine, Tenant(name="b"))
    first, second = await a_key(engine), await a_key(engine, tenant="b")

    answers = [
        await public.post(
            "/v1/jobs", json={"type": "a"}, headers={**bearing(key), "Idempotency-Key": "k"}
        )
        for key in (first, second)
    ]

    assert [one.status_code for one in answers] == [201, 201]


async def test_an_operator_speaks_for_whom_it_names(public: httpx.AsyncClient, engine: Engine):
    operator = bearing(await a_key(engine, *TENANTS, tenant=None))
    named = {**operator, "Longshore-Tenant": "acme"}
    own = bearing(await a_key(engine))

    await public.post("/v1/jobs", json={"type": "a"}, headers=named)
    await public.post("/v1/jobs", json={"type": "a"}, headers=operator)
    same = await public.post(
        "/v1/jobs", json={"type": "a"}, headers={**own, "Longshore-Tenant": "acme"}
    )

    everything = (await public.get("/v1/jobs", headers=operator)).json()["jobs"]
    assert sorted(job["tenant"] for job in everything) == ["acme", "acme", "default"]
    assert len((await public.get("/v1/jobs", headers=named)).json()["jobs"]) == 2
    assert same.json()["tenant"] == "acme"


@pytest.mark.parametrize("named", ["b", "nobody", "default"])
async def test_a_key_of_a_tenant_does_not_speak_for_another(
    public: httpx.AsyncClient, engine: Engine, named: str
):
    await tenants.create(engine, Tenant(name="b"))
    headers = {**bearing(await a_key(engine)), "Longshore-Tenant": named}

    answers = [
        await public.post("/v1/jobs", json={"type": "a"}, headers=headers),
        await public.get("/v1/jobs", headers=headers),
    ]

    # The same whether there is such a tenant or not.
    assert {(one.status_code, one.json()["code"]) for one in answers} == {(403, "forbidden")}
    assert {one.json()["detail"] for one in answers} == {
        "The tenant that Longshore-Tenant names is another than the key's own."
    }
    assert (await engine.find(JobFilter(), limit=1)).jobs == []


async def test_a_tenant_that_is_not_there_cannot_be_spoken_for(engine: Engine):
    clock = ManualClock(SystemClock().now())
    local = Application(Service(engine, clock=clock))
    nobody = {"Longshore-Tenant": "nobody"}
    async with asking(local) as client:
        keyless = await client.post("/v1/jobs", json={"type": "a"}, headers=nobody)
        operator = bearing(await a_key(engine, *TENANTS, tenant=None))
        clock.advance(6_000_000)
        headers = {**operator, **nobody}
        answers = [
            keyless,
            await client.post("/v1/jobs", json={"type": "a"}, headers=headers),
            await client.get("/v1/jobs", headers=headers),
        ]
        await tenants.create(engine, Tenant(name="nobody"))
        created = await client.post("/v1/jobs", json={"type": "a"}, headers=headers)
        default = await client.get(
            "/v1/jobs", headers={**operator, "Longshore-Tenant": "default"}
        )

    assert {(one.status_code, one.json()["code"]) for one in answers} == {
        (404, "tenant_not_found")
    }
    assert (created.status_code, default.status_code) == (201, 200)
    assert [one.tenant for one in (await engine.find(JobFilter(), limit=9)).jobs] == ["nobody"]


async def test_without_keys_this_machine_may_ask_and_with_the_first_key_no_longer(
    engine: Engine,
):
    clock = ManualClock(SystemClock().now())
    application = Application(Service(engine, clock=clock))
    async with asking(application) as client:
        before = await client.get("/v1/jobs")
        key = await a_key(engine)
        clock.advance(6_000_000)
        after = await client.get("/v1/jobs")
        with_key = await client.get("/v1/jobs", headers=bearing(key))

    assert [one.status_code for one in (before, after, with_key)] == [200, 401, 200]


async def test_a_revoked_key_is_refused_within_seconds(engine: Engine):
    clock = ManualClock(SystemClock().now())
    key = await a_key(engine)
    async with asking(Application(Service(engine, clock=clock))) as client:
        before = await client.get("/v1/jobs", headers=bearing(key))
        await api_keys.revoke(engine, key.id)
        clock.advance(6_000_000)
        after = await client.get("/v1/jobs", headers=bearing(key))

    assert (before.status_code, after.status_code) == (200, 401)


async def test_an_address_that_guesses_keys_has_to_wait_and_others_do_not(memory: Engine):
    clock = ManualClock(SystemClock().now())
    good = await a_key(memory)
    application = Application(Service(memory, clock=clock))
    elsewhere = httpx.ASGITransport(application, client=("192.0.2.1", 1))
    async with (
        asking(application) as client,
        httpx.AsyncClient(transport=elsewhere, base_url="http://x") as other,
    ):
        assert (await client.get("/v1/jobs", headers=bearing(good))).status_code == 200
        guesses = [await client.get("/v1/jobs", headers=bearing(mint())) for _ in range(12)]
        known = await client.get("/v1/jobs", headers=bearing(good))
        theirs = await other.get("/v1/jobs", headers=bearing(mint()))
        clock.advance(6_000_000)
        later = await client.get("/v1/jobs", headers=bearing(mint()))
        # The service has to look it up again, and the address has no guess left.
        trusted = await client.get("/v1/jobs", headers=bearing(good))

    assert [one.status_code for one in guesses] == [401] * 10 + [429] * 2
    assert guesses[-1].json()["violated-policies"] == ["wrong-keys"]
    assert 1 <= int(guesses[-1].headers["retry-after"]) <= 6
    assert (known.status_code, theirs.status_code, later.status_code) == (200, 401, 401)
    assert trusted.status_code == 200


async def test_wrong_keys_of_an_address_never_lock_out_a_valid_one(memory: Engine):
    clock = ManualClock(SystemClock().now())
    # Never used before, so that the service has not heard of them.
    fresh, other, ended = [await a_key(memory) for _ in range(3)]
    await api_keys.revoke(memory, ended.id)
    # The right id with another secret.
    forged = mint(other.id)
    async with asking(Application(Service(memory, clock=clock))) as client:
        guesses = [await client.get("/v1/jobs", headers=bearing(mint())) for _ in range(30)]
        valid = await client.get("/v1/jobs", headers=bearing(fresh))
        wrong = [await client.get("/v1/jobs", headers=bearing(one)) for one in (forged, ended)]
        nonsense = await client.get("/v1/jobs", headers={"Authorization": "Bearer x"})
        flood, among = await asyncio.gather(
            asyncio.gather(
                *[client.get("/v1/jobs", headers=bearing(mint())) for _ in range(100)]
            ),
            client.get("/v1/jobs", headers=bearing(other)),
        )

    assert [one.status_code for one in guesses] == [401] * 10 + [429] * 20
    assert (valid.status_code, among.status_code) == (200, 200)
    assert [one.status_code for one in (*wrong, nonsense)] == [429] * 3
    assert {one.status_code for one in flood} == {429}


async def limited(engine: Engine, **facts: object) -> dict[str, str]:
    key = await a_key(engine)
    await tenants.change(engine, "acme", lambda seen: replace(seen, **facts))
    return bearing(key)


async def test_a_tenant_submits_as_much_as_its_quota_holds(
    public: httpx.AsyncClient, engine: Engine
):
    key = await limited(engine, rate=0.01, burst=5)

    async def post(count: int) -> httpx.Response:
        jobs = {"jobs": [{"type": "a"}] * count}
        return await public.post("/v1/jobs:batch", json=jobs, headers=key)

    first, refused, rest = await post(3), await post(3), await post(2)
    one = await public.post("/v1/jobs", json={"type": "a"}, headers=key)
    never = await post(6)

    assert [it.status_code for it in (first, refused, rest, one)] == [200, 429, 200, 429]
    assert first.headers["ratelimit-policy"] == '"tenant";q=5;w=500'
    assert first.headers["ratelimit"].startswith('"tenant";r=2;')
    assert refused.json()["type"].endswith("#quota-exceeded")
    assert refused.json()["violated-policies"] == ["tenant"]
    assert int(one.headers["retry-after"]) >= 99
    assert (never.status_code, never.json()["most_jobs"]) == (422, 5)
    (flaw,) = never.json()["errors"]
    assert flaw["pointer"] == "/jobs"
    assert flaw["detail"].startswith("has 6 jobs; send at most 5 in one request")


async def test_processes_together_do_not_exceed_a_quota(engine: Engine):
    key = await limited(engine, rate=0.01, burst=40)
    services = [Application(Service(engine), is_local=False) for _ in range(4)]
    clients = [asking(one) for one in services]

    answers = await asyncio.gather(
        *[
            clients[number % 4].post("/v1/jobs", json={"type": "a"}, headers=key)
            for number in range(80)
        ]
    )

    assert sum(one.status_code == 201 for one in answers) == 40
    for client in clients:
        await client.aclose()


async def test_a_large_call_is_not_refused_for_what_a_small_one_spent_meanwhile(
    tmp_path: Path,
):
    clock = ManualClock()
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
    await engine.migrate()
    flaky = FlakyEngine(engine)
    quotas, tenant = Quotas(flaky), Tenant(name="acme", rate=1.0, burst=40)
    await engine.borrow("submit:acme", rate=1.0, burst=40, want=30)
    with pytest.raises(ProblemError):
        await quotas.spend(tenant, 20)  # ten are borrowed, and stay in the purse
    clock.advance(40 * SECOND)
    flaky.hang()

    large = asyncio.create_task(quotas.spend(tenant, 30))
    await eventually(lambda: flaky.calls.count("borrow") == 2)
    await quotas.spend(tenant, 5)
    flaky.come_back()

    await large
    await engine.close()


async def test_a_tenant_may_ask_for_keys(public: httpx.AsyncClient, engine: Engine):
    key = await limited(engine, requires_idempotency_key=True)

    without = await public.post("/v1/jobs", json={"type": "a"}, headers=key)
    with_key = await public.post(
        "/v1/jobs", json={"type": "a"}, headers={**key, "Idempotency-Key": "k"}
    )
    batch = await public.post(
        "/v1/jobs:batch",
        json={"jobs": [{"type": "a"}, {"type": "a", "idempotency_key": "b"}]},
        headers=key,
    )

    assert (without.status_code, without.json()["code"]) == (400, "key_required")
    assert with_key.status_code == 201
    assert [one["status"] for one in batch.json()["results"]] == [400, 201]


async def test_tenants_are_managed_over_http(client: httpx.AsyncClient, engine: Engine):
    made = await client.post("/v1/tenants", json={"name": "acme", "rate": 5})
    again = await client.post("/v1/tenants", json={"name": "acme"})
    changed = await client.patch(
        "/v1/tenants/acme", json={"rate": None, "is_disabled": True, "weight": 3}
    )
    listed = await client.get("/v1/tenants")
    bad = await client.patch("/v1/tenants/acme", json={"burst": 5})
    await engine.submit([a_job(tenant="acme")])
    used = await client.delete("/v1/tenants/acme")
    unknown = await client.get("/v1/tenants/nobody")
    await client.post("/v1/tenants", json={"name": "empty"})
    gone = await client.delete("/v1/tenants/empty")
    always = await client.delete("/v1/tenants/default")

    assert (made.status_code, made.json()["rate"]) == (201, 5)
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")
    assert (changed.json()["rate"], changed.json()["is_disabled"]) == (None, True)
    assert (made.json()["weight"], changed.json()["weight"]) == (1, 3)
    assert [one["name"] for one in listed.json()["tenants"]] == ["acme", "default"]
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "/burst")
    assert (used.status_code, used.json()["code"]) == (409, "tenant_in_use")
    assert (unknown.status_code, gone.status_code, always.status_code) == (404, 204, 422)
    assert listed.json()["tenants"][1]["created_at"] is None


async def test_keys_are_made_rotated_and_revoked_over_http(engine: Engine):
    clock = ManualClock(SystemClock().now())
    async with asking(Application(Service(engine, clock=clock))) as client:
        made = await client.post("/v1/keys", json={"tenant": None, "scopes": [*Scope]})
        operator = bearing(made.json()["key"])
        key_id = made.json()["about"]["id"]
        clock.advance(6_000_000)
        listed = await client.get("/v1/keys", headers=operator)
        rotated = await client.post(
            f"/v1/keys/{key_id}:rotate", json={"grace_seconds": 0}, headers=operator
        )
        renewed = bearing(rotated.json()["key"])
        clock.advance(6_000_000)
        old = await client.get("/v1/keys", headers=operator)
        bad = await client.post(
            "/v1/keys", json={"tenant": "default", "scopes": ["admin"]}, headers=renewed
        )
        revoked = await client.delete(f"/v1/keys/{key_id}", headers=renewed)
        clock.advance(6_000_000)
        ended = await client.get("/v1/keys", headers=renewed)

    assert made.status_code == 201
    assert [(one["id"], one["state"]) for one in listed.json()["keys"]] == [(key_id, "live")]
    assert made.json()["key"] not in listed.text
    assert (rotated.status_code, old.status_code) == (200, 401)
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "/scopes")
    assert revoked.json()["revoked_at"] is not None
    assert revoked.json()["state"] == "revoked"
    assert ended.status_code == 401


async def test_the_use_of_a_key_is_noted(engine: Engine):
    key = await a_key(engine)
    application = Application(Service(engine))
    async with asking(application) as client:
        await client.get("/v1/jobs", headers=bearing(key))

    await application.admission.note_uses()

    (stored,) = await api_keys.every(engine)
    assert stored.last_used_at is not None


async def test_a_service_that_had_a_key_never_opens_again(engine: Engine):
    key = await a_key(engine)
    async with asking(Application(Service(engine))) as before:
        closed = await before.get("/v1/jobs")
        await tenants.delete(engine, "acme")
        gone = await before.get("/v1/jobs")
    async with asking(Application(Service(engine))) as after:
        again, with_key = (
            await after.get("/v1/jobs"),
            await after.get("/v1/jobs", headers=bearing(key)),
        )

    assert await api_keys.every(engine) == []
    assert [one.status_code for one in (closed, gone, again, with_key)] == [401] * 4


async def test_the_first_key_closes_other_processes_within_a_second(engine: Engine, store: str):
    clock = ManualClock()
    other = open_engine(store)
    try:
        async with asking(Application(Service(other, clock=clock))) as client:
            open_still = await client.get("/v1/jobs")
            await a_key(engine)
            clock.advance(SECOND)
            closed = await client.get("/v1/jobs")
            clock.advance(-100 * SECOND)
            closed_for_good = await client.get("/v1/jobs")
    finally:
        await other.close()

    assert [one.status_code for one in (open_still, closed, closed_for_good)] == [200, 401, 401]


async def test_a_clock_that_is_set_back_does_not_keep_a_service_open(engine: Engine):
    clock = ManualClock()
    async with asking(Application(Service(engine, clock=clock))) as client:
        assert (await client.get("/v1/jobs")).status_code == 200
        await a_key(engine)
        clock.advance(-100 * SECOND)

        assert (await client.get("/v1/jobs")).status_code == 401


@pytest.mark.parametrize(
    "header",
    [
        "Forwarded",
        "Via",
        "X-Real-IP",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "x-forwarded-proto",
    ],
)
async def test_what_a_proxy_passes_on_needs_a_key(memory: Engine, header: str):
    async with asking(Application(Service(memory))) as client:
        answer = await client.get("/v1/jobs", headers={header: "1.2.3.4"})
        key = await a_key(memory)
    async with asking(Application(Service(memory))) as client:
        with_key = await client.get("/v1/jobs", headers={header: "1.2.3.4", **bearing(key)})

    assert (answer.status_code, answer.json()["code"]) == (403, "forwarded")
    assert with_key.status_code == 200
