"""Commands say and do the same in front of a service as beside its store."""

import json
import sqlite3
from collections.abc import Generator
from contextlib import closing

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving, the_same


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


def test_queues_are_listed_and_shown_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    queue.submit(queue="mail", type="mail.send")
    shell("queues", "pause", "bulk", "--type", "mail.send")
    shell(
        "queues",
        "set",
        "mail",
        "--max-running",
        "3",
        "--rate",
        "5/s",
        "--order",
        "aging",
        "--aging",
        "30s",
    )

    assert "mail" in the_same(shell, service, "queues", "list")
    assert "mail" in the_same(shell, service, "queues", "list", "--tenant", "default")
    assert "30s" in the_same(shell, service, "queues", "show", "mail")
    the_same(shell, service, "queues", "show", "nobody-knows-it")


def test_queues_are_set_and_paused_through_a_service(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    queue.submit(queue="mail", type="mail.send")

    service("queues", "set", "mail", "--max-running", "3", "--rate", "5/s")
    service("queues", "unset", "mail", "--rate")
    service("queues", "pause", "mail")
    service("queues", "pause", "--type", "mail.send")

    (mail,) = shell.lines("queues", "list")
    assert mail["is_paused"]
    assert mail["paused_types"] == ["mail.send"]
    assert (mail["settings"]["max_running"], mail["settings"]["rate"]) == (3, None)
    service("queues", "resume", "mail")
    service("queues", "resume", "--type", "mail.send")
    (mail,) = shell.lines("queues", "list")
    assert not mail["is_paused"]
    assert mail["paused_types"] == []


def test_a_wrong_setting_is_refused_in_the_same_words(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    queue.submit(queue="mail")

    for words in (["--burst", "3"], ["--max-running", "0"]):
        the_same(shell, service, "queues", "set", "mail", *words)


def test_workers_are_listed_and_drained_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    session = queue.ask(
        lambda engine: engine.open_session(
            worker="w", queues=["mail"], types=["mail.send"], lease=30_000_000
        )
    )

    assert "mail.send" in the_same(shell, service, "workers", "list")
    drained = service("workers", "drain", str(session.token))
    assert drained.exit_code == 0
    assert shell.lines("workers", "list")[0]["is_quiet"]
    the_same(shell, service, "workers", "drain", "4711")


def test_a_broken_record_is_named_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    queue.submit(queue="mail")
    shell("queues", "set", "mail", "--max-running", "3")
    with closing(sqlite3.connect(queue.url.removeprefix("sqlite:///"))) as db, db:
        db.execute("update longshore_record set body = '[]' where kind = 'queue'")

    beside, over = shell("queues", "list"), service("queues", "list")

    assert "warning: queue 'mail' cannot be decoded" in beside.stderr
    assert over.stderr == beside.stderr


def test_jobs_are_submitted_listed_and_shown_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    made = service(
        "submit", "mail.send", 'payload={"to": "ann"}', "--queue", "mail", "--tag", "t"
    )
    job_id = made.stdout.strip()
    dead = queue.dead(queue="web")
    for _ in range(120):
        queue.submit(queue="bulk")

    assert "payload" in the_same(shell, service, "jobs", "show", job_id)
    the_same(shell, service, "explain", job_id)
    the_same(shell, service, "jobs", "show", dead)
    assert "ValueError" in the_same(shell, service, "dead", "list")
    the_same(shell, service, "jobs", "list", "--limit", "200")
    the_same(shell, service, "jobs", "list", "--limit", "5")
    the_same(shell, service, "jobs", "list", "--tag", "t", "--tenant", "default")
    the_same(shell, service, "jobs", "show", "019a8a6e-7c00-7000-8000-000000000000")


def test_a_submit_that_is_repeated_over_http_is_one_job(
    shell: Shell, service: ServiceShell
) -> None:
    first = service("submit", "t", "n=1", "--key", "k")
    again = service("submit", "t", "n=1", "--key", "k")
    other = service("submit", "t", "n=2", "--key", "k")
    unique = [service("submit", "u", "--unique", "key").stdout for _ in range(2)]

    assert first.stdout == again.stdout
    assert "the first job stands for this one" in again.stderr
    assert other.exit_code == 4
    assert first.stdout.strip() in other.stderr
    assert unique[0] == unique[1]
    assert len(shell.lines("jobs", "list")) == 2


def test_jobs_are_changed_by_ids_all_or_none(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    waiting, dead = queue.submit(), queue.dead()

    refused = service("jobs", "cancel", waiting, dead)
    cancelled = service("jobs", "cancel", waiting, "--reason", "no need")
    replayed = service("dead", "replay", waiting, dead)

    assert refused.exit_code == 4
    assert cancelled.exit_code == 0
    assert replayed.stdout == "2 jobs replayed\n"
    assert {one["state"] for one in shell.lines("jobs", "list")} == {"ready"}


def test_jobs_are_changed_by_a_filter(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    for _ in range(3):
        queue.submit(queue="mail", tags=("t",))
        queue.dead(queue="web")
    queue.submit(queue="bulk", delay=3_600_000_000)

    for words in (["jobs", "cancel", "--queue", "mail"], ["dead", "purge", "--all"]):
        the_same(shell, service, *words, "--dry-run")
    asked = service("dead", "purge", "--queue", "web", input="n\n")
    purged = service("dead", "purge", "--queue", "web", "--yes")
    cancelled = service("jobs", "cancel", "--tag", "t", "--rate", "1000/s", "--yes")
    retried = service("jobs", "retry", "--all", "--yes", "--json")
    revived = service("jobs", "retry", "--state", "cancelled", "--yes")

    assert "3 jobs will be purged" in asked.stderr
    assert purged.stdout == "3 jobs purged\n"
    assert cancelled.stdout == "3 jobs cancelled\n"
    assert json.loads(retried.stdout) == {"retried": 1, "missed": 0, "dry_run": False}
    assert revived.stdout == "3 jobs retried\n"
    assert {one["state"] for one in shell.lines("jobs", "list")} == {"ready"}
    the_same(shell, service, "jobs", "cancel", "--state", "succeeded", "--yes")


def test_a_command_waits_for_a_job_through_a_service(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    done, dead = queue.submit(), queue.dead()
    queue.settle(done, result=b'{"sum": 3}')

    the_same(shell, service, "jobs", "wait", done)
    the_same(shell, service, "jobs", "wait", dead)
    the_same(shell, service, "jobs", "wait", queue.submit(), "--timeout", "50ms")
