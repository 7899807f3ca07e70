"""Schedules: which due times there are, and how they are declared."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from longshore.core.schedule import (
    Schedule,
    declared,
    firing_rate,
    next_due,
    preview,
    validate,
)
from longshore.errors import ConfigError

SECOND = 1_000_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
NOON = int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()) * SECOND

HOURLY = Schedule(name="hourly", type="report", cron="@hourly")
TENTHS = Schedule(name="tenths", type="poll", every=SECOND // 10)


def test_an_interval_counts_from_its_anchor():
    schedule = replace(TENTHS, every=7 * SECOND, anchor=NOON + 3 * SECOND)

    assert preview(schedule, NOON - DAY, 2) == [NOON + 3 * SECOND, NOON + 10 * SECOND]
    assert next_due(schedule, NOON + 3 * SECOND) == NOON + 10 * SECOND
    assert next_due(schedule, NOON + 10 * SECOND - 1) == NOON + 10 * SECOND


def test_a_preview_lists_the_coming_due_times():
    assert preview(HOURLY, NOON, 3) == [NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR]


def test_a_preview_is_bounded_whatever_is_asked_for():
    assert len(preview(TENTHS, NOON, 10**9)) == 1_000


def test_how_often_a_rare_schedule_fires_is_judged_by_a_year():
    rare = replace(HOURLY, cron="0 0 29 2 *")
    four_years = 1_461 * DAY

    assert firing_rate(rare, NOON) == SECOND / four_years
    assert firing_rate(HOURLY, NOON) == SECOND / HOUR


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name has 1 to 200"),
        ({"name": "x" * 201}, "name has 1 to 200"),
        ({"name": "a\0b"}, "name has 1 to 200"),
        ({"type": ""}, "task type"),
        ({"every": SECOND}, "either a cron expression or an interval"),
        ({"cron": None}, "either a cron expression or an interval"),
        ({"cron": None, "every": 0}, "interval in microseconds must be"),
        ({"cron": None, "every": SECOND // 10 - 1}, "interval in microseconds must be"),
        ({"cron": "0 0 30 2 *"}, "never fires"),
        ({"timezone": "Mars/Base"}, "unknown time zone"),
        ({"priority": 0}, "priority is 0; it must be 1 to 9"),
        ({"max_attempts": 26}, "max_attempts is 26; it must be 1 to 25"),
        ({"catch_up_limit": 0}, "catch-up limit must be"),
        ({"jitter": -1}, "jitter in microseconds must be"),
        ({"timeout": 0}, "timeout in microseconds must be"),
        ({"queue": "a queue"}, "queue 'a queue' is not"),
        ({"tags": ("t",) * 31}, "up to 30 tags"),
        ({"payload": b"[]"}, "payload is not a JSON object"),
        ({"next_due": 2**60}, "next due time in microseconds since 1970 must be"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_with_its_name_and_fault(
    change: dict[str, object], message: str
):
    broken = replace(HOURLY, **change)

    with pytest.raises(ConfigError, match=f"^schedule .*{message}"):
        validate(broken)


def test_a_first_declaration_starts_with_the_next_due_time():
    assert declared(HOURLY, now=NOON).next_due == NOON + HOUR


def test_declaring_a_schedule_again_keeps_what_is_still_to_be_caught_up():
    stored = replace(HOURLY, next_due=NOON - 5 * HOUR, last_due=NOON - 6 * HOUR)

    again = declared(replace(HOURLY, payload=b'{"a":1}'), now=NOON, existing=stored)

    assert again == replace(stored, payload=b'{"a":1}')


@pytest.mark.parametrize(
    "change", [{"cron": "30 * * * *"}, {"timezone": "Asia/Kathmandu"}], ids=["cron", "zone"]
)
def test_new_times_count_from_the_declaration(change: dict[str, object]):
    stored = replace(HOURLY, next_due=NOON - 5 * HOUR, last_due=NOON - 6 * HOUR)
    changed = replace(HOURLY, **change)

    again = declared(changed, now=NOON, existing=stored)

    assert again.next_due == next_due(changed, NOON)
    assert again.last_due == stored.last_due


def test_what_was_due_during_a_pause_is_not_missed():
    paused = replace(HOURLY, is_paused=True, next_due=NOON - 5 * HOUR)

    assert declared(HOURLY, now=NOON, existing=paused).next_due == NOON + HOUR


def test_a_declaration_is_validated():
    with pytest.raises(ConfigError, match="never fires"):
        declared(replace(HOURLY, cron="0 0 31 6 *"), now=NOON)
