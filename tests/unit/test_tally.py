"""What handlers of a benchmark write down, and how that is judged."""

from collections import Counter
from pathlib import Path

import pytest

from longshore.bench.load import mixture
from longshore.bench.tally import Lot, Tally, tallied

ONCE = [Lot(1, 1)]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [tmp_path / "one", tmp_path / "other"]


def run(tally: Tally, *jobs: int) -> None:
    for seq in jobs:
        tally.begin(seq)
        tally.end(seq)


def test_jobs_that_ran_once_in_any_process_are_exact(files: list[Path]):
    one, other = (Tally(file, 5) for file in files)
    run(one, 0, 3, 4)
    run(other, 1, 2)

    found = tallied(files, 5, ONCE)

    assert found.is_exact
    assert found.told == "5 of 5"


def test_a_job_that_is_lost_does_not_hide_one_that_ran_twice(files: list[Path]):
    one, other = (Tally(file, 5) for file in files)
    run(one, 0, 1, 2)
    run(other, 2, 3)

    found = tallied(files, 5, ONCE)

    assert (found.missing, found.doubled, found.unrun, found.rerun) == (1, 1, 1, 1)
    assert not found.is_exact


def test_each_job_is_judged_by_its_own_lot(files: list[Path]):
    tally = Tally(files[0], 4)
    for seq in (0, 1, 1, 2, 3, 3, 3):
        tally.begin(seq)
    for seq in (0, 1, 2):
        tally.end(seq)

    lots = [Lot(1, 1), Lot(2, 1)]
    found = tallied(files[:1], 4, lots)

    assert (found.missing, found.doubled, found.unrun, found.rerun) == (1, 0, 0, 1)


def test_a_job_that_begins_without_end_is_counted_no_further(files: list[Path]):
    tally = Tally(files[0], 1)
    for _ in range(1_000):
        run(tally, 0)

    assert tallied(files[:1], 1, ONCE).doubled == 1


def test_a_seed_means_one_mix_of_exact_shares():
    mix = mixture(3)

    assert mix == mixture(3)
    assert mix != mixture(4)
    kinds = Counter("fails" if one.failures else one.seconds >= 0.2 for one in mix)
    assert kinds == {False: 7_000, True: 2_000, "fails": 1_000}
    assert Counter(one.lot for one in mix) == {(1, 1): 9_000, (2, 1): 500, (3, 0): 500}


def test_one_in_ten_thousand_runs_past_the_lease_where_that_is_asked_for():
    assert sum(one.seconds == 40.0 for one in mixture(3, 40.0)) == 1
    assert len(mixture(3, 40.0)) == len(mixture(3))
