"""The door of an endpoint: how many are inside, and when it opens again."""

from longshore.core import door
from longshore.core.door import Door

SECOND = 1_000_000


def entered(now: int, *holders: str, before: Door | None = None) -> Door:
    standing = before or Door()
    for holder in holders:
        standing, refusal = door.enter(standing, holder, most=9, lease=SECOND, now=now)
        assert refusal is None
    return standing


def test_what_has_lapsed_leaves_the_door():
    after = entered(5 * SECOND, "c", before=entered(0, "a", "b"))

    assert [one.holder for one in after.passes] == ["c"]


def test_a_clock_that_is_set_back_keeps_nobody_out():
    ahead = entered(3_600 * SECOND, "a")

    _, refusal = door.enter(ahead, "b", most=1, lease=SECOND, now=0)

    assert refusal is None


def test_a_probe_that_is_lost_does_not_close_the_door_for_good():
    standing = Door()
    for _ in range(door.FAILURES):
        standing = door.leave(entered(0, "a", before=standing), "a", is_success=False, now=0)
    probing = entered(door.REST_US, "b", before=standing)

    meanwhile = door.enter(probing, "c", most=9, lease=SECOND, now=door.REST_US)[1]
    later = door.enter(probing, "c", most=9, lease=SECOND, now=door.REST_US + SECOND)[1]

    assert meanwhile == door.Refusal()
    assert later is None
