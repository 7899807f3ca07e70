"""When a commit that callers share begins, on a clock that stands still."""

import asyncio

import pytest

from longshore.engines.postgres.group_commit import Gathering


class Loop(asyncio.SelectorEventLoop):
    """An event loop of which the test is the clock."""

    now = 100.0

    def time(self) -> float:
        return self.now

    def turn(self) -> None:
        """Run what is due."""
        self.call_soon(self.stop)
        self.run_forever()


class Callers:
    """Who waits, and what has been sent for them."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.waiting = 0
        self.commits: list[int] = []
        self._gathering = Gathering(self._go)

    def call(self, count: int = 1, *, at: float = 0.0) -> None:
        self.loop.now = 100.0 + at
        self.loop.turn()
        for _ in range(count):
            self.waiting += 1
            self._gathering.plan(self.loop, self.waiting, 0)
        self.loop.turn()

    def _go(self) -> None:
        if self.waiting:
            self.commits.append(self.waiting)
            self.waiting = 0


@pytest.fixture
def callers():
    loop = Loop()
    yield Callers(loop)
    loop.close()


def test_one_after_the_other_never_waits(callers: Callers):
    for number in range(20):
        callers.call(at=number * 0.0005)

    assert callers.commits == [1] * 20


def test_those_who_call_again_when_they_are_answered_wait_for_each_other_and_no_longer(
    callers: Callers,
):
    for number in range(20):
        callers.call(8, at=number * 0.001)

    assert callers.commits == [8] * 20


def test_who_comes_when_he_likes_shares_a_commit_every_four_milliseconds(callers: Callers):
    callers.call(8)
    for number in range(1, 41):
        callers.call(at=number * 0.001)

    assert callers.commits[0] == 8
    assert len(callers.commits) == 11
    assert set(callers.commits[1:]) <= {3, 4, 5}


@pytest.mark.parametrize(("expected", "commits"), [(128, [64]), (130, [])])
def test_half_of_a_crowd_does_not_wait_for_the_other_half(
    callers: Callers, expected: int, commits: list[int]
):
    callers.call(expected)
    callers.commits.clear()

    callers.call(64, at=0.001)

    assert callers.commits == commits


def test_a_crowd_is_forgotten(callers: Callers):
    callers.call(8)
    callers.call(at=0.6)
    callers.call(at=1.2)
    callers.commits.clear()

    for number in range(10):
        callers.call(at=1.3 + number * 0.0005)

    assert callers.commits == [1] * 10
