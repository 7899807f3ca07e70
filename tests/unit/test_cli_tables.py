"""Figures in tables read at a glance."""

import pytest

from longshore.cli.tables import slow
from longshore.core.latency import Slowness, Spread


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0µs"),
        (9e-06, "9µs"),
        (0.0009994, "999µs"),
        (0.0009996, "1.0ms"),
        (0.00103, "1.0ms"),
        (0.0791, "79ms"),
        (0.9996, "1.0s"),
        (4.12, "4.1s"),
        (1234.0, "1,234s"),
    ],
)
def test_a_time_has_the_unit_that_suits_it(seconds: float, shown: str):
    spread = Spread(seconds, seconds, seconds)
    line = Slowness(queue="q", type="t", jobs=1, wait=spread, run=spread, mostly="run")

    (row,) = slow([line]).rows

    assert row[3] == " / ".join([shown] * 3)
