"""Claimed jobs that wait for a slot."""

from collections.abc import Iterable

from longshore.core.job import Claim
from longshore.testing.factories import SECOND, a_claim
from longshore.worker.buffer import Buffer


def test_what_is_due_at_a_time_does_not_wait_behind_what_runs_as_soon_as_possible():
    buffer = Buffer()
    first = [a_claim(handle=number) for number in range(3)]
    late = a_claim().created_at + SECOND
    punctual = [a_claim(handle=number, run_at=late) for number in (10, 11)]
    retried = a_claim(handle=12, run_at=late, delivery=2)

    buffer.add(first, 1.0)
    buffer.add([*punctual, a_claim(handle=13)], 2.0)
    buffer.add([retried], 3.0)

    assert _handles(buffer.claims) == [10, 11, 0, 1, 2, 13, 12]
    assert _handles(buffer.take_older(1.5)) == [0, 1, 2]
    assert _handles(buffer.claims) == [10, 11, 13, 12]


def test_what_is_due_at_a_time_waits_behind_what_is_more_urgent():
    buffer = Buffer()
    late = a_claim().created_at + SECOND
    urgent = [a_claim(handle=number, priority=1) for number in range(2)]
    buffer.add([*urgent, a_claim(handle=2), a_claim(handle=3, priority=9)], 1.0)

    buffer.add([a_claim(handle=10, run_at=late), a_claim(handle=11)], 2.0)
    mixed = [a_claim(handle=20, priority=1), a_claim(handle=21, run_at=late)]
    buffer.add([*mixed, a_claim(handle=22, priority=9, run_at=late)], 3.0)

    assert _handles(buffer.claims) == [0, 1, 10, 21, 2, 22, 3, 11, 20]


def test_those_that_came_first_are_the_old_ones_wherever_they_stand():
    """The slots take from the front meanwhile, and nobody is told."""
    buffer = Buffer()
    late = a_claim().created_at + SECOND
    buffer.add([a_claim(handle=number) for number in range(100)], 0.0)
    buffer.add([a_claim(handle=100 + number, run_at=late) for number in range(16)], 0.99)
    taken = [buffer.claims.popleft().handle for _ in range(6)]

    old = buffer.take_older(0.5)

    assert taken == [100, 101, 102, 103, 104, 105]
    assert _handles(old) == list(range(100))
    assert _handles(buffer.claims) == list(range(106, 116))
    assert buffer.take_older(0.98) == []
    assert _handles(buffer.take_older(0.99)) == list(range(106, 116))


def test_turns_do_not_make_a_claim_younger_or_older():
    buffer = Buffer()
    buffer.add(
        [a_claim(handle=number, tenant="flood") for number in range(3)], 1.0, ["default"]
    )
    buffer.add([a_claim(handle=10 + n, tenant="quiet") for n in range(2)], 2.0, ["default"])

    old = buffer.take_older(1.0)

    assert (_handles(old), _handles(buffer.claims)) == ([0, 1, 2], [10, 11])


def test_what_stays_when_others_are_stopped_is_as_old_as_it_was():
    buffer = Buffer()
    buffer.add([a_claim(handle=number) for number in range(3)], 1.0)
    buffer.add([a_claim(handle=3)], 2.0)

    named = buffer.take_named({(1, 1)})

    assert _handles(named) == [1]
    assert _handles(buffer.take_older(1.0)) == [0, 2]
    assert _handles(buffer.take_all()) == [3]


def test_who_comes_late_to_a_fair_queue_does_not_wait_behind_what_was_claimed_of_others():
    """Each in its own order, and jobs of other queues keep their places."""
    buffer = Buffer()
    buffer.add(
        [a_claim(handle=number, tenant="flood") for number in range(3)], 1.0, ["default"]
    )
    buffer.add([a_claim(handle=10, queue="plain", tenant="quiet")], 2.0)

    quiet = [a_claim(handle=number, tenant="quiet") for number in (20, 21)]
    buffer.add([*quiet, a_claim(handle=3, tenant="flood")], 3.0, ["default"])

    assert _handles(buffer.claims) == [0, 20, 1, 10, 21, 2, 3]


def test_without_turns_the_first_to_come_goes_first():
    buffer = Buffer()
    buffer.add([a_claim(handle=number, tenant="flood") for number in range(3)], 1.0)
    buffer.add([a_claim(handle=3, tenant="quiet")], 2.0)

    assert _handles(buffer.claims) == [0, 1, 2, 3]


def _handles(claims: Iterable[Claim]) -> list[int]:
    return [claim.handle for claim in claims]
