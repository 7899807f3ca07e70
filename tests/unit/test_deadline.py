"""Deadlines of calls, and the time that they do not count."""

import asyncio

import pytest

from longshore.runtime.deadline import Deadline, TurnLock, uncounted

SOON = 0.1
LONG = 30.0


async def test_a_block_that_takes_longer_than_its_deadline_is_ended() -> None:
    with pytest.raises(TimeoutError):
        async with Deadline(SOON):
            await asyncio.sleep(LONG)


async def test_time_for_setting_up_is_not_counted() -> None:
    async with Deadline(SOON):
        with uncounted():
            await asyncio.sleep(4 * SOON)


async def test_what_comes_after_setting_up_is_counted_again() -> None:
    with pytest.raises(TimeoutError):
        async with Deadline(SOON):
            with uncounted():
                await asyncio.sleep(2 * SOON)
            await asyncio.sleep(LONG)


async def test_setting_up_ends_with_all_the_time_that_there_is() -> None:
    with pytest.raises(TimeoutError):
        async with Deadline(SOON, at_most=2 * SOON):
            with uncounted():
                await asyncio.sleep(LONG)


async def test_a_deadline_around_another_does_not_count_it_either() -> None:
    async with Deadline(SOON), Deadline(LONG):
        with uncounted():
            await asyncio.sleep(4 * SOON)


async def test_time_in_which_two_tasks_set_something_up_is_left_out_once() -> None:
    async def set_up(seconds: float) -> None:
        with uncounted():
            await asyncio.sleep(seconds)

    with pytest.raises(TimeoutError):
        async with Deadline(SOON):
            await asyncio.gather(set_up(4 * SOON), set_up(2 * SOON))
            # Counted twice, there would be time for this.
            await asyncio.sleep(2 * SOON)


async def test_a_task_that_the_block_left_behind_does_not_disturb_anyone() -> None:
    async def set_up() -> None:
        with uncounted():
            await asyncio.sleep(2 * SOON)

    async with Deadline(SOON):
        behind = asyncio.create_task(set_up())
        await asyncio.sleep(0)

    await behind


async def test_waiting_for_anothers_call_is_not_counted_by_ones_own_deadline() -> None:
    lock = TurnLock()
    await lock.acquire()
    asyncio.get_running_loop().call_later(4 * SOON, lock.release)

    async with Deadline(SOON), lock:
        pass


def test_a_deadline_of_another_loop_is_left_alone() -> None:
    """Whoever hands a call to a loop in another thread hands its context over with it."""

    async def set_up() -> None:
        with uncounted():
            await asyncio.sleep(0)

    async def main() -> None:
        async with Deadline(LONG):
            await asyncio.to_thread(asyncio.run, set_up())

    asyncio.run(main())
