"""What the doctor finds."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cli_steps import Queue, Shell

from longshore.contract import Engine, Lapsed, QueueCounts, SessionView
from longshore.core.account import Tenant
from longshore.core.event import EventBatch
from longshore.core.job import Job
from longshore.core.limit_settings import BreakerSettings, Layer, QueueSettings
from longshore.core.state import State
from longshore.core.view import Pause
from longshore.core.webhook import Endpoint, Secret, secret_text
from longshore.operations import doctor
from longshore.operations.doctor import Facts
from longshore.operations.findings import Severity
from longshore.records import breaker_settings, queue_settings, schedules, tenants, webhooks
from longshore.testing.factories import HOUR, MINUTE, SECOND, a_held_job, a_schedule, an_id

NOW = 1_767_225_600_000_000


def facts(**them: object) -> Facts:
    return Facts(**{"engine_now": NOW, "local_now": NOW, **them})  # type: ignore[arg-type]


def a_worker(**changes: object) -> SessionView:
    usual = {
        "token": 1,
        "worker": "w",
        "queues": ("default",),
        "types": ("noop",),
        "opened_at": NOW,
        "renewed_at": NOW,
        "expires_at": NOW + SECOND,
        "holding": 0,
    }
    return SessionView(**{**usual, **changes})  # type: ignore[arg-type]


def a_stored_job(**changes: object) -> Job:
    usual = {
        "id": an_id(),
        "type": "noop",
        "queue": "default",
        "tenant": "default",
        "state": State.READY,
        "priority": 5,
        "payload": b"{}",
        "run_at": NOW,
        "created_at": NOW,
        "max_attempts": 5,
        "timeout": None,
        "delivery": 0,
        "attempt": 0,
        "failures": 0,
        "crashes": 0,
        "lapses": 0,
    }
    return Job(**{**usual, **changes})  # type: ignore[arg-type]


WAITING = QueueCounts(queue="default", ready=3)


@pytest.mark.parametrize(
    ("check", "health", "ill"),
    [
        ("clock", Severity.WARNING, facts(local_now=NOW + MINUTE)),
        ("workers", Severity.PROBLEM, facts(counts=[WAITING])),
        ("workers", Severity.WARNING, facts()),
        (
            "queues",
            Severity.PROBLEM,
            facts(counts=[WAITING], sessions=[a_worker(queues=("x",))]),
        ),
        (
            "types",
            Severity.PROBLEM,
            facts(ready=[a_stored_job(type="y")], sessions=[a_worker()]),
        ),
        ("pauses", Severity.WARNING, facts(pauses=[Pause(None, "noop")])),
        ("reclaiming", Severity.PROBLEM, facts(lapsed=[Lapsed(1, "w", [a_held_job()])])),
        ("promoting", Severity.PROBLEM, facts(scheduled=[a_stored_job(run_at=NOW - HOUR)])),
        ("firing", Severity.PROBLEM, facts(schedules=[a_schedule(next_due=NOW - HOUR)])),
        ("dead", Severity.WARNING, facts(counts=[QueueCounts(queue="q", dead=1_000)])),
        ("pruning", Severity.WARNING, facts(oldest_event=EventBatch(1, NOW - 5 * HOUR, []))),
    ],
)
def test_each_ailment_is_found_and_comes_with_advice(check: str, health: Severity, ill: Facts):
    (finding,) = [one for one in doctor.diagnose(ill) if one.check == check]

    assert finding.health is health
    assert finding.advice


def test_a_type_served_on_another_queue_alone_is_found():
    workers = [a_worker(types=("other",)), a_worker(queues=("bulk",))]

    found = doctor.diagnose(facts(counts=[WAITING], sessions=workers, ready=[a_stored_job()]))

    (types,) = [one for one in found if one.check == "types"]
    assert types.health is Severity.PROBLEM
    assert "noop on default" in types.text


def test_the_doctor_names_every_pause(shell: Shell, queue: Queue):
    shell("queues", "pause", "mail")
    shell("queues", "pause", "bulk", "--type", "mail.send")

    shown = shell("doctor").stdout

    assert "paused: type mail.send in queue bulk, queue mail" in shown


def test_a_queue_in_order_has_no_ailment():
    well = facts(
        counts=[WAITING],
        sessions=[a_worker()],
        ready=[a_stored_job()],
        scheduled=[a_stored_job(run_at=NOW + HOUR)],
        schedules=[
            a_schedule(next_due=NOW + HOUR),
            a_schedule(name="paused", is_paused=True, next_due=NOW - HOUR),
        ],
        oldest_event=EventBatch(1, NOW - MINUTE, []),
    )

    assert {finding.health for finding in doctor.diagnose(well)} == {Severity.FINE}


def test_the_doctor_sees_a_fresh_queue_as_fine_but_for_a_missing_worker(
    shell: Shell, queue: Queue
):
    result = shell("doctor", "--json")

    report = json.loads(result.stdout)
    worrying = [one["check"] for one in report["findings"] if one["health"] != "fine"]
    assert (result.exit_code, report["health"], worrying) == (0, "warning", ["workers"])


def test_a_problem_gives_a_bad_exit_code(shell: Shell, queue: Queue):
    queue.submit()

    result = shell("doctor")

    assert result.exit_code == 1
    assert "none is live; ready jobs: 1" in result.stdout


def test_a_record_that_cannot_be_decoded_is_named_by_its_list_and_the_doctor(
    shell: Shell, queue: Queue
):
    secret = Secret(secret_text(bytes(32)), until=None)
    endpoint = Endpoint(
        id=f"wh_{1:024x}", tenant="acme", url="https://example.com/", secrets=(secret,)
    )

    async def prepare(engine: Engine) -> None:
        await schedules.put(engine, a_schedule(name="bad"))
        await schedules.put(engine, a_schedule(name="good"))
        await queue_settings.put(engine, "bad", Layer.OVERRIDDEN, QueueSettings(max_running=1))
        await breaker_settings.put(engine, "bad", Layer.OVERRIDDEN, BreakerSettings(failures=3))
        await tenants.create(engine, Tenant(name="acme"))
        await webhooks.create(engine, endpoint)

    queue.ask(prepare)
    with closing(sqlite3.connect(queue.url.removeprefix("sqlite:///"))) as db, db:
        db.execute(
            "update longshore_record set body = '[]' where name not in ('good', 'default')"
        )

    listed = shell("schedules", "list")
    doctor = shell("doctor")
    others = {
        command: shell(command, "list").stderr
        for command in ("queues", "breakers", "tenants", "webhooks")
    }
    shell("schedules", "remove", "bad")
    after = shell("schedules", "list")

    assert "good" in listed.stdout
    assert "warning: schedule 'bad' of tenant 'default' cannot be decoded: " in listed.stderr
    assert doctor.exit_code == 1
    for name in (
        "schedule 'bad'",
        "queue 'bad'",
        "breaker 'bad'",
        "tenant 'acme'",
        endpoint.id,
    ):
        assert name in doctor.stdout
    for command, said in others.items():
        assert f"warning: {command.removesuffix('s')} " in said
    assert "warning: schedule" not in after.stderr


def test_the_doctor_finds_a_missing_store_and_makes_none(shell: Shell, tmp_path: Path):
    result = shell("doctor")

    assert result.exit_code == 1
    assert "there is no queue" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_finds_a_file_that_is_no_queue(shell: Shell, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be read" * 50)

    result = shell("doctor", "--url", "sqlite:///notes.txt")

    assert result.exit_code == 1
    assert "not a SQLite database" in result.stdout


def test_the_doctor_finds_an_old_schema(shell: Shell, tmp_path: Path):
    (tmp_path / "empty.db").touch()

    result = shell("doctor", "--url", "sqlite:///empty.db")

    assert result.exit_code == 1
    assert "longshore migrate" in result.stdout


def test_the_doctor_warns_of_a_store_that_is_not_durable_at_once(shell: Shell, queue: Queue):
    result = shell("doctor", "--url", f"{queue.url}?synchronous=normal")

    assert result.exit_code == 0
    assert "not durable at once" in result.stdout


@pytest.mark.parametrize(
    ("mode", "health"),
    [(0o600, "fine"), (0o660, "fine"), (0o644, "warning"), (0o602, "warning")],
)
def test_a_file_that_every_user_can_read_or_write_is_warned_of(
    shell: Shell, queue: Queue, mode: int, health: str
):
    file = Path(queue.url.removeprefix("sqlite:///"))
    file.chmod(mode)

    found = json.loads(shell("doctor", "--json").stdout)

    (finding,) = [one for one in found["findings"] if one["check"] == "permissions"]
    assert finding["health"] == health
    assert f"{mode:04o}" in finding["text"]
