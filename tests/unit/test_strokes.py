"""A plan of chaos: seeded, and nothing is left out of it."""

import pytest

from longshore_lab.strokes import ON_A_FILE, ON_A_SERVER, Harm, plan


@pytest.mark.parametrize("harms", [ON_A_FILE, ON_A_SERVER], ids=["file", "server"])
def test_every_kind_of_harm_is_done_before_one_is_done_again(harms: tuple[Harm, ...]):
    strokes = plan(7, 600, of=harms, every=3.0)

    assert len(strokes) == 200
    assert {one.harm for one in strokes[: len(harms)]} == set(harms)
    assert {one.harm for one in strokes} == set(harms)


def test_a_seed_decides_what_is_done_and_when():
    assert plan(7, 60) == plan(7, 60)
    assert plan(7, 60) != plan(8, 60)


def test_no_fault_that_is_made_whole_again_lasts_as_long_as_the_lease():
    assert max(one.lasts for one in plan(7, 3_600)) <= 4.0


def test_every_harm_is_done_somewhere():
    assert {*ON_A_FILE, *ON_A_SERVER} == set(Harm)
