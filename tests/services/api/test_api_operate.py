"""Dead jobs, queues, schedules, workers and stats over HTTP."""

from urllib.parse import quote

import httpx
import pytest
from api_steps import UNKNOWN

from longshore.contract import Engine, JobFilter, Retention
from longshore.core import ids
from longshore.core.job import JobId
from longshore.core.limit_settings import ENFORCED, Layer, QueueSettings
from longshore.core.state import State, Verb
from longshore.core.view import Pause
from longshore.records import pauses, queue_settings, schedules
from longshore.testing.factories import a_job, a_settlement
from longshore.testing.manual import a_worker


async def dead_jobs(engine: Engine, count: int, **options: object) -> list[JobId]:
    """Jobs that were killed."""
    jobs = [a_job(type="a", **options) for _ in range(count)]
    await engine.submit(jobs)
    queues = sorted({job.queue for job in jobs})
    session = await engine.open_session(
        worker="w", queues=queues, types=["a"], lease=30_000_000
    )
    claims = (await session.exchange(1, want=count)).claims
    settlements = [a_settlement(one, Verb.KILL, reason="poison") for one in claims]
    await session.exchange(2, settlements=settlements)
    await session.close()
    return [job.id for job in jobs]


async def states(engine: Engine) -> list[str]:
    return sorted(job.state for job in (await engine.find(JobFilter(), limit=100)).jobs)


@pytest.mark.parametrize("path", ["/v1/dead", "/dlq"])
async def test_dead_jobs_are_listed_by_filter(
    client: httpx.AsyncClient, engine: Engine, path: str
):
    wanted = await dead_jobs(engine, 2, queue="q")
    await dead_jobs(engine, 1, queue="other")
    await engine.submit([a_job(queue="q")])

    answer = await client.get(path, params={"queue": "q"})

    assert {job["id"] for job in answer.json()["jobs"]} == {ids.text(one) for one in wanted}


@pytest.mark.parametrize(
    ("replay", "show"), [("/v1/dead/{}:replay", "/v1/dead/{}"), ("/dlq/{}/requeue", "/dlq/{}")]
)
async def test_a_dead_job_is_shown_and_replayed_once(
    client: httpx.AsyncClient, engine: Engine, replay: str, show: str
):
    (job_id,) = await dead_jobs(engine, 1)
    name = ids.text(job_id)

    shown = await client.get(show.format(name))
    replayed = await client.post(replay.format(name))
    again = await client.post(replay.format(name))

    assert (shown.status_code, shown.json()["reason"]) == (200, "poison")
    assert (replayed.status_code, replayed.json()["state"]) == (200, "ready")
    assert (again.status_code, again.json()["code"]) == (409, "illegal_transition")
    assert (await client.get(show.format(name))).status_code == 409


async def test_a_dead_job_is_purged_and_an_event_tells_by_whom(
    client: httpx.AsyncClient, engine: Engine
):
    (job_id,) = await dead_jobs(engine, 1)
    alive = a_job()
    await engine.submit([alive])

    purged = await client.delete(f"/v1/dead/{ids.text(job_id)}")
    refused = await client.delete(f"/v1/dead/{ids.text(alive.id)}")
    unknown = await client.delete(f"/v1/dead/{UNKNOWN}")

    assert (purged.status_code, purged.content) == (204, b"")
    assert "content-length" not in purged.headers
    assert (refused.status_code, unknown.status_code) == (409, 404)
    assert await states(engine) == ["ready"]


async def test_dead_jobs_are_counted_and_replayed_by_filter(
    client: httpx.AsyncClient, engine: Engine
):
    await dead_jobs(engine, 3, queue="q")
    await dead_jobs(engine, 2, queue="other")
    wanted = {"filter": {"queue": "q"}}

    counted = await client.post("/v1/dead:replay", json={**wanted, "dry_run": True})
    some = await client.post("/v1/dead:replay", json={**wanted, "limit": 2})
    rest = await client.post("/dlq/retry", json={**wanted, "rate": 100})

    assert (counted.json()["matched"], counted.json()["replayed"]) == (3, 0)
    assert (some.json()["replayed"], some.json()["is_complete"]) == (2, False)
    assert (rest.json()["replayed"], rest.json()["is_complete"]) == (1, True)
    assert await states(engine) == ["dead"] * 2 + ["ready"] * 3


async def test_all_dead_jobs_are_meant_only_on_purpose(client: httpx.AsyncClient):
    refused = await client.post("/v1/dead:replay", json={})
    accepted = await client.post("/v1/dead:replay", json={"filter": {}})

    assert (refused.status_code, accepted.status_code) == (422, 200)


async def test_jobs_are_cancelled_and_retried_by_filter(
    client: httpx.AsyncClient, engine: Engine
):
    await engine.submit([a_job(queue="q", delay=60_000_000) for _ in range(3)])
    await engine.submit([a_job(queue="other")])
    mine = {"filter": {"queue": "q"}}

    counted = await client.post("/v1/jobs:retry", json={**mine, "dry_run": True})
    retried = await client.post("/v1/jobs:retry", json={**mine, "limit": 2})
    cancelled = await client.post("/v1/jobs:cancel", json={**mine, "reason": "no"})
    odd = await client.post("/v1/jobs:cancel", json={"filter": {"state": "dead"}})
    empty = await client.post("/v1/jobs:cancel", json={})

    assert (counted.json()["matched"], counted.json()["retried"]) == (3, 0)
    assert (retried.json()["retried"], retried.json()["is_complete"]) == (2, False)
    assert (cancelled.json()["cancelled"], cancelled.json()["is_complete"]) == (3, True)
    assert (odd.status_code, empty.status_code) == (422, 422)
    assert odd.json()["errors"][0]["pointer"] == "/filter/state"
    assert await states(engine) == ["cancelled"] * 3 + ["ready"]


async def test_queues_tell_how_deep_they_are(client: httpx.AsyncClient, engine: Engine):
    await engine.submit([a_job(queue="mail"), a_job(queue="mail", delay=60_000_000)])

    listed = (await client.get("/v1/queues")).json()["queues"]
    one = await client.get("/v1/queues/mail")
    none = await client.get("/v1/queues/none")

    assert [(it["queue"], it["ready"], it["scheduled"]) for it in listed] == [("mail", 1, 1)]
    assert one.json() == listed[0]
    assert (none.status_code, none.json()["code"]) == (404, "queue_not_found")


async def test_a_queue_is_paused_and_resumed(client: httpx.AsyncClient, engine: Engine):
    await engine.submit([a_job(queue="a/b:c", type="a")])
    path = "/v1/queues/a%2Fb%3Ac"

    paused = await client.post(f"{path}:pause")
    of_type = await client.post(f"{path}:pause", json={"type": "a"})
    resumed = await client.patch(path, json={"is_paused": False})
    over = await client.post(f"{path}:resume", json={"type": "a"})

    assert paused.json()["is_paused"]
    assert of_type.json()["paused_types"] == ["a"]
    assert not resumed.json()["is_paused"]
    assert over.json()["paused_types"] == []
    assert await pauses.every(engine) == []


async def test_a_type_is_paused_and_resumed_everywhere(
    client: httpx.AsyncClient, engine: Engine
):
    paused = await client.post("/v1/types/video.render:pause")
    while_paused = await pauses.every(engine)
    resumed = await client.post("/v1/types/video.render:resume")

    assert (paused.status_code, resumed.status_code) == (204, 204)
    assert while_paused == [Pause(None, "video.render")]
    assert await pauses.every(engine) == []


async def test_a_queue_that_is_too_deep_says_when_to_come_back(client: httpx.AsyncClient):
    await client.patch("/v1/queues/mail", json={"settings": {"max_depth": 1}})
    job = {"type": "noop", "queue": "mail"}

    answers = [await client.post("/v1/jobs", json=job) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [201, 429]
    assert 1 <= int(answers[1].headers["retry-after"]) <= 30  # more where counting was slow
    assert answers[1].json()["code"] == "queue_full"


async def test_a_full_queue_repeats_an_answer_and_refuses_its_own_jobs_of_a_batch(
    client: httpx.AsyncClient,
):
    await client.patch("/v1/queues/mail", json={"settings": {"max_depth": 1}})
    job, key = {"type": "noop", "queue": "mail"}, {"Idempotency-Key": "k"}
    first = await client.post("/v1/jobs", json=job, headers=key)

    again = await client.post("/v1/jobs", json=job, headers=key)
    batch = [job, {"type": "noop"}, {**job, "idempotency_key": "k"}]
    answer = await client.post("/v1/jobs:batch", json={"jobs": batch})

    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    results = answer.json()["results"]
    assert [one["status"] for one in results] == [429, 201, 200]
    assert results[0]["problem"]["code"] == "queue_full"
    assert results[2]["id"] == first.json()["id"]


async def test_settings_of_a_queue_are_patched_and_shown(
    client: httpx.AsyncClient, engine: Engine
):
    await queue_settings.put(
        engine, "mail", Layer.DECLARED, QueueSettings(max_running=10, rate=5.0)
    )
    path = "/v1/queues/mail"

    changed = await client.patch(path, json={"settings": {"max_running": 2, "burst": 7}})
    given_back = await client.patch(
        path, json={"is_paused": True, "settings": {"max_running": None}}
    )
    refused = [
        await client.patch(path, json={"settings": {field: value}})
        for field, value in {"max_running": 0, "order": "any", "max_runing": 1}.items()
    ]
    ordered = await client.patch(
        path, json={"settings": {"order": "aging", "aging_seconds": 1.5}}
    )

    nothing = dict.fromkeys({*ENFORCED, "aging_seconds"} - {"aging"})
    whole = {**nothing, "max_running": 2, "rate": 5.0, "burst": 7}
    assert changed.json()["settings"] == whole
    assert changed.json()["overridden"] == {**nothing, "max_running": 2, "burst": 7}
    assert given_back.json()["settings"] == {**whole, "max_running": 10}
    assert given_back.json()["is_paused"]
    assert given_back.json()["overridden"] == {**nothing, "burst": 7}
    assert [answer.status_code for answer in refused] == [422] * 3
    settings = ordered.json()["settings"]
    assert (settings["order"], settings["aging_seconds"]) == ("aging", 1.5)


SCHEDULE = {"name": "night/ly", "type": "report", "cron": "0 3 * * *", "payload": {"n": 1}}


async def test_a_schedule_is_created_looked_at_changed_and_deleted(
    client: httpx.AsyncClient, engine: Engine
):
    created = await client.post("/v1/schedules", json={**SCHEDULE, "timezone": "Europe/Berlin"})
    path = created.headers["location"]
    again = await client.post("/v1/schedules", json=SCHEDULE)
    shown = await client.get(path)
    changed = await client.patch(path, json={"every_seconds": 30, "priority": 1})
    (stored,) = await schedules.every(engine)
    deleted = await client.delete(path)
    gone = await client.get(path)

    assert (created.status_code, path) == (201, "/v1/schedules/night%2Fly")
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")
    assert shown.json().items() >= created.json().items()
    assert (shown.json()["last_job_state"], len(shown.json()["coming"])) == (None, 5)
    assert shown.json()["coming"][0]["due"] == created.json()["next_due"]
    assert (changed.json()["cron"], changed.json()["every_seconds"]) == (None, 30)
    assert (stored.every, stored.priority, stored.payload) == (30_000_000, 1, b'{"n":1}')
    assert (deleted.status_code, gone.status_code) == (204, 404)


async def test_a_schedule_is_paused_resumed_run_and_previewed(
    client: httpx.AsyncClient, engine: Engine
):
    path = (await client.post("/v1/schedules", json=SCHEDULE)).headers["location"]

    paused = await client.post(f"{path}:pause")
    resumed = await client.post(f"{path}:resume")
    run = await client.post(f"{path}:run")
    coming = await client.get(f"{path}/preview?count=2&after=2030-01-01T00:00:00Z")

    assert (paused.json()["is_paused"], resumed.json()["is_paused"]) == (True, False)
    job = await engine.get(ids.parse(run.json()["id"]))
    assert (run.status_code, job.type, job.state) == (201, "report", State.READY)
    assert [one["due"] for one in coming.json()["due"]] == [
        "2030-01-01T03:00:00Z",
        "2030-01-02T03:00:00Z",
    ]


async def test_times_can_be_tried_before_they_are_stored(client: httpx.AsyncClient):
    asked = {
        "cron": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "after": "2027-03-27T12:00:00Z",
        "count": 1,
    }

    answer = await client.post("/v1/schedules:preview", json=asked)

    assert answer.json() == {
        "timezone": "Europe/Berlin",
        "due": [
            {
                "due": "2027-03-28T01:00:00Z",
                "local": "2027-03-28T03:00:00+02:00",
                "quirk": "gap",
            }
        ],
    }


async def test_a_schedule_is_put_as_a_whole_as_often_as_one_likes(client: httpx.AsyncClient):
    body = {name: value for name, value in SCHEDULE.items() if name != "name"}
    path = "/v1/schedules/night%2Fly"

    made = await client.put(path, json=body | {"priority": 1})
    again = await client.put(path, json=body | {"priority": 1})
    await client.post(f"{path}:pause")
    replaced = await client.put(path, json=body | {"tags": ["a"]})
    named = await client.put(path, json=SCHEDULE)

    assert (made.status_code, made.headers["location"]) == (201, path)
    assert (again.status_code, again.content) == (200, made.content)
    told = replaced.json()
    assert (told["name"], told["priority"], told["tags"]) == ("night/ly", 5, ["a"])
    assert told["is_paused"]
    assert told["next_due"] is None
    assert (named.status_code, named.json()["errors"][0]["pointer"]) == (422, "/name")


async def test_due_times_at_the_end_of_the_calendar_are_told(client: httpx.AsyncClient):
    asked = {"every_seconds": 60, "timezone": "Asia/Tokyo", "after": "9999-12-31T23:57:30Z"}

    answer = await client.post("/v1/schedules:preview", json=asked)

    assert answer.json()["due"][0]["due"] == "9999-12-31T23:58:00Z"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"cron": "nonsense"}, "/cron"),
        ({"cron": "0 0 30 2 *"}, "/cron"),
        ({"timezone": "Mars/Olympus"}, "/timezone"),
        ({"timezone": "../../etc/passwd"}, "/timezone"),
        ({"every_seconds": 5}, "/cron"),
        ({"cron": None}, "/cron"),
        ({"cron": None, "every_seconds": 0}, "/every_seconds"),
        ({"type": "a b"}, "/type"),
        ({"name": "a\u0000b"}, "/name"),
        ({"anchor": "2030-01-01T00:00:00Z"}, "/anchor"),
        ({"payload": {"x": "\u0000"}}, "/payload/x"),
    ],
)
async def test_a_schedule_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, change: dict[str, object], pointer: str
):
    body = {**SCHEDULE, **change}
    answer = await client.post("/v1/schedules", json=body)
    name = quote(str(body.pop("name")), safe="")
    put = await client.put(f"/v1/schedules/{name}", json=body)

    assert (answer.status_code, put.status_code) == (422, 422)
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert put.json()["errors"][0]["pointer"] in (pointer, "name")


async def test_workers_are_listed_and_asked_to_drain(client: httpx.AsyncClient, engine: Engine):
    session = await engine.open_session(
        worker="w", queues=["default"], types=["a"], lease=30_000_000
    )

    listed = (await client.get("/v1/workers")).json()["workers"]
    drained = await client.post(f"/v1/workers/{session.token}:drain")
    unknown = await client.post("/v1/workers/999999:drain")

    assert [(one["token"], one["worker"], one["is_quiet"]) for one in listed] == [
        (session.token, "w", False)
    ]
    assert (drained.status_code, drained.json()["is_quiet"]) == (202, True)
    assert unknown.status_code == 404
    await session.close()


@pytest.mark.parametrize("path", ["/stats", "/v1/stats"])
async def test_stats_tell_depth_and_age(client: httpx.AsyncClient, engine: Engine, path: str):
    await dead_jobs(engine, 1, queue="q")
    await engine.submit([a_job(queue="q"), a_job(queue="other")])

    everything = (await client.get(path)).json()
    one = (await client.get(path, params={"queue": "q"})).json()

    assert (everything["ready"], everything["dead"]) == (2, 1)
    assert (one["ready"], one["dead"], one["running"]) == (1, 1, 0)
    assert one["oldest_age_s"] >= 0
    assert everything["throughput"] is None
    assert one["throughput"] == 0
    assert (await client.get(path)).json()["throughput"] == 0


async def test_stats_count_what_ended_and_was_pruned_since(
    client: httpx.AsyncClient, engine: Engine
):
    await engine.submit([a_job(queue="q", type="other")])
    await client.get("/v1/stats")
    await dead_jobs(engine, 3, queue="q")
    await engine.prune(Retention(dead=0), limit=100)

    stats = (await client.get("/v1/stats", params={"queue": "q"})).json()

    assert stats["dead"] == 0
    assert stats["throughput"] > 0


async def test_workers_that_crashed_with_jobs_are_counted(
    client: httpx.AsyncClient, engine: Engine
):
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    await worker.claim(2)
    before = (await client.get("/v1/workers")).json()
    await engine.end_session(worker.session.token, [])

    after = (await client.get("/v1/workers")).json()

    assert before["crashes"] == {"workers": 0, "jobs": 0}
    assert after == {"workers": [], "cursor": None, "crashes": {"workers": 1, "jobs": 2}}


async def test_queues_tell_what_was_pruned(client: httpx.AsyncClient, engine: Engine):
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    for claim in await worker.claim(1):
        await worker.succeed(claim)
    await engine.prune(Retention(succeeded=0), limit=9)

    (queue,) = (await client.get("/v1/queues")).json()["queues"]

    assert (queue["ready"], queue["succeeded"], queue["pruned"]) == (1, 0, 1)


async def test_queues_are_estimated_only_for_whoever_asks_for_it(
    client: httpx.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    for name in ("sqlite", "postgres"):
        monkeypatch.setattr(f"longshore.engines.{name}.job_counts._BOUND", 20)
        monkeypatch.setattr(f"longshore.engines.{name}.job_counts._LEAST", 5)
    for _ in range(60):
        await engine.submit([a_job()])

    (exact,) = (await client.get("/v1/queues")).json()["queues"]
    query = {"may_estimate": "true", "limit": "1"}
    (estimate,) = (await client.get("/v1/queues", params=query)).json()["queues"]

    assert (exact["ready"], exact["is_estimate"]) == (60, False)
    assert estimate["is_estimate"]


async def test_pauses_are_listed_whether_anything_waits_or_not(client: httpx.AsyncClient):
    await client.post("/v1/queues/mail:pause", json={"type": "mail.send"})
    await client.post("/v1/queues/idle:pause")
    await client.post("/v1/types/report:pause")

    found = (await client.get("/v1/pauses")).json()

    assert found == {
        "pauses": [
            {"queue": None, "type": "report"},
            {"queue": "idle", "type": None},
            {"queue": "mail", "type": "mail.send"},
        ],
        "cursor": None,
    }
