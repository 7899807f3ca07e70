"""Commands for ordering keys do the same in front of a service as beside its store."""

from collections.abc import Generator

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving, the_same

from longshore.core.state import Verb


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


def block(queue: Queue, key: str) -> str:
    """A job of the key that died, with another one behind it."""
    first = queue.submit(queue="mail", ordering_key=key)
    queue.submit(queue="mail", ordering_key=key)
    queue.settle(first, Verb.KILL)
    return first


def test_blocked_lines_are_listed_and_shown_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    shell("queues", "set", "mail", "--on-dead", "block", "--max-running-per-key", "1")
    first = block(queue, "anna/../%2F")
    block(queue, "bert")

    listed = the_same(shell, service, "lines", "blocked")
    limited = the_same(shell, service, "lines", "blocked", "--limit", "1")
    shown = the_same(shell, service, "lines", "show", "mail", "anna/../%2F")

    assert first in listed
    assert "bert" in listed
    assert "bert" not in limited
    assert first in shown
    the_same(shell, service, "lines", "show", "mail", "nobody")
    the_same(shell, service, "lines", "blocked", "--tenant", "default")


def test_a_blocked_line_is_released_through_a_service(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    shell("queues", "set", "mail", "--on-dead", "block", "--max-running-per-key", "1")
    block(queue, "anna/1")

    released = service("lines", "release", "mail", "anna/1")

    assert released.stdout == "released\n"
    assert shell.lines("lines", "blocked") == []
    the_same(shell, service, "lines", "release", "mail", "anna/1")
