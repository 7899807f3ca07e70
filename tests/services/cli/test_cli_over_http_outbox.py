"""Commands about who reads events, in front of a service and beside its store."""

import re
from collections.abc import Generator

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving
from test_cli_over_http import the_same

from longshore.contract import Engine
from longshore.core import ids
from longshore.core.consumer import Quarantined
from longshore.core.event import NOBODY, Name
from longshore.records import quarantine

MINUTE = 60_000_000


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


def test_consumers_are_listed_and_forgotten_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    the_same(shell, service, "outbox", "list")
    queue.submit()

    async def read(engine: Engine) -> None:
        for name in ("kafka", "a name/with ?signs"):
            cursor = await engine.take_cursor(name, holder="host:1", lease=MINUTE)
            assert cursor is not None
            await engine.advance(cursor, position=(await engine.span()).last)
        await engine.take_cursor("behind", holder="host:1", lease=MINUTE)

    queue.ask(read)
    (behind,) = [one for one in service.lines("outbox", "list") if one["name"] == "behind"]
    assert (behind["behind"], behind["lag_seconds"] > 0) == (1, True)
    assert service("outbox", "forget", "behind").exit_code == 0
    assert "host:1" in the_same(shell, service, "outbox", "list")
    assert service("outbox", "forget", "a name/with ?signs", "--json").exit_code == 0
    assert [one["name"] for one in shell.lines("outbox", "list")] == ["kafka"]
    the_same(shell, service, "outbox", "forget", "behind")
    assert service("outbox", "forget", "behind").exit_code == 3


def test_events_that_were_set_aside_are_listed_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    job_id = ids.parse(queue.submit())
    the_same(shell, service, "outbox", "quarantined")

    async def set_aside(engine: Engine) -> None:
        cursor = await engine.take_cursor("kafka", holder="host:1", lease=MINUTE)
        assert cursor is not None
        for number in range(1_100):
            about = NOBODY if number % 2 else job_id
            one = Quarantined(
                "kafka", f"1.{number}", Name.SUBMITTED, about, "too large", b"{}\xff"
            )
            await engine.advance(
                cursor, position=1, quarantined=[quarantine.put(one, "default")]
            )

    queue.ask(set_aside)
    shown = the_same(shell, service, "outbox", "quarantined", "--limit", "3")
    many = service.lines("outbox", "quarantined", "--limit", "1050")

    assert re.findall(r"^1\.\d+", shown, re.MULTILINE) == ["1.1099", "1.1098", "1.1097"]
    assert [one["event_id"] for one in many] == [f"1.{n}" for n in range(1_099, 49, -1)]
    assert many[0]["job_id"] is None
    assert many[1]["job_id"] == ids.text(job_id)
