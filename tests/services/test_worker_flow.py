"""What reaches a running or waiting job from outside, and in which order jobs come."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from workshop import Workshop, open_workshop, within

from longshore.core.event import Name, expand
from longshore.core.limit_settings import Layer, Order, QueueSettings
from longshore.core.state import State
from longshore.errors import ConfigError
from longshore.job_context import current_job
from longshore.records import queue_settings
from longshore.testing.factories import SECOND, a_job
from longshore.testing.harness import eventually
from longshore.worker.order import QueueOrder
from longshore.worker.pace import Pace
from longshore.worker.shutdown import Ending


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop() as shop:
        yield shop


class Waiting:
    """A handler that waits to be let go, and can end in any way after it was cancelled."""

    def __init__(self, shop: Workshop, then: BaseException | None = None) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.then = then
        shop.task("wait", self.wait)

    async def wait(self, _: Any) -> str:
        self.entered.set()
        try:
            await within(self.open.wait())
        except asyncio.CancelledError:
            if self.then is not None:
                raise self.then from None
        return "done"


@pytest.mark.parametrize("then", [asyncio.CancelledError(), ValueError("torn off")], ids=repr)
async def test_a_running_job_that_is_cancelled_and_raises_is_cancelled(
    shop: Workshop, then: BaseException
):
    waiting = Waiting(shop, then)
    job_id = await shop.submit("wait")

    async with shop.working() as worker:
        await within(waiting.entered.wait())
        await shop.engine.change("cancel", [job_id], reason="a change of mind")
        await eventually(lambda: worker.stats.cancelled == 1, within=3.0)

    job = await shop.job(job_id)
    assert (job.state, job.failures) == (State.CANCELLED, 0)


async def test_a_running_job_that_returns_after_the_cancel_has_succeeded(shop: Workshop):
    waiting = Waiting(shop)
    job_id = await shop.submit("wait")

    async with shop.working() as worker:
        await within(waiting.entered.wait())
        await shop.engine.change("cancel", [job_id], reason="a change of mind")
        await eventually(lambda: worker.stats.succeeded == 1, within=3.0)

    assert (await shop.job(job_id)).state is State.SUCCEEDED


async def test_a_cancel_reaches_a_worker_that_has_no_free_slot(shop: Workshop):
    waiting = Waiting(shop, asyncio.CancelledError())
    job_id = await shop.submit("wait")

    async with shop.working(shop.worker(concurrency=1)) as worker:
        await within(waiting.entered.wait())
        await shop.engine.change("cancel", [job_id], reason="a change of mind")
        await eventually(lambda: worker.stats.cancelled == 1, within=3.0)


async def test_a_thread_is_told_of_a_cancel(shop: Workshop):
    entered = threading.Event()

    def patient(_: Any) -> None:
        entered.set()
        job = current_job()
        while not job.is_cancel_requested:
            threading.Event().wait(0.01)
        raise InterruptedError

    shop.task("patient", patient)
    job_id = await shop.submit("patient")

    async with shop.working() as worker:
        await eventually(entered.is_set)
        await shop.engine.change("cancel", [job_id], reason="a change of mind")
        await eventually(lambda: worker.stats.cancelled == 1, within=3.0)

    assert (await shop.job(job_id)).state is State.CANCELLED


async def test_a_job_that_is_cancelled_in_the_buffer_never_starts(shop: Workshop):
    waiting = Waiting(shop)
    await shop.submit("wait", priority=1)
    worker = shop.worker(concurrency=1)
    worker._fetcher._pace._rate = 1_000.0  # so that it holds jobs in advance
    buffered = await shop.submit("wait", priority=2)

    async with shop.working(worker):
        await within(waiting.entered.wait())
        await shop.engine.change("cancel", [buffered], reason="a change of mind")
        await eventually(lambda: worker.stats.cancelled == 1, within=3.0)

    job = await shop.job(buffered)
    assert (job.state, job.attempt) == (State.CANCELLED, 0)


async def test_a_job_that_waited_a_second_in_the_buffer_goes_back_uncharged(shop: Workshop):
    waiting = Waiting(shop)
    await shop.submit("wait", priority=1)
    worker = shop.worker(concurrency=1)
    worker._fetcher._pace._rate = 1_000.0  # so that it holds jobs in advance
    buffered = await shop.submit("wait", priority=2)

    async with shop.working(worker):
        await within(waiting.entered.wait())
        worker._fetcher._pace._rate = 0.0
        shop.clock.advance(SECOND)
        await eventually(lambda: worker.stats.released == 1)
        job = await shop.job(buffered)
        waiting.open.set()

    assert (job.state, job.attempt, job.failures, job.delivery) == (State.READY, 0, 0, 1)


async def test_a_start_is_told_within_a_second_and_once(shop: Workshop):
    waiting = Waiting(shop)
    job_id = await shop.submit("wait")

    async with shop.working() as worker:
        await within(waiting.entered.wait())
        at_first = (await shop.job(job_id)).started_at
        shop.clock.advance(int(0.9 * SECOND))

        async def is_known() -> bool:
            return (await shop.job(job_id)).started_at is not None

        # Sooner than the exchange that a busy worker sends each second anyway.
        await eventually(is_known, within=0.6)
        waiting.open.set()
        await eventually(lambda: worker.stats.succeeded == 1)

    batches = await shop.engine.events(after=0, limit=1_000)
    names = [event.name for batch in batches for event in expand(batch)]
    assert at_first is None
    assert names.count(Name.STARTED) == 1


async def test_short_jobs_tell_their_start_with_their_end(shop: Workshop):
    async def noop(_: Any) -> None:
        return None

    shop.task("noop", noop)
    await shop.submit("noop")

    worker = await shop.work()

    assert worker.stats.exchanges <= 3


async def test_an_idle_worker_starts_a_job_as_soon_as_it_is_submitted(shop: Workshop):
    waiting = Waiting(shop)

    async with shop.working() as worker:
        await eventually(lambda: worker.stats.exchanges >= 1)
        await shop.submit("wait")
        async with asyncio.timeout(0.5):
            await waiting.entered.wait()
        waiting.open.set()


async def test_work_until_idle_goes_on_with_what_is_due_within_the_horizon(shop: Workshop):
    done: list[int] = []

    async def note(arguments: Any) -> None:
        done.append(arguments["n"])

    shop.task("note", note)
    await shop.submit("note", {"n": 0})
    await shop.submit("note", {"n": 1}, delay=SECOND)
    await shop.submit("note", {"n": 2}, delay=60 * SECOND)

    async def pass_time() -> None:
        while True:
            shop.clock.advance(SECOND // 10)
            await asyncio.sleep(0.01)

    passing = asyncio.create_task(pass_time())
    ending = await within(shop.worker().run(until_idle=True, horizon=2.0))
    passing.cancel()

    assert ending is Ending.IDLE
    assert done == [0, 1]


async def test_work_until_idle_runs_what_its_jobs_submit(shop: Workshop):
    done: list[int] = []

    async def chain(arguments: Any) -> None:
        done.append(arguments["n"])
        if arguments["n"] < 5:
            await shop.submit("chain", {"n": arguments["n"] + 1})

    shop.task("chain", chain)
    await shop.submit("chain", {"n": 1})

    await shop.work()

    assert done == [1, 2, 3, 4, 5]


async def test_a_workers_ticks_run_beside_it(shop: Workshop):
    ticked = asyncio.Event()

    async def tick() -> float:
        ticked.set()
        return 60.0

    async with shop.working(shop.worker(ticks=[("promote", tick)])):
        await within(ticked.wait())


async def test_queues_are_drained_in_their_order(shop: Workshop):
    done: list[str] = []

    async def note(_: Any) -> None:
        done.append(current_job().queue)

    shop.task("note", note)
    for queue in ("slow", "mail", "slow", "mail", "other"):
        await shop.submit("note", queue=queue)

    await shop.work(concurrency=1, claim_batch=1, queues=("mail", "slow"))

    assert done == ["mail", "mail", "slow", "slow"]


async def test_weighted_queues_share_the_worker_by_their_weights(shop: Workshop):
    done: list[str] = []

    async def note(_: Any) -> None:
        done.append(current_job().queue)

    shop.task("note", note)
    for _ in range(40):
        await shop.submit("note", queue="mail")
        await shop.submit("note", queue="slow")

    await shop.work(concurrency=1, claim_batch=1, queues=("mail=3", "slow=1"))

    assert Counter(done[:40]) == {"mail": 30, "slow": 10}
    assert Counter(done) == {"mail": 40, "slow": 40}


def test_weights_come_out_smoothly():
    order = QueueOrder(("a=3", "b=1"))

    firsts = [(order.next() or ())[0] for _ in range(8)]

    assert firsts == ["a", "a", "b", "a", "a", "a", "b", "a"]


def test_every_queue_is_asked_in_each_exchange():
    order = QueueOrder(("a=5", "b=1", "c=1"))

    asked = [set(order.next() or ()) for _ in range(20)]

    assert asked == [{"a", "b", "c"}] * 20


@pytest.mark.parametrize(
    "queues", [("a=1", "b"), ("a", "a"), ("a=0",)], ids=["mixed", "twice", "no weight"]
)
def test_queues_that_make_no_sense_are_refused(queues: tuple[str, ...]):
    with pytest.raises(ConfigError):
        QueueOrder(queues)


async def test_a_worker_that_was_busy_hears_of_the_next_job_at_once(shop: Workshop):
    """It was woken for jobs of others right after a claim that got all it wanted."""
    ran: list[float] = []
    loop = asyncio.get_running_loop()

    async def note(_: Any) -> None:
        ran.append(loop.time())

    async def wake_others(_: Any) -> None:
        await shop.submit("note", queue="elsewhere")

    shop.task("note", note)
    shop.task("wake", wake_others)
    async with shop.working(shop.worker(concurrency=4)) as worker:
        for burst in range(1, 4):
            await shop.engine.submit([a_job(type="wake") for _ in range(4)])
            await eventually(
                lambda burst=burst: worker.stats.succeeded == burst * 5 - 1, every=0.001
            )
            submitted = loop.time()
            await shop.submit("note")
            await eventually(lambda burst=burst: len(ran) == burst, every=0.001)

            assert ran[-1] - submitted < 0.4
            await eventually(
                lambda burst=burst: worker.stats.succeeded == burst * 5, every=0.001
            )


class FastPace(Pace):
    """Of a worker that ends two thousand jobs a second, for ever."""

    @property
    def ahead(self) -> int:
        return 100


async def test_a_worker_that_has_enough_takes_what_became_due_at_once(shop: Workshop):
    waiting = Waiting(shop)
    await shop.submit("wait", priority=1)
    await shop.engine.submit([a_job(type="wait") for _ in range(200)])
    due = await shop.submit("wait", delay=1_000)
    worker = shop.worker(concurrency=1)
    worker._fetcher._pace = FastPace(rooms=1)

    async with shop.working(worker):
        await within(waiting.entered.wait())
        await eventually(lambda: worker.stats.claimed == 101)
        shop.clock.advance(1_000)
        await shop.engine.promote(limit=10)
        for _ in range(5):
            worker.nudge()
            await eventually(lambda: worker.stats.claimed > 101)
            await asyncio.sleep(0.01)

        assert (await shop.job(due)).state is State.RUNNING
        assert worker.stats.claimed == 117  # however often it is nudged


async def test_a_worker_that_has_enough_of_a_flood_takes_another_tenants_job_with_the_next_end(
    shop: Workshop,
):
    """Where tenants take turns, and without another exchange."""
    gates = [asyncio.Event() for _ in range(4)]
    entered: list[str] = []

    async def wait(_: Any) -> None:
        entered.append(current_job().tenant)
        await within(gates[min(len(entered), 4) - 1].wait())

    shop.task("wait", wait)
    await queue_settings.put(
        shop.engine, "default", Layer.OVERRIDDEN, QueueSettings(order=Order.FAIR)
    )
    await shop.engine.submit([a_job(type="wait", tenant="flood") for _ in range(200)])
    worker = shop.worker(concurrency=1)
    worker._fetcher._pace = FastPace(rooms=1)

    async with shop.working(worker):
        await eventually(lambda: worker.stats.claimed == 101)
        quiet = await shop.submit("wait", tenant="quiet")
        gates[0].set()
        await eventually(lambda: worker.stats.succeeded == 1)
        is_claimed = (await shop.job(quiet)).state is State.RUNNING
        gates[1].set()
        gates[2].set()
        await eventually(lambda: len(entered) == 4)
        gates[3].set()

    assert is_claimed
    assert entered[:4] == ["flood", "flood", "flood", "quiet"]


async def test_what_a_limit_lets_run_does_not_wait_in_one_worker_while_another_has_room(
    shop: Workshop,
):
    is_open, running = asyncio.Event(), Counter[str]()

    async def quick(_: Any) -> None: ...

    async def long(_: Any) -> None:
        running["now"] += 1
        await is_open.wait()

    shop.task("quick", quick)
    shop.task("long", long)
    await queue_settings.put(
        shop.engine, "default", Layer.OVERRIDDEN, QueueSettings(max_running=4)
    )
    one = shop.worker(name="one", concurrency=2, lease=timedelta(seconds=1))
    two = shop.worker(name="two", concurrency=4, lease=timedelta(seconds=1))

    async def knows_its_queues() -> bool:
        return all(view.renewed_at >= since for view in (await shop.engine.sessions()).sessions)

    async with shop.working(one):
        await eventually(shop.engine.sessions)
        shop.clock.advance(1_000)
        since = shop.clock.now()
        await eventually(knows_its_queues)
        await shop.engine.submit([a_job(type="quick") for _ in range(400)])
        await eventually(lambda: one.stats.succeeded == 400, every=0.001)
        await shop.engine.submit([a_job(type="long") for _ in range(9)])
        await eventually(lambda: running["now"] == 2)
        async with shop.working(two):
            await eventually(lambda: running["now"] == 4)
            is_open.set()
            await eventually(lambda: one.stats.succeeded + two.stats.succeeded == 409)
