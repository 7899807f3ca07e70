from typing import Any

import pytest

from longshore.contract import Engine, JobFilter, QueueCounts, SessionView
from longshore.core import ids
from longshore.core.job import Attempt, Failure, JobId
from longshore.core.state import State
from longshore.errors import ConfigError, JobNotFoundError
from longshore.records import pauses
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import a_job_that_is
from longshore.testing.factories import HOUR, MINUTE, SECOND, a_job, an_id
from longshore.testing.manual import LEASE, a_worker, reclaim_lapsed


async def test_an_unknown_job_is_not_found(engine: Engine) -> None:
    unknown = an_id()

    with pytest.raises(JobNotFoundError) as caught:
        await engine.get(unknown)
    with pytest.raises(JobNotFoundError):
        await engine.attempts(unknown)

    assert caught.value.job_id == ids.text(unknown)


async def test_another_tenants_job_is_as_if_it_did_not_exist(engine: Engine) -> None:
    new = a_job(tenant="acme")
    await engine.submit([new])

    with pytest.raises(JobNotFoundError) as other:
        await engine.get(new.id, tenant="other")
    with pytest.raises(JobNotFoundError):
        await engine.attempts(new.id, tenant="other")

    assert str(other.value) == str(JobNotFoundError(ids.text(new.id)))
    assert (await engine.get(new.id, tenant="acme")).id == new.id


async def test_jobs_are_listed_newest_first(engine: Engine, clock: ManualClock) -> None:
    jobs = [a_job(priority=priority) for priority in (1, 9, 5)]
    for job in jobs:
        await engine.submit([job])
        clock.advance(SECOND)

    page = await engine.find(JobFilter(), limit=10)

    assert [job.id for job in page.jobs] == [job.id for job in reversed(jobs)]
    assert page.jobs[0] == await engine.get(jobs[-1].id)
    assert page.cursor is None


@pytest.mark.parametrize(
    "which",
    [
        {"tenant": "acme"},
        {"queue": "mail"},
        {"type": "email.send"},
        {"state": State.CANCELLED},
        {"tag": "blue"},
        {"tenant": "acme", "queue": "mail", "tag": "blue"},
        {"tenant": "acme", "state": State.CANCELLED},
        {"state": State.DEAD},
        {"tag": "blu"},
    ],
    ids=str,
)
async def test_a_filter_shows_exactly_what_it_names(
    engine: Engine, which: dict[str, Any]
) -> None:
    jobs = [
        a_job(tenant=tenant, queue=queue, type=type_name, tags=tags)
        for tenant in ("acme", "other")
        for queue in ("mail", "default")
        for type_name in ("noop", "email.send")
        for tags in ((), ("blue",), ("green", "blue"))
    ]
    await engine.submit(jobs)
    await engine.change("cancel", [job.id for job in jobs[::2]], reason="changed my mind")

    page = await engine.find(JobFilter(**which), limit=100)

    def matches(job: Any) -> bool:
        wanted = {name: value for name, value in which.items() if name != "tag"}
        has_tag = "tag" not in which or which["tag"] in job.tags
        return has_tag and all(getattr(job, name) == value for name, value in wanted.items())

    every = (await engine.find(JobFilter(), limit=100)).jobs
    assert page.jobs == [job for job in every if matches(job)]


@pytest.mark.parametrize("size", [1, 3, 7, 20])
async def test_pages_show_every_job_once(engine: Engine, size: int) -> None:
    jobs = [a_job() for _ in range(7)]
    await engine.submit(jobs)
    seen: list[JobId] = []
    page = await engine.find(JobFilter(queue="default"), limit=size)
    while True:
        assert len(page.jobs) <= size
        seen += [job.id for job in page.jobs]
        if page.cursor is None:
            break
        page = await engine.find(JobFilter(queue="default"), limit=size, cursor=page.cursor)

    assert seen == [job.id for job in reversed(jobs)]


async def test_jobs_that_arrive_or_move_between_pages_disturb_no_page(engine: Engine) -> None:
    jobs = [a_job() for _ in range(6)]
    await engine.submit(jobs)
    first = await engine.find(JobFilter(), limit=3)
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    await worker.claim(2)

    second = await engine.find(JobFilter(), limit=10, cursor=first.cursor)

    assert [job.id for job in [*first.jobs, *second.jobs]] == [job.id for job in reversed(jobs)]


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.DEAD, State.CANCELLED, State.READY])
async def test_pages_of_one_state_show_every_job_once(engine: Engine, state: State) -> None:
    jobs = [await a_job_that_is(state, engine) for _ in range(4)]
    await a_job_that_is(State.SCHEDULED, engine)
    which = JobFilter(state=state)

    first = await engine.find(which, limit=3)
    second = await engine.find(which, limit=3, cursor=first.cursor)

    seen = [job.id for job in [*first.jobs, *second.jobs]]
    assert seen == [job.id for job in reversed(jobs)]


async def test_a_cursor_of_another_filter_is_refused(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    page = await engine.find(JobFilter(), limit=1)

    with pytest.raises(ConfigError):
        await engine.find(JobFilter(queue="default"), limit=1, cursor=page.cursor)


@pytest.mark.parametrize("cursor", ["", "x", "🚢", "AAAA", "null", "1", "bm90IGpzb24="])
async def test_a_cursor_that_was_made_up_is_refused(engine: Engine, cursor: str) -> None:
    await engine.submit([a_job()])

    with pytest.raises(ConfigError):
        await engine.find(JobFilter(), limit=1, cursor=cursor)


async def test_counts_tell_every_state_of_every_queue(
    engine: Engine, clock: ManualClock
) -> None:
    in_order = [*(set(State) - {State.READY}), State.READY]
    jobs = [await a_job_that_is(state, engine) for state in in_order]
    queue = jobs[0].queue
    worker = await a_worker(engine, queues=[queue])
    (claim,) = await worker.claim()
    await worker.start(claim)
    await engine.submit([a_job(queue="b"), a_job(queue="b", delay=HOUR)])

    counts = await engine.counts()

    now = clock.now()
    assert counts == [
        QueueCounts(
            queue=queue, scheduled=1, running=2, buffered=1, succeeded=1, dead=1, cancelled=1
        ),
        QueueCounts(queue="b", ready=1, scheduled=1, oldest_ready_at=now),
    ]


async def test_the_oldest_ready_job_counts_from_when_it_could_first_run(
    engine: Engine, clock: ManualClock
) -> None:
    """A job that was due an hour after its submission has not waited for that hour."""
    await engine.submit([a_job(delay=HOUR)])
    clock.advance(HOUR)
    await engine.promote(limit=1)
    due = clock.now()
    clock.advance(MINUTE)
    await engine.submit([a_job()])

    (queue,) = await engine.counts()

    assert queue.oldest_ready_at == due


async def test_counts_that_may_be_estimates_are_exact_where_little_waits(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job(queue="mail"), a_job(priority=9), a_job(type="other")])
    await engine.submit([a_job(delay=SECOND), a_job(queue="later", delay=SECOND)])
    await engine.submit([a_job(queue="mail", ordering_key="anna") for _ in range(3)])
    await pauses.pause(engine, queue="paused")
    worker = await a_worker(engine)
    for claim in (await worker.claim(2))[1:]:
        await worker.succeed(claim)
    clock.advance(2 * SECOND)
    await engine.submit([a_job()])

    found = await engine.counts(may_estimate=True)

    assert found == await engine.counts()
    assert not any(one.is_estimate for one in found)


async def test_counts_of_one_tenant_leave_out_the_others(engine: Engine) -> None:
    await engine.submit([a_job(tenant="acme"), a_job(tenant="other"), a_job(tenant="other")])

    (mine,) = await engine.counts(tenant="acme")
    (every,) = await engine.counts()

    assert (mine.ready, every.ready) == (1, 3)


async def test_an_empty_store_has_no_queues(engine: Engine) -> None:
    assert await engine.counts() == []
    assert await engine.find(JobFilter(), limit=10) == await engine.find(JobFilter(), limit=1)


async def test_live_sessions_are_listed_oldest_first(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job()])
    opened = clock.now()
    first = await a_worker(engine, name="a", queues=["mail", "default"], types=["noop", "x"])
    gone = await a_worker(engine, name="gone", lease=SECOND)
    clock.advance(2 * SECOND)
    second = await a_worker(engine, name="b")
    await first.claim(2)
    await first.session.renew()
    await engine.drain_session(second.session.token)

    views = (await engine.sessions()).sessions

    now = clock.now()
    assert gone.session.token not in {view.token for view in views}
    assert views == [
        SessionView(
            token=first.session.token,
            worker="a",
            queues=("mail", "default"),
            types=("noop", "x"),
            opened_at=opened,
            renewed_at=now,
            expires_at=now + LEASE,
            holding=2,
        ),
        SessionView(
            token=second.session.token,
            worker="b",
            queues=("default",),
            types=("noop",),
            opened_at=now,
            renewed_at=now,
            expires_at=now + LEASE,
            holding=0,
            is_quiet=True,
        ),
    ]


async def _lose(engine: Engine, clock: ManualClock, *, name: str, is_started: bool) -> None:
    worker = await a_worker(engine, name=name)
    claims = await worker.claim()
    if is_started:
        await worker.start(*claims)
    clock.advance(LEASE)
    await reclaim_lapsed(engine)


async def test_the_history_tells_how_every_delivery_ended(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job()
    await engine.submit([new])
    start = clock.now()
    why = Failure("ValueError", "no such user", "Traceback …")
    await _lose(engine, clock, name="lost", is_started=False)
    await _lose(engine, clock, name="crashed", is_started=True)
    worker = await a_worker(engine, name="w")
    await worker.release((await worker.claim())[0])
    await worker.fail((await worker.claim())[0], why)
    await engine.change("retry", [new.id])
    await worker.snooze((await worker.claim())[0], HOUR)
    await engine.change("retry", [new.id])
    await worker.stop((await worker.claim())[0])
    await engine.change("replay", [new.id])
    await worker.kill((await worker.claim())[0])
    await engine.change("replay", [new.id])
    await worker.succeed((await worker.claim())[0])

    history = await engine.attempts(new.id)

    middle, end = start + LEASE, clock.now()
    expected = ["lapsed", "crashed", "released", "failed", "snoozed", "cancelled", "failed"]
    assert [one.outcome for one in history] == [*expected, "succeeded"]
    assert [one.delivery for one in history] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [one.attempt for one in history] == [0, 1, 1, 2, 3, 4, 5, 6]
    assert [one.worker for one in history] == ["lost", "crashed"] + ["w"] * 6
    assert [one.started_at for one in history] == [None, middle, None] + [end] * 5
    assert [one.finished_at for one in history] == [middle] + [end] * 7
    assert history[3] == Attempt(
        delivery=4,
        attempt=2,
        outcome="failed",
        worker="w",
        started_at=end,
        finished_at=end,
        failure=why,
    )


async def test_a_job_that_never_ran_has_no_history(engine: Engine) -> None:
    jobs = [await a_job_that_is(state, engine) for state in (State.RUNNING, State.READY)]

    assert [await engine.attempts(job.id) for job in jobs] == [[], []]
