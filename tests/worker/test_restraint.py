"""How much is asked of queues whose limits hold jobs back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from longshore.core.responses import Exchanged, Share
from longshore.testing.factories import a_claim
from longshore.worker.appetite import Request
from longshore.worker.lease import NEVER
from longshore.worker.restraint import Restraint

ALL = ("mail", "default")


@dataclass
class Fleet:
    shares: Sequence[Share] = (Share("mail", max_running=4), Share("default"))


def an_answer(*queues: str, **facts: Any) -> Exchanged:
    return Exchanged(
        0, [a_claim(handle=n, queue=name) for n, name in enumerate(queues)], **facts
    )


def one_that_was_held_back(queues: tuple[str, ...] = ALL) -> Restraint:
    restraint = Restraint(Fleet(), queues)
    restraint.received(Request(50, None), an_answer("mail", look_in=1_000), 4, 0.0)
    return restraint


def test_as_long_as_nothing_is_held_back_everything_is_asked_for():
    restraint = Restraint(Fleet(), ALL)
    restraint.received(Request(50, None), an_answer("mail"), 4, 0.0)

    assert restraint.request(Request(50, ALL), 4, 0.1) == Request(50, ALL)


def test_what_a_limit_holds_back_is_asked_for_as_far_as_there_are_rooms():
    restraint = one_that_was_held_back(("mail",))

    assert restraint.request(Request(50, None), 3, 0.1) == Request(3, None)
    assert restraint.request(Request(50, None), 0, 0.1).want == 0
    assert restraint.request(Request(50, None), 0, 2.0).want == 50, "it may have passed"


def test_queues_without_a_limit_take_turns_with_those_that_have_one():
    restraint = one_that_was_held_back()
    others = Request(50, ("default",), is_partial=True)
    assert restraint.request(Request(50, None), 3, 0.1) == Request(3, None), "others gave none"
    assert restraint.request(Request(50, None), -9, 0.1) == others

    answer = an_answer("mail", "default", look_in=200_000)
    restraint.received(Request(3, None), answer, 3, 0.1)

    assert restraint.request(Request(50, None), 3, 0.1) == others
    restraint.received(others, an_answer("default"), 3, 0.2)
    assert restraint.due_in(3, 0.2) == pytest.approx(0.1)
    assert restraint.due_in(0, 0.2) == NEVER, "nothing could be taken"
    assert restraint.request(Request(50, ALL), 3, 0.2) == Request(3, ALL)
    restraint.received(Request(3, ALL), an_answer("mail"), 3, 0.3)
    assert restraint.request(Request(50, ALL), 3, 0.3) == Request(50, ALL), "none is held back"


def test_limited_jobs_for_which_there_are_no_rooms_go_back_when_others_are_held_back():
    restraint = Restraint(Fleet(), ALL)
    answer = an_answer("mail", "mail", "default", "mail", look_in=1_000)

    back = restraint.received(Request(50, None), answer, 1, 0.0)

    assert [one.handle for one in back] == [1, 3]


def test_jobs_that_took_a_token_of_a_rate_are_kept():
    paced = Share("mail", max_running=4, rate=5.0)
    restraint = Restraint(Fleet((paced, Share("default"))), ALL)

    back = restraint.received(Request(50, None), an_answer("mail", "mail", look_in=1), 1, 0.0)

    assert back == []
    assert restraint.request(Request(50, ("mail",)), 1, 0.1).want == 1
