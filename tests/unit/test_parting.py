import asyncio

import pytest

from longshore.core.job import Submitted, Verdict
from longshore.engines.postgres.submit_batch import Call, answer, divide, refuse, unite
from longshore.errors import InFlightError
from longshore.testing.factories import a_job


def a_call(jobs: int) -> Call:
    loop = asyncio.get_running_loop()
    return Call([a_job() for _ in range(jobs)], loop.create_future(), loop.time() + 1, True)


async def test_a_call_that_was_parted_is_answered_in_the_order_of_its_jobs():
    call = a_call(3)
    held, rest = divide(call, [[1], [0, 2]])
    uniting = asyncio.create_task(unite([held, rest], [1, 0, 2], call))

    refuse([held], InFlightError())
    answer([rest], [Submitted(job.id, Verdict.ACCEPTED) for job in rest.jobs])
    await asyncio.wait_for(uniting, 5)

    told = call.answer.result()
    assert [one.id for one in told] == [job.id for job in call.jobs]
    assert [one.verdict for one in told] == [Verdict.ACCEPTED, Verdict.HELD, Verdict.ACCEPTED]


async def test_a_call_that_was_refused_leaves_nobody_waiting_for_its_parts():
    call = a_call(2)
    parts = divide(call, [[0], [1]])
    uniting = asyncio.create_task(unite(parts, [0, 1], call))

    refuse([call], ValueError("unforeseen"))
    await asyncio.wait_for(uniting, 5)
    await asyncio.sleep(0)

    assert all(one.answer.cancelled() for one in parts)
    with pytest.raises(ValueError, match="unforeseen"):
        await call.answer
