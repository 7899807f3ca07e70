import json

import pytest

from longshore.contract import Engine
from longshore.core import ids
from longshore.core.state import TERMINAL, TRANSITIONS, JobChange, State, Verb
from longshore.errors import IllegalTransitionError, JobNotFoundError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import a_job_that_is, snapshot
from longshore.testing.factories import HOUR, an_id
from longshore.testing.manual import a_worker

CHANGES: tuple[JobChange, ...] = ("cancel", "retry", "replay", "purge")
VERBS = {"cancel": Verb.CANCEL, "retry": Verb.RETRY_NOW, "replay": Verb.REPLAY}


def _allows(state: State, change: str) -> bool:
    return state in TERMINAL if change == "purge" else (state, VERBS[change]) in TRANSITIONS


LEGAL = [(s, one) for s in State for one in VERBS if _allows(s, one)]
ILLEGAL = [(state, one) for state in State for one in CHANGES if not _allows(state, one)]


@pytest.mark.parametrize(("state", "change"), LEGAL)
async def test_a_legal_order_moves_the_job(
    engine: Engine, state: State, change: JobChange
) -> None:
    job = await a_job_that_is(state, engine)

    await engine.change(change, [job.id], reason="ordered")

    # Only its holder ends a running job; an order can but ask for it.
    is_request = state is State.RUNNING
    expected = State.RUNNING if is_request else TRANSITIONS[state, VERBS[change]]
    moved = await engine.get(job.id)
    assert (moved.state, moved.cancel_requested) == (expected, is_request)


@pytest.mark.parametrize(("state", "change"), ILLEGAL)
async def test_an_illegal_order_is_refused_and_changes_nothing(
    engine: Engine, state: State, change: JobChange
) -> None:
    job = await a_job_that_is(state, engine)
    before = await snapshot(engine, job.id)

    with pytest.raises(IllegalTransitionError) as caught:
        await engine.change(change, [job.id])

    assert (caught.value.state, caught.value.verb) == (state, change)
    assert await snapshot(engine, job.id) == before


@pytest.mark.parametrize("state", sorted(set(State) - {State.READY}))
async def test_only_ready_jobs_are_claimed(engine: Engine, state: State) -> None:
    job = await a_job_that_is(state, engine)
    before = await snapshot(engine, job.id)
    worker = await a_worker(engine, queues=[job.queue])

    claims = await worker.claim(10)

    assert claims == []
    assert await snapshot(engine, job.id) == before


@pytest.mark.parametrize("state", sorted(set(State) - {State.SCHEDULED}))
async def test_only_scheduled_jobs_are_promoted(
    engine: Engine, clock: ManualClock, state: State
) -> None:
    job = await a_job_that_is(state, engine)
    clock.advance(2 * HOUR)
    before = await snapshot(engine, job.id)

    promoted = await engine.promote(limit=10)

    assert promoted.count == 0
    assert await snapshot(engine, job.id) == before


@pytest.mark.parametrize("change", CHANGES)
async def test_an_order_for_an_unknown_job_is_refused(
    engine: Engine, change: JobChange
) -> None:
    job = await a_job_that_is(State.READY, engine)
    before = await snapshot(engine, job.id)
    unknown = an_id()

    with pytest.raises(JobNotFoundError) as caught:
        await engine.change(change, [unknown])

    assert unknown.hex()[:8] in str(caught.value)
    assert await snapshot(engine, job.id) == before


@pytest.mark.parametrize("change", CHANGES)
async def test_an_order_to_each_for_itself_leaves_out_what_does_not_allow_it(
    engine: Engine, change: JobChange
) -> None:
    # What is ready last: the others are claimed on their way.
    states = sorted(State, key=lambda state: state is State.READY)
    jobs = [await a_job_that_is(state, engine) for state in states]
    able = [job.id for job in jobs if _allows(job.state, change)]
    unable = [job.id for job in jobs if job.id not in able]
    before = [await engine.get(one) for one in unable]

    changed = await engine.change(
        change, [an_id(), *(job.id for job in jobs)], reason="ordered", independent=True
    )
    again = await engine.change(change, unable, independent=True)

    assert [job.id for job in changed] == able
    assert again == []
    assert [await engine.get(one) for one in unable] == before
    await engine.chain(limit=100)
    entry, arranged = await engine.audit_entries(before=2**62, limit=10)
    assert arranged.action == "job.cancel"
    assert (entry.action, json.loads(entry.body)["jobs"]) == (
        f"job.{change}",
        [ids.text(one) for one in able],
    )


@pytest.mark.parametrize("change", CHANGES)
async def test_an_order_says_how_the_jobs_are_then(engine: Engine, change: JobChange) -> None:
    state = next(state for state in State if _allows(state, change))
    job = await a_job_that_is(state, engine)
    before = await engine.get(job.id)

    (told,) = await engine.change(change, [job.id], reason="ordered")

    assert told == (before if change == "purge" else await engine.get(job.id))
