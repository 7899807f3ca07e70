import asyncio
from collections.abc import Awaitable, Callable

import pytest

from longshore.contract import Engine, Retention
from longshore.core.token_bucket import Borrowed
from longshore.errors import ConfigError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import HOUR, SECOND

Reopen = Callable[[], Awaitable[Engine]]


async def _borrow(engine: Engine, want: int, name: str = "submit:acme") -> Borrowed:
    """From a bucket of ten tokens that gets two a second."""
    return await engine.borrow(name, rate=2.0, burst=10, want=want)


async def test_a_fresh_bucket_is_full(engine: Engine) -> None:
    first = await _borrow(engine, 4)
    rest = await _borrow(engine, 9)

    assert first == Borrowed(granted=4, left=6)
    assert rest == Borrowed(granted=6, left=0, retry_after=SECOND // 2)


async def test_a_bucket_fills_with_time_and_no_further_than_its_burst(
    engine: Engine, clock: ManualClock
) -> None:
    await _borrow(engine, 10)
    clock.advance(SECOND * 3 // 4)
    early = await _borrow(engine, 10)
    clock.advance(SECOND // 4)
    second = await _borrow(engine, 10)
    clock.advance(HOUR)

    full = await _borrow(engine, 20)

    # What was left of a token at the first look is not lost at the second.
    assert (early.granted, early.retry_after) == (1, SECOND // 4)
    assert (second.granted, full.granted) == (1, 10)


async def test_asking_for_nothing_tells_what_is_left(engine: Engine) -> None:
    await _borrow(engine, 3)

    assert await _borrow(engine, 0) == Borrowed(granted=0, left=7)
    assert await _borrow(engine, 0) == Borrowed(granted=0, left=7)


async def test_buckets_of_other_names_are_others(engine: Engine) -> None:
    await _borrow(engine, 10)

    other = await _borrow(engine, 10, name="submit:other")

    assert other.granted == 10


async def test_a_clock_that_is_set_back_neither_fills_a_bucket_nor_stops_it(
    engine: Engine, clock: ManualClock
) -> None:
    await _borrow(engine, 10)
    clock.step(-HOUR)

    at_once = await _borrow(engine, 10)
    clock.advance(SECOND)
    later = await _borrow(engine, 10)

    assert (at_once.granted, at_once.retry_after) == (0, SECOND // 2)
    assert later.granted == 2


async def test_a_clock_that_is_set_back_a_little_gives_no_token_twice(
    engine: Engine, clock: ManualClock
) -> None:
    await _borrow(engine, 10)
    clock.advance(SECOND)
    await _borrow(engine, 1)
    clock.step(-SECOND)
    clock.advance(SECOND)

    again = await _borrow(engine, 10)

    assert again.granted == 1


async def test_a_bucket_with_a_new_limit_keeps_what_was_taken(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.borrow("b", rate=1.0, burst=5, want=5)

    empty = await engine.borrow("b", rate=100.0, burst=500, want=500)
    clock.advance(SECOND)
    filled = await engine.borrow("b", rate=100.0, burst=500, want=500)

    assert (empty.granted, filled.granted) == (0, 100)


@pytest.mark.parametrize(
    ("rate", "burst", "want"),
    [
        (0.0, 1, 1),
        (-1.0, 1, 1),
        (float("nan"), 1, 1),
        (float("inf"), 1, 1),
        (1.0, 0, 1),
        (1.0, 10**9, 1),
        (1.0, 1, -1),
        (1.0, 1, 10**9),
    ],
)
async def test_a_limit_that_makes_no_sense_is_refused(
    engine: Engine, rate: float, burst: int, want: int
) -> None:
    with pytest.raises(ConfigError):
        await engine.borrow("b", rate=rate, burst=burst, want=want)


async def test_pruning_leaves_a_bucket_that_is_not_full(
    engine: Engine, clock: ManualClock
) -> None:
    await _borrow(engine, 10)
    clock.advance(SECOND)
    await engine.prune(Retention(), limit=100)
    early = await _borrow(engine, 10)
    clock.advance(HOUR)
    await engine.prune(Retention(), limit=100)

    late = await _borrow(engine, 20)

    assert (early.granted, late.granted) == (2, 10)


async def test_many_who_borrow_at_once_get_no_more_than_there_is(engine: Engine) -> None:
    answers = await asyncio.gather(*(_borrow(engine, 3) for _ in range(12)))

    assert sum(answer.granted for answer in answers) == 10
    assert all(answer.retry_after > 0 for answer in answers if answer.granted < 3)


@requires("shared_between_processes")
async def test_processes_share_a_bucket(engine: Engine, reopen: Reopen) -> None:
    others = [await reopen() for _ in range(3)]

    answers = await asyncio.gather(
        *(_borrow(one, 1) for _ in range(5) for one in (engine, *others))
    )

    assert sum(answer.granted for answer in answers) == 10


async def test_pruning_forgets_buckets_when_they_are_full(
    engine: Engine, clock: ManualClock
) -> None:
    for burst in (3, 1, 2):
        await engine.borrow(f"of-{burst}", rate=1.0, burst=burst, want=burst)
    clock.advance(2 * SECOND)
    pruned = [await engine.prune(Retention(), limit=1) for _ in range(3)]
    clock.advance(SECOND)

    pruned.append(await engine.prune(Retention(), limit=1))

    assert pruned == [1, 1, 0, 1]
