"""When a full queue is worth another try, by the age of the count that found it full."""

from collections.abc import Set

import pytest

from longshore.core.job import JobId, NewJob
from longshore.errors import QueueFullError
from longshore.runtime.backpressure import Depth, Depths
from longshore.testing.factories import a_job


class SlowCount:
    """One queue that is full; counting it takes `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.now = 100.0
        self._seconds = seconds

    async def depths(self) -> list[Depth]:
        self.now += self._seconds
        return [Depth("default", None, 1, 1)]

    async def known(self, jobs: object) -> Set[JobId]:
        return set[JobId]()


async def retry_after(depths: Depths, job: NewJob) -> float:
    with pytest.raises(QueueFullError) as refused:
        await depths.admit([job])
    return refused.value.retry_after


async def test_a_count_that_was_quick_is_made_again_after_a_second() -> None:
    source = SlowCount(seconds=0.05)
    depths = Depths(source, lambda: source.now)

    at_once = await retry_after(depths, a_job())
    source.now += 0.9
    later = await retry_after(depths, a_job())

    assert (at_once, later) == (1.0, 1.0)


async def test_a_slow_count_asks_for_the_time_until_it_is_made_again_and_no_longer() -> None:
    source = SlowCount(seconds=2.0)
    depths = Depths(source, lambda: source.now)

    found = [await retry_after(depths, a_job())]
    for pause in (15.0, 4.5):
        source.now += pause
        found.append(await retry_after(depths, a_job()))

    assert found == [20.0, 5.0, 1.0]


async def test_no_count_is_relied_on_for_more_than_half_a_minute() -> None:
    source = SlowCount(seconds=60.0)
    depths = Depths(source, lambda: source.now)

    assert await retry_after(depths, a_job()) == 30.0
