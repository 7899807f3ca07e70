"""The gate of a webhook endpoint: what is in flight, and when it opens again."""

from longshore.core import webhook_gate
from longshore.core.webhook_gate import COOLDOWN_US, FAILURES, Gate, Rejected

SECOND = 1_000_000


def admitted(now: int, *deliveries: str, before: Gate | None = None) -> Gate:
    gate = before or Gate()
    for one in deliveries:
        gate, rejected = webhook_gate.admit(gate, one, max_in_flight=9, lease=SECOND, now=now)
        assert rejected is None
    return gate


def rejection(gate: Gate, delivery: str, *, now: int, most: int = 9) -> Rejected | None:
    _, rejected = webhook_gate.admit(gate, delivery, max_in_flight=most, lease=SECOND, now=now)
    return rejected


def test_a_place_that_lapsed_is_gone():
    after = admitted(5 * SECOND, "c", before=admitted(0, "a", "b"))

    assert [one.id for one in after.in_flight] == ["c"]


def test_a_clock_that_is_set_back_rejects_nothing():
    ahead = admitted(3_600 * SECOND, "a")

    assert rejection(ahead, "b", now=0, most=1) is None


def test_a_probe_that_is_lost_does_not_close_the_gate_for_good():
    gate = Gate()
    for _ in range(FAILURES):
        before = admitted(0, "a", before=gate)
        gate = webhook_gate.release(before, "a", succeeded=False, now=0)
    probing = admitted(COOLDOWN_US, "b", before=gate)

    meanwhile = rejection(probing, "c", now=COOLDOWN_US)
    later = rejection(probing, "c", now=COOLDOWN_US + SECOND)

    assert meanwhile == Rejected()
    assert later is None
