"""Commands for circuit breakers do the same in front of a service as beside its store."""

from collections.abc import Generator

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving, the_same

from longshore.contract import Engine
from longshore.core.limit_settings import BreakerSettings, Layer
from longshore.records import breaker_settings
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


def declare(queue: Queue, type_name: str, settings: BreakerSettings) -> None:
    queue.ask(lambda engine: breaker_settings.put(engine, type_name, Layer.DECLARED, settings))


def trip(queue: Queue, type_name: str) -> None:
    """Let a job of the type fail."""

    async def run(engine: Engine) -> None:
        await engine.submit([a_job(type=type_name)])
        worker = await a_worker(engine, types=[type_name])
        (claim,) = await worker.claim(1)
        await worker.fail(claim)

    queue.ask(run)


def test_breakers_are_listed_and_shown_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    declare(queue, "mail.send", BreakerSettings(failures=1, cooldown=60_000_000))
    shell("breakers", "set", "mail.send", "--ratio", "0.5", "--window", "1500ms")
    trip(queue, "mail.send")

    assert "open " in the_same(shell, service, "breakers", "list")
    shown = the_same(shell, service, "breakers", "show", "mail.send")
    for words in ("phase     open", "1s500ms", "1m"):
        assert words in shown
    the_same(shell, service, "breakers", "show", "nobody-knows-it")


def test_breakers_are_set_reset_and_forgotten_through_a_service(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    declare(queue, "mail.send", BreakerSettings(failures=1, cooldown=60_000_000))
    trip(queue, "mail.send")

    (tripped,) = shell.lines("breakers", "list")
    service("breakers", "reset", "mail.send")
    service("breakers", "set", "mail.send", "--failures", "7", "--cooldown", "1500ms")
    (reset,) = shell.lines("breakers", "list")
    service("breakers", "unset", "mail.send", "--cooldown", "--declared")
    (unset,) = shell.lines("breakers", "list")
    service("breakers", "unset", "mail.send", "--all")

    assert (tripped["phase"], reset["phase"]) == ("open", "closed")
    assert reset["settings"]["failures"] == 7
    assert reset["settings"]["cooldown_seconds"] == 1.5
    assert reset["declared"]["failures"] == 1
    assert unset["settings"]["cooldown_seconds"] is None
    assert unset["overridden"]["failures"] == 7
    assert unset["declared"]["failures"] is None
    assert shell.lines("breakers", "list") == []


def test_a_setting_that_makes_no_sense_is_refused_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    for words in (["--probes", "2"], ["--failures", "0"], ["--failures", "1", "--least", "9"]):
        the_same(shell, service, "breakers", "set", "mail.send", *words)
    assert shell.lines("breakers", "list") == []
