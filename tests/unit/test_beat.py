import asyncio
import math

from longshore.runtime.ticker import Beat
from longshore.testing.harness import eventually


async def test_a_tick_that_leaves_a_cancellation_behind_does_not_end_the_loop():
    ticks = 0

    async def fail() -> None:
        raise ValueError("one of several")

    async def tick() -> float:
        nonlocal ticks
        ticks += 1
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
        return 0.0

    beat = Beat("unlucky", tick)
    running = asyncio.create_task(beat.run())
    await eventually(lambda: ticks >= 2)
    beat.stop()

    await running
    assert not running.cancelled()


async def test_a_tick_may_ask_never_to_come_again_and_be_nudged():
    ticks = 0

    async def tick() -> float:
        nonlocal ticks
        ticks += 1
        return math.inf

    beat = Beat("rare", tick)
    running = asyncio.create_task(beat.run())
    await eventually(lambda: ticks == 1)
    beat.nudge()
    await eventually(lambda: ticks == 2)
    beat.stop()

    await running
