"""Events in front of a service and beside its store."""

import json
from collections.abc import Generator

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving
from test_cli_over_http import the_same

from longshore.contract import Engine
from longshore.core.retention import Retention
from longshore.records import schedules
from longshore.testing.factories import a_schedule


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


def test_events_are_shown_from_the_start_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    mail, other = queue.submit(queue="mail"), queue.dead(queue="other", type="b")
    queue.settle(mail)
    tail = ("events", "tail", "--from-start", "--limit")

    ours = the_same(shell, service, *tail, 3, "--queue", "mail")
    typed = the_same(shell, service, *tail, 3, "--type", "b")
    died = the_same(shell, service, *tail, 1, "--state", "dead")
    theirs = the_same(shell, service, *tail, 2, "--job", other)
    started = the_same(shell, service, *tail, 1, "--event", "job.started")

    assert [line.split()[1] for line in ours.splitlines()] == [
        "job.submitted",
        "job.started",
        "job.succeeded",
    ]
    assert ours.count(mail) == 3
    assert typed.count(other) == 3
    assert "out of attempts" in died
    assert theirs.count(other) == 2
    assert mail in started


def test_what_is_kept_is_shown_to_its_end_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    tail = ("events", "tail", "--no-follow")
    nothing = the_same(shell, service, *tail)
    jobs = [queue.submit(queue="mail") for _ in range(3)]

    async def fire(engine: Engine) -> None:
        schedule = a_schedule()
        await schedules.put(engine, schedule)

    queue.ask(fire)
    shown = the_same(shell, service, *tail)
    two = the_same(shell, service, *tail, "--limit", "2")
    none = the_same(shell, service, *tail, "--queue", "other")
    queue.ask(lambda engine: engine.prune(Retention(outbox=0), limit=100))
    pruned = the_same(shell, service, *tail)
    last = queue.submit()
    after = the_same(shell, service, *tail)

    assert nothing == none == pruned == ""
    assert [line.split()[2] for line in shown.splitlines()] == jobs
    assert [line.split()[2] for line in two.splitlines()] == jobs[:2]
    assert last in after


def test_an_event_is_printed_as_the_service_tells_it(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    job = queue.submit(
        queue="mail", type="mail.send", trace="00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    )

    (told,) = service.lines("events", "tail", "--no-follow")

    assert (told["name"], told["job_id"], told["queue"]) == ("job.submitted", job, "mail")
    assert {*told} == {
        "id",
        "name",
        "at",
        "job_id",
        "queue",
        "type",
        "tenant",
        "details",
        "trace",
    }
    assert json.dumps(told).count("1" * 32) == 1
