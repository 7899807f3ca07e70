"""How much of the outbox is handed on at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.core.event import Event, EventBatch, Group, Name, expand
from longshore.core.outbox_batch import next_portion


def batches_of(*sizes: int) -> list[EventBatch]:
    return [
        EventBatch(place, 0, [Group(Name.READY, "q", "t", "default", bytes(16 * size))])
        for place, size in enumerate(sizes, 1)
    ]


@pytest.mark.parametrize(
    ("sizes", "into", "expected"),
    [
        ((3, 3, 3), 0, (6, 2, 0)),
        ((3, 4, 1), 0, (7, 2, 0)),
        ((7, 1), 0, (7, 1, 0)),
        ((8, 1), 0, (7, 0, 7)),
        ((8, 1), 7, (1, 1, 0)),
        ((15,), 7, (7, 0, 14)),
        ((0, 0, 1), 0, (1, 3, 0)),
    ],
)
def test_a_portion_is_whole_batches_or_a_part_of_one(
    sizes: tuple[int, ...], into: int, expected: tuple[int, int, int]
) -> None:
    portion = next_portion(batches_of(*sizes), 7, into=into)

    assert (len(portion.events), portion.passed, portion.into) == expected


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(1, 9))
def test_portions_hold_every_event_once_and_are_bounded_between_notes(
    sizes: list[int], most: int
) -> None:
    waiting = batches_of(*sizes)
    wanted = [one for batch in waiting for one in expand(batch)]
    handed: list[Event] = []
    since_note = into = 0
    while waiting:
        portion = next_portion(waiting, most, into=into)
        handed += portion.events
        since_note += len(portion.events)
        assert len(portion.events) <= most
        assert since_note <= max(most, *sizes, 0)
        if portion.passed:
            since_note = 0
        waiting, into = waiting[portion.passed :], portion.into

    assert handed == wanted
