"""Schedules from the shell."""

import re
from datetime import datetime
from pathlib import Path

import pytest
from cli_steps import Queue, Shell
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import ids
from longshore.core.schedule import decide
from longshore.records import schedules
from longshore.runtime.ids import IdSource


def test_a_schedule_is_added_listed_and_removed(shell: Shell, queue: Queue):
    added = shell(
        *("schedules", "add", "report", "report.build", "kind=weekly"),
        *("--cron", "0 9 * * mon", "--timezone", "Europe/Berlin", "--queue", "slow"),
        *("--priority", 7, "--catch-up", "all", "--overlap", "skip", "--jitter", "30s"),
        *("--tag", "weekly", "--max-attempts", 2, "--timeout", "1h"),
    )
    (stored,) = shell.lines("schedules", "list")
    removed = shell("schedules", "remove", "report")

    assert added.exit_code == 0
    assert (stored["name"], stored["type"]) == ("report", "report.build")
    assert stored["payload"] == {"kind": "weekly"}
    assert (stored["cron"], stored["timezone"]) == ("0 9 * * mon", "Europe/Berlin")
    assert (stored["catch_up"], stored["overlap"]) == ("all", "skip")
    assert (stored["jitter_seconds"], stored["timeout_seconds"]) == (30, 3_600)
    assert (stored["tags"], stored["priority"], stored["queue"]) == (["weekly"], 7, "slow")
    due = datetime.fromisoformat(stored["next_due"])
    assert (due.weekday(), due.minute) == (0, 0)
    assert removed.exit_code == 0
    assert shell.lines("schedules", "list") == []


def test_adding_again_changes_the_definition_and_keeps_the_place(shell: Shell, queue: Queue):
    shell("schedules", "add", "tick", "noop", "--every", "7h")
    before = shell.lines("schedules", "list")

    shell("schedules", "add", "tick", "noop", "seq=2", "--every", "7h")

    after = shell.lines("schedules", "list")
    assert after[0]["payload"] == {"seq": 2}
    assert after[0]["next_due"] == before[0]["next_due"]


def test_a_paused_schedule_keeps_its_definition(shell: Shell, queue: Queue):
    shell("schedules", "add", "tick", "noop", "seq=2", "--every", "7h")

    paused = shell.lines("schedules", "pause", "tick")
    resumed = shell.lines("schedules", "resume", "tick")

    assert paused[0]["is_paused"] is True
    assert resumed[0]["is_paused"] is False
    assert resumed[0]["payload"] == {"seq": 2}


def test_a_preview_shows_the_times_of_the_schedules_own_zone(shell: Shell, queue: Queue):
    shell(
        "schedules", "add", "early", "noop", "--cron", "30 6 * * *", "--timezone", "Asia/Tokyo"
    )

    table = shell("schedules", "preview", "early", "-n", 3).stdout
    lines = shell.lines("schedules", "preview", "early", "-n", 3)

    assert table.count("06:30:00 JST") == 3
    assert [line["due"][11:] for line in lines] == ["21:30:00Z"] * 3


def test_an_expression_can_be_previewed_without_a_queue(shell: Shell):
    assert len(shell.lines("schedules", "preview", "--cron", "@hourly", "-n", 5)) == 5


BERLIN = ("--timezone", "Europe/Berlin")


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        (
            "30 2 * * *",
            "2027-03-27T12:00:00Z",
            [
                "Sun 2027-03-28 03:00:00 CEST",
                "the clock has gone forward 1h; a time it names is missing on this day: "
                "due when the gap ends",
            ],
        ),
        (
            "30 2 * * *",
            "2027-10-30T12:00:00Z",
            [
                "Sun 2027-10-31 02:30:00 CEST",
                "comes twice on this day: due the first time only",
            ],
        ),
        (
            "0 * * * *",
            "2027-10-31T00:30:00Z",
            [
                "Sun 2027-10-31 02:00:00 CET",
                "the clock has gone back 1h; comes twice on this day: the second time",
            ],
        ),
        ("30 12 * * *", "2027-07-01T00:00:00Z", ["Thu 2027-07-01 12:30:00 CEST"]),
    ],
)
def test_a_preview_says_what_a_change_of_the_clock_does(
    shell: Shell, cron: str, after: str, expected: list[str]
):
    words = ("schedules", "preview", "--cron", cron, *BERLIN, "--after", after, "-n", 1)

    lines = shell(*words).stdout.splitlines()

    due, _, *remarks = re.split(r"\s{2,}", lines[1])
    assert [due, *remarks] == expected


def test_a_preview_tells_programs_the_local_time_and_the_quirk(shell: Shell):
    (line,) = shell.lines(
        *("schedules", "preview", "--cron", "30 2 * * *", *BERLIN),
        *("--after", "2027-03-27T12:00:00Z", "-n", 1),
    )

    assert line == {
        "due": "2027-03-28T01:00:00Z",
        "local": "2027-03-28T03:00:00+02:00",
        "quirk": "gap",
    }


def test_an_interval_can_be_previewed_without_a_queue(shell: Shell):
    lines = shell.lines(
        *("schedules", "preview", "--every", "250ms", "-n", 2),
        *("--after", "2027-01-01T00:00:00Z"),
    )

    assert [line["due"][11:] for line in lines] == ["00:00:00.250000Z", "00:00:00.500000Z"]


def test_a_change_touches_only_what_it_names(shell: Shell, queue: Queue):
    shell(
        *("schedules", "add", "report", "noop", "seq=1", "--cron", "0 9 * * *", *BERLIN),
        *("--queue", "slow", "--catch-up", "all", "--catch-up-limit", 7, "--tag", "a"),
    )
    (before,) = shell.lines("schedules", "list")

    (after,) = shell.lines("schedules", "change", "report", "--priority", 2, "--jitter", "30s")

    assert after == before | {"priority": 2, "jitter_seconds": 30.0}
    assert (before["catch_up"], before["catch_up_limit"]) == ("all", 7)


def test_a_change_of_times_or_payload_replaces_them_as_a_whole(shell: Shell, queue: Queue):
    shell("schedules", "add", "report", "noop", "seq=1", "--cron", "0 9 * * *", *BERLIN)

    (every,) = shell.lines(
        *("schedules", "change", "report", "--every", "6h"),
        *("--anchor", "2020-01-01T00:15:00Z"),
    )
    (cron,) = shell.lines("schedules", "change", "report", '{"seq": 2}', "--cron", "@daily")

    assert (every["cron"], every["every_seconds"], every["timezone"]) == (None, 21_600, "UTC")
    assert every["next_due"][14:] == "15:00Z"
    assert (cron["cron"], cron["every_seconds"]) == ("@daily", None)
    assert cron["anchor"] == "1970-01-01T00:00:00Z"
    assert cron["payload"] == {"seq": 2}


def test_what_was_there_before_is_changed_and_not_added(shell: Shell, queue: Queue):
    words = ("schedules", "add", "tick", "noop", "--cron", "0 9 * * *", *BERLIN)

    assert shell(*words).stdout.startswith("added tick; next due ")
    assert re.match(r"changed tick; next due .* 09:00:00 CES?T \(in ", shell(*words).stdout)


def test_a_schedule_is_shown_with_its_last_job_and_its_next_due_times(
    shell: Shell, queue: Queue
):
    shell("schedules", "add", "tick", "noop", "seq=2", "--every", "7h", "--catch-up", "all")
    job = queue.ask(fire_it)

    sheet = shell("schedules", "show", "tick").stdout
    (document,) = shell.lines("schedules", "show", "tick")
    shell("schedules", "pause", "tick")
    (paused,) = shell.lines("schedules", "show", "tick")

    assert re.search(r"^when +every 7h$", sheet, re.MULTILINE)
    assert re.search(r"^catch up +all, the newest 100$", sheet, re.MULTILINE)
    assert re.search(rf"^last job +{job} \(ready\)$", sheet, re.MULTILINE)
    assert sheet.count(" UTC  in ") == 5
    assert (document["last_job"], document["last_job_state"]) == (job, "ready")
    assert len(document["coming"]) == 5
    assert document["coming"][0]["due"] == document["next_due"]
    assert paused["coming"] == []


async def fire_it(engine: Engine) -> str:
    """Fire the one schedule as if it were due; the id of its job."""
    (stored,) = await schedules.every(engine)
    await schedules.put(engine, replace(stored, next_due=await engine.now()))
    (due,) = await schedules.due(engine, limit=10)
    (answer,) = await engine.fire(decide(due, IdSource().make))
    return ids.text(answer.id)


def test_one_of_its_jobs_can_be_run_now_without_touching_its_times(shell: Shell, queue: Queue):
    shell(
        "schedules", "add", "tick", "noop", "seq=2", "--every", "7h", "--tag", "a", "--paused"
    )
    before = shell.lines("schedules", "list")

    result = shell("schedules", "run", "tick")
    (listed,) = shell.lines("jobs", "list", "--tag", "schedule:tick")

    assert result.exit_code == 0
    assert "no live worker serves 'noop'" in result.stderr
    assert listed["id"] == result.stdout.strip()
    assert (listed["payload"], listed["tags"]) == ({"seq": 2}, ["schedule:tick", "a"])
    assert shell.lines("schedules", "list") == before


def test_a_type_that_neither_app_nor_worker_knows_is_refused(
    shell: Shell, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "pub.py").write_text(
        "from longshore import Longshore\n"
        "app = Longshore()\n"
        "@app.task\n"
        "async def greet(name: str = 'Ann') -> None: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    refused = shell("schedules", "add", "x", "great", "--every", "5m", "--app", "pub:app")

    assert refused.exit_code == 3
    assert "greet" in refused.stderr
    assert shell.lines("schedules", "list") == []


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["add", "x", "noop"], 2, "either a cron expression or an interval"),
        (["add", "x", "noop", "--cron", "61 * * * *"], 2, "61 * * * *"),
        (["add", "x", "noop", "--cron", "@daily", "--every", "5s"], 2, "either"),
        (["add", "x", "noop", "--every", "1ms"], 2, "interval"),
        (["add", "x", "noop", "--cron", "@daily", "--timezone", "Mars"], 2, "time zone"),
        (["add", "x", "noop", "[1]", "--every", "5s"], 2, "not a JSON object"),
        (["add", "x", "noop", "--every", "5s", "--priority", "12"], 2, "priority"),
        (["remove", "x"], 3, "no schedule is named 'x'"),
        (["pause", "x"], 3, "no schedule is named 'x'"),
        (["preview", "x"], 3, "no schedule is named 'x'"),
        (["preview"], 2, "--cron"),
        (["preview", "x", "--every", "5s"], 2, "--cron"),
        (
            ["add", "x", "noop", "--cron", "@daily", "--anchor", "2027-01-01T00:00Z"],
            2,
            "anchor",
        ),
        (["add", "x", "noop", "--every", "5s", "--catch-up-limit", "0"], 2, "catch-up limit"),
        (["change", "x", "--every", "5s"], 3, "no schedule is named 'x'"),
        (["change", "x"], 2, "say what to change"),
        (["show", "x"], 3, "no schedule is named 'x'"),
        (["run", "x"], 3, "no schedule is named 'x'"),
        (["preview", "--cron", "0 0 30 2 *"], 2, "never fires"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(
    shell: Shell, queue: Queue, words: list[str], code: int, complaint: str
):
    result = shell("schedules", *words)

    assert result.exit_code == code
    assert complaint in result.stderr
    assert shell.lines("schedules", "list") == []


def test_adding_again_does_not_end_a_pause(shell: Shell, queue: Queue):
    shell("schedules", "add", "tick", "noop", "--every", "7h", "--paused")

    (again,) = shell.lines("schedules", "add", "tick", "noop", "--every", "8h")

    assert (again["every_seconds"], again["is_paused"]) == (28_800, True)


def test_a_scheduled_job_is_as_the_application_declares_its_task(
    shell: Shell, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "club.py").write_text(
        "from longshore import Longshore\n"
        "app = Longshore()\n"
        "@app.task(queue='mail', max_attempts=2)\n"
        "async def greet(name: str) -> None: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = ["schedules", "add", "hello", "greet", "--app", "club:app", "--every", "5m"]

    refused = shell(*words, "age=7")
    (stored,) = shell.lines(*words, "name=Ann")

    assert refused.exit_code == 2
    assert (stored["queue"], stored["max_attempts"]) == ("mail", 2)
