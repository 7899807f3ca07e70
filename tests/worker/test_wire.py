"""Frames and messages between a worker and its children."""

from datetime import timedelta

import pytest

from longshore.core.job import Failure
from longshore.directives import Cancel, Dead, Directive, Retry, Snooze
from longshore.testing.factories import a_claim
from longshore.worker import wire


def test_messages_come_back_whole_however_the_bytes_are_cut():
    order = wire.Order(a_claim(payload=b"x" * 1_000, tags=("a", "b")), 2.5, 123)
    stream = wire.encode(order) * 3

    for size in (1, 7, 1_024, len(stream)):
        frames = wire.Frames()
        chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
        bodies = [body for chunk in chunks for body in frames.feed(chunk)]
        assert [wire.decode_order(body) for body in bodies] == [order] * 3


def test_a_frame_that_no_message_can_have_is_refused():
    with pytest.raises(ValueError, match="a frame of"):
        list(wire.Frames().feed(b"\xff\xff\xff\xff"))


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
    report = wire.Raised(failure=Failure("x", "y"), wish=wire.wish_of(raised, "later"))

    (body,) = wire.Frames().feed(wire.encode(report))
    received = wire.decode_report(body)

    assert isinstance(received, wire.Raised)
    error = received.error()
    assert type(error) is type(raised)
    assert str(error) == "later"
    assert getattr(error, "after", None) == after


def test_any_other_exception_is_known_by_its_failure():
    failure = Failure("KeyError", "'name'", "Traceback")
    report = wire.Raised(failure=failure, wish=wire.wish_of(KeyError("name"), "name"))

    error = report.error()

    assert isinstance(error, wire.ForeignError)
    assert error.failure == failure
