"""Claimed jobs that wait for a slot."""

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

    assert [claim.handle for claim in buffer.claims] == [10, 11, 0, 1, 2, 13, 12]
    assert len(buffer.take_older(1.5)) == 3


def test_who_comes_late_to_a_fair_queue_does_not_wait_behind_what_was_claimed_of_others():
    """Each in its own order, and jobs of other queues keep their places."""
    buffer = Buffer()
    buffer.add(
        [a_claim(handle=number, tenant="flood") for number in range(3)], 1.0, ["default"]
    )
    buffer.add([a_claim(handle=10, queue="plain", tenant="quiet")], 2.0)

    quiet = [a_claim(handle=number, tenant="quiet") for number in (20, 21)]
    buffer.add([*quiet, a_claim(handle=3, tenant="flood")], 3.0, ["default"])

    assert [claim.handle for claim in buffer.claims] == [0, 20, 1, 10, 21, 2, 3]


def test_without_turns_the_first_to_come_goes_first():
    buffer = Buffer()
    buffer.add([a_claim(handle=number, tenant="flood") for number in range(3)], 1.0)
    buffer.add([a_claim(handle=3, tenant="quiet")], 2.0)

    assert [claim.handle for claim in buffer.claims] == [0, 1, 2, 3]
