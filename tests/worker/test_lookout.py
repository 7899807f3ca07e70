"""Stuck or not: what a lookout makes of what it sees, second by second."""

import logging

import pytest

from longshore.runtime.clock import ManualClock
from longshore.testing.factories import SECOND
from longshore.worker.health import Condition, Health
from longshore.worker.lookout import Lookout

AFTER = 60.0


class Subject:
    """A worker as a lookout sees it."""

    def __init__(self) -> None:
        self.able_at: float | None = None
        self.is_hungry = False
        self.is_leaving = False
        self.begins_again = False

    def give_up(self) -> None:
        raise AssertionError("nobody asked for that")


class Board:
    """A sign that remembers what it showed."""

    def __init__(self) -> None:
        self.shown: list[Health] = []

    def show(self, health: Health) -> None:
        self.shown.append(health)


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.worker = Subject()
        self.board = Board()
        self.lookout = Lookout(after=AFTER, clock=self.clock, signs=[self.board])
        self.lookout.begin(self.worker)

    def pass_time(self, seconds: int, *, is_able: bool) -> Condition:
        """Look every second; the condition in the end."""
        for _ in range(seconds):
            self.clock.advance(SECOND)
            if is_able:
                self.worker.able_at = self.clock.monotonic()
            self.lookout.look()
        return self.lookout.health.condition


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_worker_is_ready_from_its_first_session_on(scene: Scene):
    before = scene.pass_time(2, is_able=False)

    after = scene.pass_time(1, is_able=True)

    assert (before, after) == (Condition.STARTING, Condition.READY)
    assert scene.board.shown[-1].is_ready
    assert not scene.board.shown[0].is_ready


def test_a_worker_that_can_claim_is_never_stuck(scene: Scene):
    assert scene.pass_time(600, is_able=True) is Condition.READY


def test_a_worker_that_cannot_claim_for_a_minute_is_stuck_and_says_so_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
):
    scene.pass_time(5, is_able=True)

    before = scene.pass_time(59, is_able=False)
    after = scene.pass_time(1, is_able=False)
    scene.pass_time(120, is_able=False)

    assert (before, after) == (Condition.READY, Condition.STUCK)
    assert [record.message for record in caplog.records] == ["worker is stuck"]
    assert scene.lookout.health.why == "the engine does not answer"
    assert not scene.board.shown[-1].is_ready


def test_a_worker_that_never_had_a_session_is_stuck_after_a_minute_too(scene: Scene):
    assert scene.pass_time(60, is_able=False) is Condition.STUCK


def test_a_hungry_worker_is_stuck_for_another_reason(scene: Scene):
    scene.worker.able_at = scene.clock.monotonic()
    scene.worker.is_hungry = True

    scene.pass_time(61, is_able=False)

    assert scene.lookout.health.why == "jobs wait that it serves, and it gets none"


def test_a_worker_that_can_claim_again_is_ready_again(
    scene: Scene, caplog: pytest.LogCaptureFixture
):
    scene.pass_time(61, is_able=False)

    condition = scene.pass_time(1, is_able=True)

    assert condition is Condition.READY
    assert caplog.records[-1].message == "worker can claim again"


def test_time_in_which_the_process_was_stopped_does_not_count(scene: Scene):
    scene.pass_time(5, is_able=True)

    scene.clock.advance(3600 * SECOND)
    first = scene.pass_time(1, is_able=False)
    later = scene.pass_time(58, is_able=False)
    at_last = scene.pass_time(2, is_able=False)

    assert (first, later, at_last) == (Condition.READY, Condition.READY, Condition.STUCK)


def test_a_worker_that_leaves_is_neither_ready_nor_stuck(
    scene: Scene, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    scene.pass_time(5, is_able=True)
    scene.worker.is_leaving = True

    condition = scene.pass_time(300, is_able=False)

    assert condition is Condition.LEAVING
    assert caplog.records == []


def test_a_worker_that_goes_to_begin_again_is_not_said_to_leave(scene: Scene):
    scene.pass_time(5, is_able=True)
    scene.worker.is_leaving = scene.worker.begins_again = True

    condition = scene.pass_time(3, is_able=True)
    scene.lookout.stop()

    assert condition is Condition.STARTING
    assert Condition.LEAVING not in {health.condition for health in scene.board.shown}
    assert not scene.board.shown[-1].is_ready


def test_when_it_stops_nothing_shows_that_the_worker_is_ready(scene: Scene):
    scene.pass_time(5, is_able=True)

    scene.lookout.stop()

    assert scene.board.shown[-1].condition is Condition.LEAVING
