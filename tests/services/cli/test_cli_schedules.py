"""Schedules from the shell."""

from datetime import datetime
from pathlib import Path

import pytest
from cli_steps import Queue, Shell


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
