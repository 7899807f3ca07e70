"""Commands for schedules say and do the same in front of a service as beside its store."""

import asyncio
import re
from collections.abc import Generator

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving
from test_cli_over_http import the_same

from longshore import Longshore
from longshore.client import Client
from longshore.operations.declarations import Declarations

DAILY = ("--cron", "30 2 * * *", "--timezone", "Europe/Berlin")


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


def test_schedules_are_listed_shown_and_previewed_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    shell("schedules", "add", "nightly", "report", '{"n": 1}', *DAILY, "--tag", "a")
    shell(
        *("schedules", "add", "often", "report", "--every", "6h", "--timeout", "90s"),
        *("--anchor", "2020-01-01T00:15:00Z", "--catch-up", "all", "--jitter", "5m"),
    )
    shell("schedules", "add", "later", "report", "--every", "7h", "--paused")
    shell("schedules", "run", "nightly")

    assert "nightly" in the_same(shell, service, "schedules", "list")
    assert "nightly" in the_same(shell, service, "schedules", "list", "--tenant", "default")
    assert "30 2 * * *" in the_same(shell, service, "schedules", "show", "nightly")
    assert "2020-01-01T00:15:00Z" in the_same(shell, service, "schedules", "show", "often")
    assert "paused" in the_same(shell, service, "schedules", "show", "later")
    table = the_same(
        *(shell, service, "schedules", "preview", "nightly"),
        *("--after", "2027-03-27T12:00:00Z"),
    )
    assert "the clock has gone forward 1h" in table
    the_same(shell, service, "schedules", "preview", "--cron", "@daily", "-n", "2")


def test_more_due_times_are_previewed_than_one_answer_has(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    shell("schedules", "add", "nightly", "report", *DAILY)

    lines = service.lines("schedules", "preview", "nightly", "-n", "250")

    assert lines == shell.lines("schedules", "preview", "nightly", "-n", "250")
    assert len({line["due"] for line in lines}) == 250


def test_schedules_are_managed_through_a_service(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    words = ("schedules", "add", "night/ly", "report", "n=1", *DAILY)

    added, again = service(*words), service(*words)
    changed = service(
        *("schedules", "change", "night/ly", "n=2", "--priority", "2", "--jitter", "30s"),
        *("--timeout", "1h", "--tag", "a", "--catch-up", "all", "--overlap", "skip"),
    )
    (stored,) = shell.lines("schedules", "list")
    (every,) = service.lines("schedules", "change", "night/ly", "--every", "6h")
    (paused,) = service.lines("schedules", "pause", "night/ly")
    (resumed,) = service.lines("schedules", "resume", "night/ly")
    run = service("schedules", "run", "night/ly")
    (job,) = shell.lines("jobs", "list")
    removed = service("schedules", "remove", "night/ly")

    assert added.stdout.startswith("added night/ly; next due ")
    assert again.stdout.startswith("changed night/ly; next due ")
    assert changed.exit_code == 0
    assert (stored["cron"], stored["timezone"]) == ("30 2 * * *", "Europe/Berlin")
    assert (stored["payload"], stored["priority"], stored["tags"]) == ({"n": 2}, 2, ["a"])
    assert (stored["jitter_seconds"], stored["timeout_seconds"]) == (30, 3_600)
    assert (stored["catch_up"], stored["overlap"]) == ("all", "skip")
    assert (every["cron"], every["every_seconds"], every["timezone"]) == (None, 21_600, "UTC")
    assert (paused["is_paused"], resumed["is_paused"]) == (True, False)
    assert run.stdout.strip() == job["id"]
    assert "no live worker serves 'report'" in run.stderr
    assert removed.stdout == "removed night/ly\n"
    assert shell.lines("schedules", "list") == []


@pytest.mark.parametrize(
    "words",
    [
        ("add", "x", "report"),
        ("add", "x", "report", "--cron", "61 * * * *"),
        ("add", "x", "report", "--every", "1ms"),
        ("change", "often", "--cron", "61 * * * *"),
        ("change", "often", "--cron", "@daily", "--every", "5s"),
        ("change", "often", "--priority", "12"),
        ("change", "often", "--timezone", "Mars"),
        ("change", "x", "--every", "5s"),
        ("show", "x"),
        ("run", "x"),
        ("pause", "x"),
        ("remove", "x"),
        ("preview", "x"),
    ],
)
def test_a_mistake_with_a_schedule_has_the_same_exit_code(
    shell: Shell, service: ServiceShell, queue: Queue, words: tuple[str, ...]
) -> None:
    shell("schedules", "add", "often", "report", "--every", "7h")
    before = shell.lines("schedules", "list")

    the_same(shell, service, "schedules", *words)

    assert shell.lines("schedules", "list") == before


def test_a_tenants_key_manages_the_schedules_of_its_tenant_alone(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    shell("tenants", "create", "acme")
    scopes = ("--scope", "operate", "--scope", "read", "--scope", "submit")
    key = shell("keys", "create", "--tenant", "acme", *scopes).stdout.strip()
    shell("schedules", "add", "theirs", "report", "--every", "7h")

    added = service("--api-key", key, "schedules", "add", "own", "report", "--every", "6h")
    listed = service("--api-key", key, "schedules", "list").stdout
    run = service("--api-key", key, "schedules", "run", "own")
    other = service("--api-key", key, "schedules", "show", "theirs")
    named = service("--api-key", key, "schedules", "show", "own", "--tenant", "default")

    assert added.exit_code == run.exit_code == 0
    assert re.findall("own|theirs", listed) == ["own"]
    assert run.stderr == ""
    assert (other.exit_code, named.exit_code) == (3, 2)
    stored = shell.lines("schedules", "list", "--tenant", "acme")
    assert [(one["name"], one["tenant"]) for one in stored] == [("own", "acme")]


def test_declared_schedules_reach_the_store_through_a_service_and_keep_a_pause(
    shell: Shell, queue: Queue
) -> None:
    app = Longshore()
    app.schedule("often", app.spec("report", {"n": 1}), every=25_200)

    async def store(url: str) -> None:
        async with Client(url) as client:
            await client.declare(Declarations(schedules=list(app.schedules)))

    with serving(queue.url) as url:
        asyncio.run(store(url))
        (paused,) = shell.lines("schedules", "pause", "often")
        asyncio.run(store(url))

    (stored,) = shell.lines("schedules", "list")
    assert (stored["payload"], stored["every_seconds"]) == ({"n": 1}, 25_200)
    assert stored == paused
