"""One order of the calls about a job explains all answers, or none does."""

from math import inf

import pytest

from longshore.core.state import Verb
from longshore_lab.linear import Act, Op, fits

SUBMIT = Op(Act.SUBMIT_ACCEPTED, 1, 2)
FIRST = Op(Act.CLAIM, 3, 4, "ann", 1)
SECOND = Op(Act.CLAIM, 7, 8, "bob", 2)


def settle(act: Act, called: int, answered: float, actor: str, delivery: int) -> Op:
    return Op(act, called, answered, actor, delivery, Verb.SUCCEED)


@pytest.mark.parametrize(
    "ops",
    [
        [SUBMIT, FIRST, settle(Act.SETTLE_ACCEPTED, 5, 6, "ann", 1)],
        [SUBMIT, FIRST, SECOND, settle(Act.SETTLE_REFUSED, 9, 10, "ann", 1)],
        # A claim that nobody heard of lies between.
        [SUBMIT, SECOND, settle(Act.SETTLE_ACCEPTED, 9, 10, "bob", 2)],
        # The first call was carried out after the second had been sent.
        [Op(Act.SUBMIT, 1, inf), Op(Act.SUBMIT_REPEATED, 2, 9), FIRST],
        # A settlement without an answer explains that the cancel was too late, or was not sent.
        [SUBMIT, FIRST, settle(Act.SETTLE, 5, inf, "ann", 1), Op(Act.TOO_LATE, 8, 9)],
        [SUBMIT, FIRST, settle(Act.SETTLE, 5, inf, "ann", 1), SECOND],
        [SUBMIT, FIRST, Op(Act.KEPT, 5, 6, "ann", 1), SECOND, Op(Act.LOST, 9, 10, "ann", 1)],
        # Asked to stop while it ran, and taken away: it waits for no other run.
        [SUBMIT, FIRST, Op(Act.ASKED, 5, 6), Op(Act.TOO_LATE, 9, 10)],
        [SUBMIT, Op(Act.CANCEL, 3, inf), Op(Act.CLAIM, 5, 6, "ann", 1)],
        [Op(Act.NO_JOB, 0, 3), SUBMIT],
    ],
)
def test_answers_that_one_order_explains_fit(ops: list[Op]):
    assert fits(ops)


@pytest.mark.parametrize(
    "ops",
    [
        [FIRST],
        [SUBMIT, Op(Act.SUBMIT_ACCEPTED, 3, 4)],
        [SUBMIT, FIRST, Op(Act.CLAIM, 5, 6, "bob", 1)],
        [SUBMIT, FIRST, SECOND, settle(Act.SETTLE_ACCEPTED, 9, 10, "ann", 1)],
        [SUBMIT, FIRST, settle(Act.SETTLE_ACCEPTED, 5, 6, "ann", 1), SECOND],
        [SUBMIT, FIRST, SECOND, Op(Act.KEPT, 9, 10, "ann", 1)],
        [SUBMIT, FIRST, Op(Act.ASKED, 5, 6), SECOND],
        [SUBMIT, Op(Act.CANCELLED, 3, 4), Op(Act.CLAIM, 5, 6, "ann", 1)],
        [SUBMIT, Op(Act.TOO_LATE, 3, 4), FIRST],
        [SUBMIT, Op(Act.NO_JOB, 3, 4)],
    ],
)
def test_answers_that_no_order_explains_do_not(ops: list[Op]):
    assert not fits(ops)


def test_submits_that_were_never_answered_do_not_make_the_search_endless():
    sent = [Op(Act.SUBMIT, called, inf) for called in range(1, 200)]
    told = Op(Act.SUBMIT_REPEATED, 200, 201)

    assert fits([*sent, told, Op(Act.CLAIM, 202, 203, "ann", 1)])
    assert not fits([*sent, told, Op(Act.NO_JOB, 204, 205)])
    assert not fits([*sent[1:], Op(Act.CLAIM, 0, 1, "ann", 1)])
