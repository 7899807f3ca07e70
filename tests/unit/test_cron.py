"""Cron expressions: what they name, and what a change of the clock does to them."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from longshore.core.cron import ALIASES, Quirk, parse, zone
from longshore.errors import ConfigError

SECOND = 1_000_000


def instant(words: str, timezone: str = "UTC") -> int:
    """`2026-03-29T02:30` in a zone; a trailing offset wins over the zone."""
    moment = datetime.fromisoformat(words)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(timezone))
    return int(moment.timestamp()) * SECOND


def shown(expression: str, timezone: str, after: str, count: int) -> list[str]:
    """The next due times, as the zone's clock shows them, with their offset."""
    due: int | None = instant(after, timezone)
    found: list[str] = []
    for _ in range(count):
        assert due is not None
        due = parse(expression, timezone).after(due)
        assert due is not None
        moment = datetime.fromtimestamp(due // SECOND, ZoneInfo(timezone))
        found.append(moment.strftime("%d %H:%M:%S %z"))
    return found


def test_a_due_time_is_strictly_later_than_the_instant_asked_for():
    noon = instant("2026-05-01T12:00")
    cron = parse("0 12 * * *")

    assert cron.after(noon - 1) == noon
    assert cron.after(noon) == noon + 86_400 * SECOND


def test_six_fields_start_with_seconds():
    start = instant("2026-05-01T12:00")
    cron = parse("*/20 30 12 * * *")

    first = cron.after(start)

    assert first == instant("2026-05-01T12:30")
    assert cron.after(first) == first + 20 * SECOND


@pytest.mark.parametrize(("alias", "fields"), ALIASES.items())
def test_an_alias_means_its_fields(alias: str, fields: str):
    now = instant("2026-05-01T12:00")

    assert parse(alias).after(now) == parse(fields).after(now)
    assert parse(alias.upper()).after(now) == parse(fields).after(now)


def test_day_of_month_and_day_of_week_are_alternatives_when_both_are_named():
    assert shown("0 0 13 * fri", "UTC", "2026-05-01T12:00", 3) == [
        "08 00:00:00 +0000",
        "13 00:00:00 +0000",
        "15 00:00:00 +0000",
    ]


def test_a_named_time_inside_a_gap_is_due_at_the_end_of_the_gap():
    assert shown("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 3) == [
        "28 02:30:00 +0100",
        "29 03:00:00 +0200",
        "30 02:30:00 +0200",
    ]


def test_several_named_times_inside_one_gap_are_one_due_time():
    assert shown("*/15 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00", 2) == [
        "29 03:00:00 +0200",
        "29 03:15:00 +0200",
    ]


def test_a_named_time_with_seconds_inside_a_gap_is_due_at_the_end_of_the_gap():
    assert shown("15 30 2 * * *", "Europe/Berlin", "2026-03-29T00:00", 2) == [
        "29 03:00:00 +0200",
        "30 02:30:15 +0200",
    ]


def test_a_named_time_inside_a_fold_is_due_the_first_time_only():
    assert shown("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == [
        "25 02:30:00 +0200",
        "26 02:30:00 +0100",
    ]


def test_asked_during_the_second_pass_of_a_fold_it_does_not_repeat_the_first():
    second_pass = instant("2026-10-25T02:10+01:00")

    assert parse("30 2 * * *", "Europe/Berlin").after(second_pass) == instant(
        "2026-10-26T02:30+01:00"
    )


def test_every_second_hour_is_due_as_often_on_a_long_day_as_on_any_other():
    due = shown("0 */2 * * *", "Europe/Berlin", "2026-10-24T23:00", 12)

    assert [words[:5] for words in due] == [f"25 {hour:02}" for hour in range(0, 24, 2)]


def test_what_runs_in_every_hour_goes_on_through_a_fold():
    assert shown("*/30 * * * *", "Europe/Berlin", "2026-10-25T01:59", 5) == [
        "25 02:00:00 +0200",
        "25 02:30:00 +0200",
        "25 02:00:00 +0100",
        "25 02:30:00 +0100",
        "25 03:00:00 +0100",
    ]


def test_what_runs_in_every_hour_is_not_due_twice_for_a_gap():
    assert shown("30 * * * *", "Europe/Berlin", "2026-03-29T01:00", 2) == [
        "29 01:30:00 +0100",
        "29 03:30:00 +0200",
    ]


def test_all_hours_by_range_mean_the_same_as_a_star():
    assert parse("0 0-23 * * *").follows_elapsed_time
    assert parse("0 * * * *").follows_elapsed_time
    assert not parse("0 0-22 * * *").follows_elapsed_time


def test_midnight_that_does_not_exist_is_due_at_one():
    assert shown("0 0 * * *", "America/Santiago", "2026-09-05T12:00", 2) == [
        "06 01:00:00 -0300",
        "07 00:00:00 -0300",
    ]


def test_midnight_shown_twice_is_due_once():
    due = shown("30 23 * * *", "America/Santiago", "2026-04-03T12:00", 3)

    assert due == ["03 23:30:00 -0300", "04 23:30:00 -0300", "05 23:30:00 -0400"]


def test_a_gap_of_half_an_hour_ends_on_the_half_hour():
    assert shown("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", 2) == [
        "04 02:30:00 +1100",
        "05 02:15:00 +1100",
    ]


def test_the_break_for_ramadan_is_a_fold_and_a_gap_like_any_other():
    assert shown("30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00", 2) == [
        "15 02:30:00 +0100",
        "16 02:30:00 +0000",
    ]
    assert shown("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00", 2) == [
        "22 03:00:00 +0100",
        "23 02:30:00 +0100",
    ]


def test_a_day_that_never_was_is_due_when_the_next_one_begins():
    assert shown("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00", 3) == [
        "29 12:00:00 -1000",
        "31 00:00:00 +1400",
        "31 12:00:00 +1400",
    ]


def test_a_gap_may_end_between_two_minutes():
    due = shown("15 0 * * *", "Africa/Monrovia", "1972-01-06T12:00", 2)

    assert due == ["07 00:44:30 +0000", "08 00:15:00 +0000"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 2,4,6,9,11 *", "never fires"),
        ("0 0 0 31 4 *", "never fires"),
        ("* * *", "has 3 fields"),
        ("", "has 0 fields"),
        ("* * * * * * *", "has 7 fields"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 0 * *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("-1 * * * *", "bad minute"),
        ("1" * 190 + " * * * *", "bad minute"),
        ("1," * 200, "longer than"),
        ("@reboot", "unknown cron alias"),
        ("@", "unknown cron alias"),
    ],
)
def test_an_expression_that_cannot_fire_is_refused_with_its_fault(
    expression: str, message: str
):
    with pytest.raises(ConfigError, match=message):
        parse(expression)


@pytest.mark.parametrize(
    "name", ["Mars/Base", "America", "", "../../etc/passwd", "/etc/localtime", "\0", "x" * 300]
)
def test_what_is_not_a_time_zone_is_refused(name: str):
    with pytest.raises(ConfigError, match="unknown time zone"):
        zone(name)


def test_the_29th_of_february_is_found_across_a_century_without_one():
    assert parse("0 0 29 2 *").after(instant("2096-03-01T00:00")) == instant("2104-02-29T00:00")


def test_the_end_of_the_calendar_has_no_next_due_time():
    assert parse("* * * * *", "Europe/Berlin").after(2**62) is None


@pytest.mark.parametrize(
    ("expression", "due", "expected"),
    [
        ("30 2 * * *", "2026-03-29T03:00+02:00", Quirk.GAP),
        ("0 3 * * *", "2026-03-29T03:00+02:00", None),
        ("0,30 2,3 * * *", "2026-03-29T03:00+02:00", Quirk.GAP),
        ("30 2 * * *", "2026-03-30T02:30+02:00", None),
        ("30 2 * * *", "2026-10-25T02:30+02:00", Quirk.FOLD),
        ("0 3 * * *", "2026-10-25T03:00+01:00", None),
        ("*/30 * * * *", "2026-10-25T02:30+02:00", Quirk.FIRST_PASS),
        ("*/30 * * * *", "2026-10-25T02:30+01:00", Quirk.SECOND_PASS),
        ("*/30 * * * *", "2026-03-29T03:00+02:00", None),
        ("*/30 * * * *", "2026-10-25T03:00+01:00", None),
    ],
)
def test_a_due_time_that_a_change_of_the_clock_touched_says_how(
    expression: str, due: str, expected: Quirk | None
):
    cron = parse(expression, "Europe/Berlin")
    moment = instant(due)

    assert cron.after(moment - 1) == moment
    assert cron.quirk(moment) is expected
