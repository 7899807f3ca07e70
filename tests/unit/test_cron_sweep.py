"""Due times around every change of the clock, compared with a walk minute by minute."""

import random
from bisect import bisect_right
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cron_oracle import (
    EXPRESSIONS,
    Oracle,
    Stretch,
    clock_changes,
    due_of_years,
    named_minutes,
    stretches,
    walk,
)

from longshore.core.cron import parse

HOUR = 3_600
SECOND = 1_000_000
SAMPLE = {
    # Hours of one, both hemispheres; midnight gaps; half an hour; two a year around Ramadan.
    "Europe/Berlin": 2026,
    "America/New_York": 2026,
    "Australia/Sydney": 2026,
    "America/Santiago": 2026,
    "Asia/Beirut": 2026,
    "Australia/Lord_Howe": 2026,
    "Africa/Casablanca": 2026,
    "America/Nuuk": 2026,
    "Pacific/Chatham": 2026,
    "Antarctica/Troll": 2026,
    # A day that never was; a day shown twice; zones that moved by odd amounts for good.
    "Pacific/Apia": 2011,
    "Pacific/Kwajalein": 1993,
    "Asia/Pyongyang": 2015,
    "America/Caracas": 2016,
    "Europe/Volgograd": 2018,
    "Asia/Kathmandu": 1986,
    "Antarctica/Casey": 2010,
}


def disagreements(zone_name: str, years: tuple[int, int], hours: tuple[int, int]) -> list[str]:
    zone = ZoneInfo(zone_name)
    # A zone without changes is walked once, on an ordinary day.
    changes = clock_changes(zone, *years) or [1_780_000_200]
    found: list[str] = []
    for change in changes:
        minutes = walk(zone, change + hours[0] * HOUR, change + hours[1] * HOUR)
        for expression in EXPRESSIONS:
            expected = Oracle(expression).due_times(minutes)
            if not agree(expression, zone_name, expected, minutes[0][0], minutes[-1][0]):
                found.append(f"{expression!r} in {zone_name} around {change}")
    return found


def agree(expression: str, zone: str, expected: list[int], start: int, end: int) -> bool:
    """From each due time to the next, and from any instant between them."""
    cron = parse(expression, zone)
    for asked in sorted({start, *expected, *range(start, end, 37 * 60)}):
        answer = cron.after(asked * SECOND)
        position = bisect_right(expected, asked)
        if position < len(expected):
            if answer != expected[position] * SECOND:
                return False
        elif answer is not None and answer <= end * SECOND:
            return False
    return True


@pytest.mark.parametrize("zone_name", SAMPLE)
def test_due_times_around_a_change_of_the_clock_are_those_of_a_patient_walk(zone_name: str):
    year = SAMPLE[zone_name]

    assert disagreements(zone_name, (year, year), (-4, 5)) == []


@pytest.mark.prove
@pytest.mark.parametrize("zone_name", sorted(available_timezones()))
def test_due_times_in_every_zone_of_three_years_are_those_of_a_patient_walk(zone_name: str):
    assert disagreements(zone_name, (2025, 2027), (-26, 27)) == []


YEARS = (2025, 2027)
MOST_ASKED = 400
"""Questions to a zone and an expression: where it is due more often, a sample."""


@pytest.fixture(scope="module")
def zones() -> dict[tuple[Stretch, ...], str]:
    """Every way in which the zones set their clocks in these years, and a zone that does so."""
    return {stretches(ZoneInfo(name), *YEARS): name for name in sorted(available_timezones())}


@pytest.mark.prove
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_due_times_over_three_whole_years_in_every_zone_are_those_of_every_minute(
    expression: str, zones: dict[tuple[Stretch, ...], str]
):
    oracle = Oracle(expression)
    named = named_minutes(oracle, *YEARS)
    rng = random.Random(expression)
    wrong: list[str] = []

    for over, name in zones.items():
        due = due_of_years(oracle, named, over)
        met = rng.sample(due[:-1], min(len(due) - 1, MOST_ASKED // 2))
        between = [rng.randrange(over[0].start, due[-1]) for _ in met]
        cron = parse(expression, name)
        for moment in met + between:
            if cron.after(moment * SECOND) != due[bisect_right(due, moment)] * SECOND:
                wrong.append(f"{name} after {moment}")

    assert len(zones) > 50
    assert wrong == []


@pytest.mark.prove
def test_the_two_walks_agree_around_a_gap_and_a_fold():
    zone = ZoneInfo("Europe/Berlin")
    over = stretches(zone, 2026, 2026)

    for expression in EXPRESSIONS:
        oracle = Oracle(expression)
        due = due_of_years(oracle, named_minutes(oracle, 2026, 2026), over)
        for change in clock_changes(zone, 2026, 2026):
            minutes = walk(zone, change - 27 * HOUR, change + 27 * HOUR)
            start, end = minutes[0][0], minutes[-1][0]
            expected = oracle.due_times(minutes)
            assert [one for one in due if start < one <= end] == expected, expression
