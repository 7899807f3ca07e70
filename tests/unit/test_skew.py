"""Who looks on at a fleet on one machine goes by that machine's clock."""

from pathlib import Path

from longshore.runtime.clock import SystemClock
from longshore_lab.skew import Clocks, MachinesClock, Skew

SECOND = 1_000_000


def test_an_onlooker_is_set_back_with_the_fleet(tmp_path: Path):
    clocks = Clocks(Skew(tmp_path / "skew.so"), seed=1)
    worker, onlooker = clocks.of("worker"), MachinesClock(clocks)

    clocks.set_back(7)
    clocks.set_back(5)

    seen = onlooker.now()
    behind = SystemClock().now() - seen
    assert 12 * SECOND <= behind < 13 * SECOND
    assert worker.file.read_text() == "-12\n"
