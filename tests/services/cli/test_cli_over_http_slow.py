"""`longshore jobs slow` tells the same in front of a service as beside its store."""

from collections.abc import Generator

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving, the_same

from longshore.core.state import Verb
from longshore.testing.factories import SECOND


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


def test_slow_types_are_told_the_same_and_by_tag(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    for number, (type_name, tag) in enumerate([("mail.send", "a"), ("mail.read", "b")], 1):
        job_id = queue.submit(queue="mail", type=type_name, tags=(tag,))
        due = queue.get(job_id).run_at
        times = {"started_at": due, "finished_at": due + number * SECOND}
        queue.settle(job_id, Verb.SUCCEED, **times)

    both = the_same(shell, service, "jobs", "slow")
    tagged = the_same(shell, service, "jobs", "slow", "--tag", "a", "--queue", "mail")
    the_same(shell, service, "jobs", "slow", "--tenant", "default", "--type", "mail.read")

    assert "mail.send" in both
    assert "mail.read" in both
    assert "mail.send" in tagged
    assert "mail.read" not in tagged
