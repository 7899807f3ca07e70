"""What a benchmark says of the time the host took away."""

import pytest

from longshore.bench.machine import Hours


def test_what_was_stolen_is_a_share_of_what_was_wanted():
    before = Hours(total=1_000, idle=500, stolen=10)
    after = Hours(total=1_400, idle=700, stolen=60)

    assert after.stolen_since(before) == pytest.approx(50 / 200)


def test_a_machine_that_wanted_nothing_lost_nothing():
    before = Hours(total=1_000, idle=500, stolen=10)

    assert before.stolen_since(before) == 0.0


def test_this_machine_tells_its_hours():
    first = Hours.now()
    then = Hours.now()

    if first is None or then is None:
        pytest.skip("no /proc/stat here")
    assert 0 < first.total <= then.total
    assert 0.0 <= then.stolen_since(first) <= 1.0
