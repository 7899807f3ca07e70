"""The parts of `longshore top` that need no terminal."""

from itertools import pairwise

import pytest

from longshore.cli.top import words
from longshore.cli.top.keys import Key, Keys
from longshore.contract import QueueCounts
from longshore.operations.rates import Rate, Rates

SECOND = 1_000_000


def test_looks_that_come_fast_are_told_over_the_whole_window():
    rates = Rates(window=60 * SECOND, most_samples=13)
    for second in range(121):
        rates.note(second * SECOND, [QueueCounts(queue="a", succeeded=second * second)])

    # Over the last minute 180 jobs ended a second, over its last ten seconds 230.
    assert rates.of("a").ended == pytest.approx(180, abs=15)
    assert rates.all_together().ended == rates.of("a").ended
    assert len(rates.of("a").trend) <= 13


def test_a_key_that_arrives_in_parts_is_one_key():
    keys = Keys()

    assert keys.feed(b"\x1b") == []
    assert keys.is_waiting
    assert keys.feed(b"[") == []
    assert keys.feed(b"5") == []
    assert keys.feed(b"~\x1b[Bq") == [Key.PAGE_UP, Key.DOWN, "q"]
    assert not keys.is_waiting


def test_escape_is_a_key_once_nothing_follows():
    keys = Keys()

    assert keys.feed(b"j\x1b") == [Key.DOWN]
    assert keys.flush() == [Key.BACK]
    assert keys.flush() == []
    assert keys.feed(b"\x1b\x1b") == [Key.BACK]
    assert keys.feed(b"[200~\xff\x00p") == ["\ufffd", "p"]


def test_rates_tell_what_came_and_ended_within_ten_seconds():
    rates = Rates()
    rates.note(0, [QueueCounts(queue="a", ready=1_000_000)])
    rates.note(20 * SECOND, [QueueCounts(queue="a", ready=10)])
    assert rates.of("a") == Rate(0, 0, [0])

    rates.note(25 * SECOND, [QueueCounts(queue="a", ready=15, succeeded=5)])
    rates.note(30 * SECOND, [QueueCounts(queue="a", ready=10, succeeded=15, dead=5)])

    assert rates.of("a") == Rate(2, 2, [0, 1, 3])
    assert rates.of("b") == Rate(0, 0, [0, 0, 0])


def test_rates_are_right_while_as_much_is_pruned_as_ends():
    rates = Rates()
    rates.note(0, [QueueCounts(queue="a", ready=3, succeeded=100)])
    rates.note(5 * SECOND, [QueueCounts(queue="a", ready=3, succeeded=100, pruned=50)])

    assert rates.of("a") == Rate(10, 10, [10])


def test_what_was_pruned_long_ago_did_not_come_just_now():
    rates = Rates()
    rates.note(0, [QueueCounts(queue="a", succeeded=1_000)])
    # An engine does not tell of a queue that has only been pruned; a worker makes it listed.
    rates.note(SECOND, [QueueCounts(queue="a")])
    rates.note(20 * SECOND, [])
    rates.note(21 * SECOND, [QueueCounts(queue="a", ready=1, pruned=1_000)])

    assert rates.of("a") == Rate(1, 0, [0, 0, 0])


def test_what_was_pruned_before_the_first_look_did_not_come_just_now():
    rates = Rates()
    rates.note(0, [QueueCounts(queue="a")])
    rates.note(SECOND, [QueueCounts(queue="a", ready=1, succeeded=1, pruned=1_000)])

    assert rates.of("a") == Rate(2, 1, [1])


def test_what_came_and_was_pruned_while_a_queue_was_not_told_of_is_told_afterwards():
    rates = Rates()
    rates.note(0, [QueueCounts(queue="a", ready=10, succeeded=20, pruned=100)])
    rates.note(SECOND, [])
    rates.note(2 * SECOND, [QueueCounts(queue="a", running=5, succeeded=15, pruned=140)])

    # 30 of the 40 that were pruned had come before.
    assert rates.of("a") == Rate(15, 17.5, [0, 35])


def test_rates_are_right_when_an_engine_forgets_what_it_pruned():
    rates = Rates()
    rates.note(0, [QueueCounts(queue="a", ready=4, succeeded=100, pruned=900)])
    rates.note(SECOND, [QueueCounts(queue="a", ready=6, succeeded=30, pruned=20)])
    rates.note(2 * SECOND, [QueueCounts(queue="a", ready=6, succeeded=30, pruned=70)])

    assert rates.of("a") == Rate(51, 50, [50, 50])


def test_what_vanishes_hides_for_one_look_what_ended():
    """As a tenant sees pruning, and everyone a purge."""
    rates = Rates()
    for second, succeeded in enumerate((0, 100, 100, 50, 150)):
        rates.note(second * SECOND, [QueueCounts(queue="a", succeeded=succeeded)])

    assert rates.of("a") == Rate(50, 50, [100, 0, 0, 100])


def test_estimates_that_waver_are_no_arrivals():
    rates = Rates()
    for second, ready in enumerate((10_000, 11_000, 9_000, 11_000, 10_000)):
        rates.note(second * SECOND, [QueueCounts(queue="a", ready=ready, is_estimate=True)])

    assert rates.of("a") == Rate(0, 0, [0, 0, 0, 0])


def test_a_clock_that_was_set_back_starts_rates_anew():
    rates = Rates()
    rates.note(10 * SECOND, [QueueCounts(queue="a", ready=1)])
    rates.note(9 * SECOND, [QueueCounts(queue="a", ready=2)])

    assert rates.of("a") == Rate()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (12_345, "12.3k"),
        (999_949, "1000k"),
        (5_000_000, "5.00M"),
        (7 * 10**10, "70.0G"),
    ],
)
def test_a_count_fits_its_column(number: int, text: str):
    assert words.count(number) == text
    assert len(text) <= 6


def test_ages_grow_with_time():
    ages = [words.age(seconds * SECOND) for seconds in (0, 59, 61, 3_600, 90_061)]

    assert ages == ["0s", "59s", "1m01s", "1h00m", "1d01h"]
    assert words.age(None) == "-"
    assert all(one != other for one, other in pairwise(ages))


def test_bars_are_as_high_as_their_values():
    assert words.bars([9, 0, 4, 8], 3) == "▁▅█"
    assert words.bars([0], 2) == " ▁"
    assert words.bars([], 2) == "  "
