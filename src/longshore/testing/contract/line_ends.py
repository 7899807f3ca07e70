"""What the end of a job says of the line of its key, and nothing of any other line."""

import pytest
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import Claim, Failure, NewJob, Settlement
from longshore.core.limit_settings import Layer, OnDead, QueueSettings
from longshore.core.ordering_key import Line
from longshore.core.state import State
from longshore.records import queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker

lined = requires("ordering_keys")


async def _say(engine: Engine, queue: str = "default", **settings: object) -> None:
    await queue_settings.put(
        engine, queue, Layer.OVERRIDDEN, replace(QueueSettings(), **settings)
    )


def _killed(claim: Claim) -> Settlement:
    why = Failure("Dead", "no use")
    return settle.killed(claim, why, "no use", started_at=1, finished_at=1)


async def _line(engine: Engine, job: NewJob) -> Line:
    assert job.ordering_key is not None
    found = await engine.line(job.queue, job.ordering_key, tenant=job.tenant)
    assert found is not None
    return found


async def _kill(worker: ManualWorker, *jobs: NewJob) -> None:
    """Claim all there is, and end these with one exchange, in this order."""
    claims = {claim.id: claim for claim in await worker.claim(20)}
    await worker.settle(*[_killed(claims[job.id]) for job in jobs])


@lined
async def test_a_line_names_the_dead_that_block_it_in_the_order_of_their_ends(
    engine: Engine,
) -> None:
    await _say(engine, on_dead=OnDead.BLOCK, max_running_per_key=3)
    jobs = [a_job(ordering_key="anna") for _ in range(4)]
    await engine.submit(jobs)

    await _kill(await a_worker(engine), jobs[1], jobs[2], jobs[0])

    assert (await _line(engine, jobs[0])).dead == (jobs[1].id, jobs[2].id, jobs[0].id)


@lined
@pytest.mark.parametrize("settings", [{}, {"max_running": 9}], ids=["none", "others"])
async def test_a_dead_job_blocks_only_where_its_own_queue_says_so(
    engine: Engine, settings: dict[str, int]
) -> None:
    await _say(engine, "elsewhere", on_dead=OnDead.BLOCK)
    await _say(engine, "default", **settings)
    jobs = [a_job(ordering_key="anna") for _ in range(2)]
    await engine.submit(jobs)
    worker = await a_worker(engine)

    await _kill(worker, jobs[0])

    assert [claim.id for claim in await worker.claim(9)] == [jobs[1].id]


@lined
async def test_those_that_go_back_to_the_line_they_blocked_leave_all_others_as_they_were(
    engine: Engine,
) -> None:
    await _say(engine, on_dead=OnDead.BLOCK, max_running_per_key=4)
    await _say(engine, "mail", on_dead=OnDead.BLOCK, max_running_per_key=4)
    await engine.submit([a_job(payload=b'{"n": 9}'), a_job(type="b")])
    anna = [
        a_job(ordering_key="anna", type=name, payload=b'{"n": %d}' % place)
        for place, name in enumerate(("a", "b", "a", "b"))
    ]
    bert, tenth, mail = (
        a_job(**{"ordering_key": "anna", **changes})
        for changes in ({"ordering_key": "bert"}, {"tenant": "acme"}, {"queue": "mail"})
    )
    plain = a_job(payload=b'{"n": 8}')
    waiting, cleo = a_job(ordering_key="anna"), a_job(ordering_key="cleo")
    others = [bert, tenth, mail]
    await engine.submit([*anna, bert, tenth, mail, plain])
    worker = await a_worker(engine, queues=["default", "mail"], types=["noop", "a", "b"])
    await _kill(worker, *anna, *others, plain)
    await engine.submit([waiting, cleo])
    await engine.change("cancel", [cleo.id], reason="not now")
    before = [await _line(engine, job) for job in others]

    back = [anna[2], plain, cleo, anna[1]]
    replayed = await engine.change("replay", [job.id for job in back])

    line = await _line(engine, anna[0])
    claims = {claim.id: claim for claim in await worker.claim(20)}
    assert [(job.id, job.state, job.parked) for job in replayed] == [
        (job.id, State.READY, None) for job in back
    ]
    assert (line.dead, line.last) == ((anna[0].id, anna[3].id), anna[1].id)
    assert (line.inside, line.parked) == (2, 1)
    assert [await _line(engine, job) for job in others] == before
    assert {(job.id, job.type, job.payload) for job in back} == {
        (claim.id, claim.type, claim.payload) for claim in claims.values()
    }


@lined
async def test_promote_says_when_the_first_of_several_lines_opens(
    engine: Engine, clock: ManualClock
) -> None:
    await _say(engine, rate_per_key=1.0, burst_per_key=1)
    worker = await a_worker(engine)
    for key in ("anna", "bert"):
        await engine.submit([a_job(ordering_key=key) for _ in range(2)])
        (claim,) = await worker.claim(9)
        await worker.succeed(claim)
        clock.advance(SECOND // 4)

    promoted = await engine.promote(limit=9)

    assert (promoted.count, promoted.next_due_in) == (0, SECOND // 2)


_ANNA = {"ordering_key": "anna"}
_OTHERS = [{"queue": "mail"}, {"tenant": "acme"}, {"ordering_key": "bert"}]


def _anna(many: int, **changes: str) -> list[NewJob]:
    return [a_job(**{**_ANNA, **changes}) for _ in range(many)]


@lined
async def test_a_line_with_more_inside_than_may_lets_nobody_in_when_one_ends(
    engine: Engine,
) -> None:
    await _say(engine, max_running_per_key=3)
    jobs = _anna(5)
    await engine.submit(jobs)
    worker = await a_worker(engine)
    first, second, third = await worker.claim(9)
    await _say(engine, max_running_per_key=1)

    for claim in (first, second):
        await worker.succeed(claim)
    early = await worker.claim(9)
    await worker.succeed(third)

    assert early == []
    assert [claim.id for claim in await worker.claim(9)] == [jobs[3].id]


@lined
async def test_a_line_names_the_last_of_those_it_let_in_together(engine: Engine) -> None:
    jobs = _anna(4)
    await engine.submit(jobs)
    await _say(engine, max_running_per_key=3)

    await engine.promote(limit=9)

    line = await _line(engine, jobs[0])
    assert (line.inside, line.parked, line.last) == (3, 1, jobs[2].id)


@lined
async def test_a_line_whose_places_are_taken_does_not_open_by_time(engine: Engine) -> None:
    await _say(engine, rate_per_key=1.0, burst_per_key=5)
    jobs = _anna(2)
    await engine.submit(jobs)

    line = await _line(engine, jobs[0])
    promoted = await engine.promote(limit=9)

    assert (line.inside, line.parked, line.opens_at) == (1, 1, None)
    assert (promoted.count, promoted.next_due_in) == (0, None)


@lined
@pytest.mark.parametrize("other", _OTHERS, ids=lambda one: next(iter(one)))
async def test_a_line_neither_opens_nor_stays_for_those_who_wait_in_another(
    engine: Engine, other: dict[str, str]
) -> None:
    settings = {"rate_per_key": 0.001, "burst_per_key": 2, "max_running_per_key": 2}
    waiting = _anna(3, **other)
    (job,) = _anna(1)
    for queue in ("default", "mail"):
        await _say(engine, queue, **settings)
    await engine.submit(waiting)
    await engine.submit([job])
    before = await _line(engine, waiting[0])
    worker = await a_worker(engine)

    line = await _line(engine, job)
    claims = {claim.id: claim for claim in await worker.claim(9)}
    await worker.succeed(claims[job.id])

    assert (line.inside, line.opens_at) == (1, None)
    assert await engine.line("default", "anna") is None
    assert (before.inside, before.parked) == (2, 1)
    assert await _line(engine, waiting[0]) == before


@lined
@pytest.mark.parametrize("other", _OTHERS, ids=lambda one: next(iter(one)))
async def test_what_goes_on_in_a_line_leaves_the_others_as_they_were(
    engine: Engine, other: dict[str, str]
) -> None:
    jobs, others = _anna(2), _anna(3, **other)
    await engine.submit(others)
    await engine.submit(jobs)
    worker = await a_worker(engine)
    before = await _line(engine, others[0])

    for job in jobs:
        claims = {claim.id: claim for claim in await worker.claim(9)}
        await worker.succeed(claims[job.id])
        assert await _line(engine, others[0]) == before

    assert await engine.line("default", "anna") is None


@lined
async def test_jobs_of_several_types_that_join_together_go_to_those_who_serve_them(
    engine: Engine,
) -> None:
    jobs = [a_job(ordering_key=key, type=key) for key in ("a", "b", "c")]
    await engine.submit(jobs)

    found = [
        [claim.id for claim in await (await a_worker(engine, types=[name])).claim(9)]
        for name in ("c", "a", "b")
    ]

    assert found == [[jobs[2].id], [jobs[0].id], [jobs[1].id]]
