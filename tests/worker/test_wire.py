"""Frames and messages between a worker and its children."""

from datetime import timedelta

import pytest

from longshore.core.job import Failure
from longshore.directives import Cancel, Dead, Directive, Retry, Snooze
from longshore.testing.factories import a_claim
from longshore.worker import child_protocol


def test_messages_come_back_whole_however_the_bytes_are_cut():
    order = child_protocol.Order(a_claim(payload=b"x" * 1_000, tags=("a", "b")), 2.5, 123)
    stream = child_protocol.encode(order) * 3

    for size in (1, 7, 1_024, len(stream)):
        frames = child_protocol.Frames()
        chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
        bodies = [body for chunk in chunks for body in frames.feed(chunk)]
        assert [child_protocol.decode_order(body) for body in bodies] == [order] * 3


def test_a_frame_that_no_message_can_have_is_refused():
    with pytest.raises(ValueError, match="a frame of"):
        list(child_protocol.Frames().feed(b"\xff\xff\xff\xff"))


@pytest.mark.parametrize(
    ("raised", "after"),
    [
        (Retry(reason="later"), None),
        (Retry(after=2, reason="later"), 2.0),
        (Snooze(timedelta(minutes=1), reason="later"), 60.0),
        (Dead("later"), None),
        (Cancel("later"), None),
    ],
)
def test_a_directive_is_the_same_on_the_other_side(raised: Directive, after: float | None):
    report = child_protocol.Raised(
        failure=Failure("x", "y"), wish=child_protocol.wish_of(raised, "later")
    )

    (body,) = child_protocol.Frames().feed(child_protocol.encode(report))
    received = child_protocol.decode_report(body)

    assert isinstance(received, child_protocol.Raised)
    error = received.error()
    assert type(error) is type(raised)
    assert str(error) == "later"
    assert getattr(error, "after", None) == after


def test_any_other_exception_is_known_by_its_failure():
    failure = Failure("KeyError", "'name'", "Traceback")
    report = child_protocol.Raised(
        failure=failure, wish=child_protocol.wish_of(KeyError("name"), "name")
    )

    error = report.error()

    assert isinstance(error, child_protocol.ForeignError)
    assert error.failure == failure
