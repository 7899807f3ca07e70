"""Leases: what a worker may do while it holds one, and what it does when it does not."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from workshop import Workshop, open_workshop, within

from longshore.core.job import Claim
from longshore.core.state import State
from longshore.errors import EngineBusyError, SchemaError
from longshore.job_context import current_job
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import SECOND
from longshore.testing.harness import eventually
from longshore.testing.manual import a_worker, reclaim_lapsed
from longshore.worker.worker import Worker


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop() as shop:
        yield shop


class Gate:
    """A handler that waits, and says how it was let go."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.was_cancelled = asyncio.Event()
        self.runs = 0

    async def wait(self, _: Any) -> None:
        self.runs += 1
        self.entered.set()
        try:
            await within(self.open.wait())
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise


async def take_over(shop: Workshop) -> None:
    """Let the lease lapse and the job be given back, as another worker's tick would."""
    shop.clock.advance(60 * SECOND)
    await reclaim_lapsed(shop.engine)


async def taken_by_another(shop: Workshop, type_name: str) -> Claim:
    """Cut the worker off, give its job to another worker, and let it come back."""
    with shop.flaky.outage():
        await take_over(shop)
        other = await a_worker(shop.engine, types=[type_name])
        (claim,) = await other.claim()
    return claim


async def test_a_lost_answer_costs_nothing(shop: Workshop):
    runs: list[int] = []

    async def note(arguments: Any) -> None:
        runs.append(arguments["n"])

    shop.task("note", note)
    jobs = [await shop.submit("note", {"n": number}) for number in range(50)]
    shop.flaky.lose_answers(3, of=["exchange"])

    worker = await shop.work(concurrency=5, claim_batch=5)

    assert sorted(runs) == list(range(50))
    states = {(await shop.job(one)).state for one in jobs}
    assert states == {State.SUCCEEDED}
    assert worker.stats.resent == 3
    assert {(await shop.job(one)).delivery for one in jobs} == {1}


async def test_every_answer_may_be_lost_once(shop: Workshop):
    runs: list[int] = []

    async def note(arguments: Any) -> None:
        runs.append(arguments["n"])
        shop.flaky.lose_answers(1)

    shop.task("note", note)
    for number in range(12):
        await shop.submit("note", {"n": number})

    worker = await shop.work(concurrency=3, claim_batch=3)

    assert sorted(runs) == list(range(12))
    assert worker.stats.succeeded == 12


async def test_a_short_outage_is_waited_out_and_nothing_runs_twice(shop: Workshop):
    gate = Gate()
    shop.task("wait", gate.wait)
    job_id = await shop.submit("wait")

    async with shop.working() as worker:
        await within(gate.entered.wait())
        shop.flaky.go_down()
        gate.open.set()
        await eventually(lambda: worker.stats.resent >= 2)
        shop.flaky.come_back()
        await eventually(lambda: worker.stats.succeeded == 1)

    job = await shop.job(job_id)
    assert (job.state, job.delivery, gate.runs) == (State.SUCCEEDED, 1, 1)


async def test_a_worker_whose_store_went_back_in_time_opens_a_new_session(tmp_path: Path):
    """An older copy of the file knows the session, and not its last exchanges."""
    path, gate = tmp_path / "jobs.db", Gate()
    async with open_workshop(url=f"sqlite:///{path}") as shop:
        shop.task("wait", gate.wait)
        job_id = await shop.submit("wait")
        async with shop.working() as worker:
            await within(gate.entered.wait())
            with closing(sqlite3.connect(path, timeout=10.0)) as older:
                older.execute("update longshore_session set exchange = 0")
                older.commit()
            gate.open.set()
            await eventually(lambda: worker.stats.lost_leases == 1)
            await take_over(shop)
            await eventually(lambda: worker.stats.succeeded == 1)

        assert (await shop.job(job_id)).delivery == 2


@pytest.mark.parametrize("says", ["its own clock", "the engine"])
async def test_a_worker_that_lost_its_lease_stops_its_handlers_and_settles_nothing(
    shop: Workshop, says: str
):
    gate = Gate()
    shop.task("wait", gate.wait)
    job_id = await shop.submit("wait")
    # A worker whose own clock stands still has to be told by the engine.
    clock = shop.clock if says == "its own clock" else ManualClock()
    worker = shop.worker(clock=clock)

    async with shop.working(worker):
        await within(gate.entered.wait())
        claim = await taken_by_another(shop, "wait")
        await within(gate.was_cancelled.wait())
        await eventually(lambda: worker.is_live)
        taken = await shop.job(job_id)

    assert claim.id == job_id
    assert (taken.state, taken.failures, taken.delivery) == (State.RUNNING, 0, 2)
    assert (worker.stats.lost_leases, worker.stats.succeeded) == (1, 0)


async def test_a_thread_that_outlives_the_lease_is_told_and_settles_nothing(shop: Workshop):
    entered, go_on = threading.Event(), threading.Event()
    told: list[bool] = []

    def slow(_: Any) -> None:
        entered.set()
        go_on.wait(10)
        told.append(current_job().is_cancel_requested)

    shop.task("slow", slow)
    job_id = await shop.submit("slow")

    async with shop.working() as worker:
        await eventually(entered.is_set)
        await taken_by_another(shop, "slow")
        await eventually(lambda: worker.stats.lost_leases == 1)
        go_on.set()
        await eventually(lambda: told)
        await eventually(lambda: worker._slots.free == worker._slots.rooms)
        job = await shop.job(job_id)

    assert told == [True]
    assert (job.state, job.delivery, job.failures) == (State.RUNNING, 2, 0)


async def test_a_worker_cut_off_stops_its_handlers_before_the_lease_is_over(shop: Workshop):
    gate = Gate()
    shop.task("wait", gate.wait)
    await shop.submit("wait")

    async with shop.working(shop.worker(lease=timedelta(seconds=30))) as worker:
        await within(gate.entered.wait())
        shop.flaky.go_down()
        shop.clock.advance(27 * SECOND)
        was_running = not gate.was_cancelled.is_set()
        await worker._sweep.tick()
        shop.clock.advance(2 * SECOND)
        await within(gate.was_cancelled.wait())
        shop.flaky.come_back()

    # The lease lasts 30 s; 28 are this side's.
    assert was_running
    assert worker.stats.lost_leases >= 1


async def test_after_a_lost_lease_a_new_session_goes_on_working(shop: Workshop):
    gate = Gate()
    done = asyncio.Event()

    async def after(_: Any) -> None:
        done.set()

    shop.task("wait", gate.wait)
    shop.task("after", after)
    await shop.submit("wait")

    async with shop.working() as worker:
        await within(gate.entered.wait())
        await take_over(shop)
        await shop.submit("after")
        await within(done.wait())

    assert worker.stats.lost_leases == 1


async def test_what_ended_under_a_lost_lease_is_not_settled_under_the_next(shop: Workshop):
    sent, unsent = Gate(), Gate()
    shop.task("sent", sent.wait)
    shop.task("unsent", unsent.wait)
    await shop.submit("sent")
    await shop.submit("unsent")

    async with shop.working() as worker:
        await within(asyncio.gather(sent.entered.wait(), unsent.entered.wait()))
        shop.flaky.go_down()
        sent.open.set()
        await eventually(lambda: worker.stats.resent)
        unsent.open.set()
        await eventually(lambda: len(worker._settler) == 1)
        await take_over(shop)
        before = worker.stats.exchanges
        shop.flaky.come_back()
        await eventually(lambda: worker.stats.lost_leases and worker.stats.exchanges > before)

    assert (worker.stats.stale, worker.stats.lost_leases) == (0, 1)


async def test_no_handler_starts_past_the_lease(shop: Workshop):
    started: list[int] = []
    held: list[int] = []

    async def note(arguments: Any) -> None:
        started.append(arguments["n"])
        if arguments["n"] == 0:
            # As if the process had been stopped here, with an exchange on its way, for longer
            # than its lease.
            shop.flaky.hang()
            before = shop.flaky.calls.count("exchange")
            worker.nudge()
            await eventually(lambda: shop.flaky.calls.count("exchange") > before)
            held.append(worker._slots.waiting)
            shop.clock.advance(60 * SECOND)

    shop.task("note", note)
    for number in range(5):
        await shop.submit("note", {"n": number})
    worker = shop.worker(concurrency=1, claim_batch=3)
    worker._fetcher._pace._rate = 100.0  # so that it holds more than it runs

    async with shop.working(worker):
        await eventually(lambda: len(worker._settler.ended) == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        seen = list(started)
        shop.flaky.come_back()
        await eventually(lambda: worker.stats.lost_leases == 1)

    assert held[0] >= 1
    assert seen == [0]


async def test_claims_the_worker_never_heard_of_go_back_uncharged(shop: Workshop):
    gate = Gate()
    shop.task("wait", gate.wait)
    job_id = await shop.submit("wait")

    async with shop.working(shop.worker(concurrency=1)) as worker:
        await within(gate.entered.wait())
        (slot,) = worker._slots._slots
        attempt, slot.attempt = slot.attempt, None
        await worker._renewer.tick()
        forgotten = await shop.job(job_id)
        slot.attempt = attempt

    assert (forgotten.state, forgotten.failures) == (State.READY, 0)


async def test_a_renewal_that_names_a_job_as_lost_stops_its_handler(shop: Workshop):
    gate = Gate()
    shop.task("wait", gate.wait)
    job_id = await shop.submit("wait")

    async with shop.working() as worker:
        await within(gate.entered.wait())
        held = worker._slots.references()
        worker._slots.stop(held, worker._slots.attempts()[0].stop.LOST)
        await within(gate.was_cancelled.wait())
        await eventually(lambda: not worker._slots.attempts())
        job = await shop.job(job_id)

    assert (job.state, worker.stats.failed) == (State.RUNNING, 0)


async def test_the_lease_is_renewed_while_a_job_runs_longer_than_it(shop: Workshop):
    gate = Gate()
    shop.task("wait", gate.wait)
    job_id = await shop.submit("wait")

    async with shop.working(shop.worker(lease=timedelta(seconds=30))) as worker:
        await within(gate.entered.wait())
        for _ in range(10):
            shop.clock.advance(10 * SECOND)
            await worker._renewer.tick()
            await reclaim_lapsed(shop.engine)
        gate.open.set()
        await eventually(lambda: worker.stats.succeeded == 1)

    assert (await shop.job(job_id)).delivery == 1
    assert worker.stats.lost_leases == 0


async def test_late_news_of_an_old_session_does_not_end_the_new_one(shop: Workshop):
    gate = Gate()
    shop.task("wait", gate.wait)

    async with shop.working() as worker:
        await eventually(lambda: worker._standing.is_live)
        old = worker._standing.token
        worker._fetcher.lose(old)
        await eventually(lambda: worker._standing.token not in (0, old))
        await shop.submit("wait")
        await within(gate.entered.wait())
        worker._fetcher.lose(old)
        gate.open.set()
        await eventually(lambda: worker.stats.succeeded == 1)

    assert worker.stats.lost_leases == 1


async def test_an_error_that_is_not_the_engines_passing_trouble_ends_the_worker(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    async def noop(_: Any) -> None:
        return None

    async def refuse(**_: Any) -> Any:
        raise SchemaError("the schema is newer")

    shop.task("noop", noop)
    monkeypatch.setattr(shop.flaky, "open_session", refuse)

    with pytest.raises(SchemaError):
        await within(shop.worker().run())


async def test_a_worker_waits_for_an_engine_that_is_not_there_yet(shop: Workshop):
    done = asyncio.Event()

    async def note(_: Any) -> None:
        done.set()

    shop.task("note", note)
    await shop.submit("note")
    shop.flaky.go_down()

    async with shop.working() as worker:
        await eventually(lambda: worker.stats.resent >= 2)
        shop.flaky.come_back()
        await within(done.wait())


async def test_a_busy_engine_is_asked_again(shop: Workshop):
    calls = 0
    exchange = shop.flaky._call

    def busy(name: str, method: Any) -> Any:
        async def call(*positional: Any, **named: Any) -> Any:
            nonlocal calls
            calls += name == "exchange"
            if name == "exchange" and calls % 2:
                raise EngineBusyError("locked")
            return await method(*positional, **named)

        return exchange(name, call)

    async def note(_: Any) -> None:
        return None

    shop.task("note", note)
    job_id = await shop.submit("note")
    shop.flaky._call = busy  # type: ignore[method-assign]

    await shop.work()

    assert (await shop.job(job_id)).state is State.SUCCEEDED


async def outlast(shop: Workshop, worker: Worker) -> None:
    """Let the store be away for longer than the lease, and nobody reclaim anything."""
    shop.flaky.go_down()
    shop.clock.advance(60 * SECOND)
    await worker._sweep.tick()
    await eventually(lambda: worker.stats.lost_leases == 1)


async def test_jobs_that_an_outage_stopped_run_again_without_waiting_for_reclaim(
    shop: Workshop,
):
    gate = Gate()
    shop.task("wait", gate.wait)
    job_id = await shop.submit("wait")

    async with shop.working() as worker:
        await within(gate.entered.wait())
        await outlast(shop, worker)
        await within(gate.was_cancelled.wait())
        gate.entered.clear()
        gate.open.set()
        shop.flaky.come_back()
        await within(gate.entered.wait())
        await eventually(lambda: worker.stats.succeeded == 1)

    job = await shop.job(job_id)
    assert (job.state, job.delivery, gate.runs) == (State.SUCCEEDED, 2, 2)
    # It did not crash, so it is no suspect for it.
    assert (job.failures, job.crashes, job.lapses) == (0, 0, 0)
    ends = [(one.outcome, one.started_at is None) for one in await shop.engine.attempts(job_id)]
    assert ends == [("released", False), ("succeeded", False)]


async def test_what_ended_before_the_lease_was_over_is_settled_after_the_outage(
    shop: Workshop,
):
    sent, unsent, failing = Gate(), Gate(), Gate()

    async def fail(_: Any) -> None:
        await failing.wait(_)
        raise ValueError("no")

    shop.task("sent", sent.wait)
    shop.task("unsent", unsent.wait)
    shop.task("fail", fail)
    kinds = ("sent", "unsent", "fail")
    jobs = [await shop.submit(name, max_attempts=1) for name in kinds]

    async with shop.working() as worker:
        await within(asyncio.gather(*(one.entered.wait() for one in (sent, unsent, failing))))
        shop.flaky.go_down()
        sent.open.set()
        await eventually(lambda: worker.stats.resent)
        unsent.open.set()
        failing.open.set()
        await eventually(lambda: len(worker._settler) == 2)
        await outlast(shop, worker)
        shop.flaky.come_back()
        await eventually(lambda: worker.stats.succeeded == 2)

    ended = [await shop.job(one) for one in jobs]
    states = [State.SUCCEEDED, State.SUCCEEDED, State.DEAD]
    assert [one.state for one in ended] == states
    assert [one.delivery for one in ended] == [1, 1, 1]
    assert (sent.runs, unsent.runs, failing.runs) == (1, 1, 1)
    assert (worker.stats.failed, worker.stats.stale) == (1, 0)


async def test_what_was_settled_although_no_answer_came_is_not_settled_again(shop: Workshop):
    """The exchange is applied, its answer is lost, and then the store is away."""
    gate, other = Gate(), Gate()
    shop.task("gate", gate.wait)
    shop.task("other", other.wait)
    done = await shop.submit("gate")
    stopped = await shop.submit("other")

    async with shop.working() as worker:
        await within(asyncio.gather(gate.entered.wait(), other.entered.wait()))
        shop.flaky.lose_answers(1_000)
        gate.open.set()
        await eventually(lambda: worker.stats.resent)
        await outlast(shop, worker)
        was_settled = (await shop.job(done)).state
        other.open.set()
        shop.flaky.come_back()
        await eventually(lambda: worker.stats.succeeded == 1)

    assert was_settled is State.SUCCEEDED
    ended = [await shop.job(one) for one in (done, stopped)]
    assert [(one.state, one.delivery) for one in ended] == [
        (State.SUCCEEDED, 1),
        (State.SUCCEEDED, 2),
    ]


async def test_jobs_of_a_lost_session_wait_as_long_as_one_of_its_handlers_runs(shop: Workshop):
    entered, go_on = threading.Event(), threading.Event()
    gate = Gate()

    def stubborn(_: Any) -> None:
        entered.set()
        go_on.wait(10)

    shop.task("stubborn", stubborn)
    shop.task("wait", gate.wait)
    jobs = [await shop.submit(name) for name in ("stubborn", "wait")]

    async with shop.working() as worker:
        await eventually(lambda: entered.is_set() and gate.entered.is_set())
        await outlast(shop, worker)
        shop.flaky.come_back()
        await eventually(lambda: worker.is_live)
        for _ in range(3):
            await worker._fetcher.lost.tick()
        meanwhile = [await shop.job(one) for one in jobs]
        gate.open.set()
        go_on.set()
        await eventually(lambda: worker.stats.succeeded == 2)

    assert [(one.state, one.delivery) for one in meanwhile] == [(State.RUNNING, 1)] * 2
    ended = [await shop.job(one) for one in jobs]
    assert [(one.state, one.delivery) for one in ended] == [(State.SUCCEEDED, 2)] * 2


async def test_a_cancel_that_came_during_the_outage_ends_a_job_that_was_stopped_for_it(
    shop: Workshop,
):
    gate = Gate()
    shop.task("wait", gate.wait)
    job_id = await shop.submit("wait")

    async with shop.working() as worker:
        await within(gate.entered.wait())
        await outlast(shop, worker)
        await shop.engine.change("cancel", [job_id], reason="enough")
        shop.flaky.come_back()
        await eventually(lambda: worker.is_live)

        async def is_cancelled() -> bool:
            return (await shop.job(job_id)).state is State.CANCELLED

        await eventually(is_cancelled)

    assert gate.runs == 1
