"""Durations and sizes as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.core import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(minutes=90)),
        ("1 h 30 m", timedelta(minutes=90)),
        ("250ms", timedelta(milliseconds=250)),
        ("1.5h", timedelta(minutes=90)),
        ("2W", timedelta(weeks=2)),
        ("0", timedelta()),
    ],
)
def test_a_duration_is_read_with_its_unit(text: str, expected: timedelta):
    assert units.duration(text) == expected


@pytest.mark.parametrize("text", ["", "s", "-3s", "1e3s", "soon", "30s 5", "9" * 400 + "d"])
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(ValueError, match="duration"):
        units.duration(text)


def test_a_bare_number_is_asked_for_its_unit():
    with pytest.raises(ValueError, match="did you forget the unit"):
        units.duration("30")


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=3_650)))
def test_a_written_duration_reads_back_as_itself(value: timedelta):
    assert units.duration(units.duration_text(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("512", 512),
        ("64kB", 64_000),
        ("1MiB", 1_048_576),
        ("1.5 KiB", 1_536),
        ("2gb", 2 * 10**9),
    ],
)
def test_a_size_is_read_in_bytes(text: str, expected: int):
    assert units.size_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "1k", "-1", "big", "1e3", "9" * 400])
def test_what_is_no_size_is_refused(text: str):
    with pytest.raises(ValueError, match="size"):
        units.size_bytes(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("100/s", 100.0), ("30/m", 0.5), ("90 / h", 0.025), ("2.5", 2.5), ("10/m", 0.167)],
)
def test_a_rate_is_so_many_per_second_in_thousandths(text: str, value: float):
    assert units.rate(text) == value
    assert units.rate(units.rate_text(value)) == value


@pytest.mark.parametrize("text", ["", "fast", "-1/s", "1/w", "1/", "nan", "1e5"])
def test_a_text_that_is_no_rate_is_refused(text: str):
    with pytest.raises(ValueError, match="is not a rate"):
        units.rate(text)
