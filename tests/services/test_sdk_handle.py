"""What a producer learns of its job afterwards."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from longshore import (
    EngineBusyError,
    IllegalTransitionError,
    JobFailedError,
    JobHandle,
    JobNotFoundError,
    Longshore,
    LongshoreError,
    State,
    WaitTimeoutError,
)
from longshore.core.job import Failure, Job
from longshore.testing.manual import ManualWorker, a_worker


class Receipt(msgspec.Struct):
    number: int


@pytest.fixture
async def app() -> AsyncIterator[Longshore]:
    app = Longshore("sqlite://:memory:")
    async with app:
        yield app


@pytest.fixture
async def worker(app: Longshore) -> ManualWorker:
    return await a_worker(app.engine, types=["pay"])


@pytest.fixture
async def payment(app: Longshore) -> JobHandle[Receipt]:
    @app.task(max_attempts=1)
    async def pay(cents: int) -> Receipt:
        return Receipt(cents)

    return await pay.submit(100)


async def test_a_result_is_what_the_task_is_annotated_to_return(
    payment: JobHandle[Receipt], worker: ManualWorker
):
    (claim,) = await worker.claim()
    await worker.succeed(claim, b'{"number":7}')

    assert await payment.result(timeout=0) == Receipt(7)


async def test_waiting_for_a_result_ends_when_the_job_does(
    payment: JobHandle[Receipt], worker: ManualWorker
):
    (claim,) = await worker.claim()
    waiting = asyncio.create_task(payment.result(timeout=30))
    await worker.succeed(claim, b'{"number":7}')

    assert await waiting == Receipt(7)


async def test_a_dead_job_has_no_result_but_a_reason(
    payment: JobHandle[Receipt], worker: ManualWorker
):
    (claim,) = await worker.claim()
    await worker.fail(claim, Failure("CardError", "declined"))

    with pytest.raises(JobFailedError, match="CardError: declined") as caught:
        await payment.result(timeout=0)
    assert (caught.value.job_id, caught.value.state) == (payment.id, State.DEAD)


async def test_a_cancelled_job_has_no_result_but_a_reason(payment: JobHandle[Receipt]):
    job = await payment.cancel("changed my mind")

    assert job.state is State.CANCELLED
    with pytest.raises(JobFailedError, match="ended cancelled: changed my mind"):
        await payment.result(timeout=0)
    with pytest.raises(IllegalTransitionError):
        await payment.cancel()


async def test_a_wait_ends_at_its_deadline_and_the_job_goes_on(payment: JobHandle[Receipt]):
    with pytest.raises(WaitTimeoutError, match=r"is still ready after 0\.01 s"):
        await payment.result(timeout=0.01)

    assert await payment.status() is State.READY


async def test_a_result_of_another_shape_is_an_error_and_not_a_lie(
    payment: JobHandle[Receipt], worker: ManualWorker
):
    (claim,) = await worker.claim()
    await worker.succeed(claim, b'"seven"')

    with pytest.raises(LongshoreError, match="annotated to return"):
        await payment.result(timeout=0)


async def test_a_handle_can_be_made_from_an_id(
    app: Longshore, payment: JobHandle[Receipt], worker: ManualWorker
):
    (claim,) = await worker.claim()
    await worker.succeed(claim, b'{"number":7}')

    again = app.job(payment.id)

    assert await again.result(timeout=0) == {"number": 7}
    assert not again.is_new
    with pytest.raises(ValueError, match="not a job id"):
        app.job("7")
    with pytest.raises(JobNotFoundError):
        await app.job(f"{payment.id[:-4]}0000").get()


async def test_a_store_that_is_busy_for_a_moment_does_not_end_the_wait():
    class Busy:
        """A store whose lock someone holds the first two times."""

        calls = 0

        async def get(self, job_id: bytes, *, tenant: str | None = None) -> Job:
            self.calls += 1
            if self.calls < 3:
                raise EngineBusyError("locked")
            raise JobNotFoundError("it was asked again")

    class Front:
        backend = Busy()

    with pytest.raises(JobNotFoundError, match="asked again"):
        await JobHandle(Front(), bytes(16)).result(timeout=5)  # type: ignore[arg-type]
    Front.backend.calls = 0
    with pytest.raises(EngineBusyError):
        await JobHandle(Front(), bytes(16)).result(timeout=0)  # type: ignore[arg-type]
