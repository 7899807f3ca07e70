"""Events in their compact form."""

from longshore.core.event import EventBatch, Group, Name, decode, encode, expand
from longshore.core.job import JobId

ONE, TWO = JobId(b"1" * 16), JobId(b"2" * 16)


def test_a_batch_comes_back_as_it_was_stored() -> None:
    groups = [
        Group(Name.SUBMITTED, "q", "t", "default", ONE + TWO),
        Group(Name.DEAD, "q", "t", "default", ONE, [{"reason": "exhausted"}]),
    ]

    assert decode(encode(groups)) == groups


def test_expanding_gives_one_event_per_job_in_order() -> None:
    batch = EventBatch(
        9,
        123,
        [
            Group(Name.STARTED, "q", "t", "default", ONE + TWO),
            Group(Name.FAILED, "q", "t", "default", TWO, [{"delivery": 4}]),
        ],
    )

    events = list(expand(batch))

    assert [(one.id, one.name, one.job_id) for one in events] == [
        ("9.0", Name.STARTED, ONE),
        ("9.1", Name.STARTED, TWO),
        ("9.2", Name.FAILED, TWO),
    ]
    assert [one.details for one in events] == [{}, {}, {"delivery": 4}]


def test_an_events_id_never_changes() -> None:
    batch = EventBatch(9, 123, [Group(Name.STARTED, "q", "t", "default", ONE + TWO)])

    assert [one.id for one in expand(batch)] == [one.id for one in expand(batch)]


def test_a_batch_is_expanded_from_any_event_on() -> None:
    groups = [
        Group(Name.STARTED, "q", "t", "default", ONE + TWO),
        Group(
            Name.FAILED, "q", "", "", ONE + TWO, [{"a": 1}, {"b": 2}], ["x", "y"], ["r", "s"]
        ),
    ]
    batch = EventBatch(9, 123, groups)
    whole = list(expand(batch))

    parts = [list(expand(batch, start=start)) for start in range(6)]

    assert parts == [whole[start:] for start in range(6)]
    assert batch.count == len(whole) == 4
