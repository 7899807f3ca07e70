"""`longshore top` tells the same in front of a service as beside its store."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving
from terminal import Terminal

from longshore.contract import Engine
from longshore.core.limit_settings import BreakerSettings, Layer
from longshore.records import breaker_settings, pauses
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import a_worker

pytestmark = pytest.mark.slow

TOP = ("top", "--interval", "100ms")
CHANGING = ("at", "url", "oldest_age_seconds", "submitted_per_second", "ended_per_second")


@pytest.fixture
def service(queue: Queue) -> Generator[str]:
    with serving(queue.url) as url:
        yield url


def key(shell: Shell, *words: str) -> str:
    """A new API key."""
    made = shell("keys", "create", *words, "--json")
    assert made.exit_code == 0, made.output
    return str(json.loads(made.stdout)["key"])


def with_key(url: str, key: str) -> str:
    return url.replace("://", f"://{key}@")


def constant(document: Any) -> Any:
    """The document without what differs from one look to the next."""
    if isinstance(document, dict):
        return {name: constant(one) for name, one in document.items() if name not in CHANGING}
    return [constant(one) for one in document] if isinstance(document, list) else document


def fill(queue: Queue) -> None:
    """Jobs of two tenants, a dead one, two workers, of which one crashed, and a breaker."""

    async def run(engine: Engine) -> None:
        settings = BreakerSettings(failures=3)
        await breaker_settings.put(engine, "http.call", Layer.DECLARED, settings)
        await engine.submit([a_job(queue="mail"), a_job(queue="acme", tenant="acme")])
        await pauses.pause(engine, type="noop")
        crashed = await a_worker(engine, name="crashed", queues=["bulk"], types=["t"])
        await engine.submit([a_job(queue="bulk", type="t")])
        await crashed.claim(1)
        await engine.end_session(crashed.session.token, [])
        await a_worker(engine, name="w1", queues=["idle"], lease=60 * SECOND)

    queue.ask(run)
    queue.dead(queue="mail", type="mail.send")


def test_one_look_finds_the_same_through_a_service(
    queue: Queue, shell: Shell, service: str
) -> None:
    fill(queue)

    (beside,) = shell.lines(*TOP)
    (over,) = ServiceShell(service).lines(*TOP)
    text = ServiceShell(service)(*TOP, "--once").stdout

    assert constant(over) == constant(beside)
    assert over["url"] == service
    queues = {one["queue"]: one for one in over["queues"]}
    assert queues["idle"]["paused_types"] == ["noop"]
    assert (queues["mail"]["dead"], queues["mail"]["ended_per_second"]) == (1, 0)
    assert over["crashes"] == {"workers": 1, "jobs": 1}
    for words in ("QUEUES 4", "idle (paused: noop)", "WORKERS 1, 1 CRASHED SO FAR", "DEAD 1"):
        assert words in text


def test_with_a_tenants_key_it_shows_the_tenants_jobs_and_no_workers(
    queue: Queue, shell: Shell, service: str
) -> None:
    fill(queue)
    shell("tenants", "create", "acme")
    mine = key(shell, "--tenant", "acme", "--scope", "read")

    (found,) = ServiceShell(with_key(service, mine)).lines(*TOP)

    assert [one["queue"] for one in found["queues"]] == ["acme"]
    assert found["url"] == service
    assert (found["workers"], found["crashes"], found["breakers"]) == (None, None, None)
    assert found["dead"] == []


def test_a_key_that_may_only_read_watches_and_opens_jobs_and_pauses_nothing(
    queue: Queue, shell: Shell, service: str, tmp_path: Path
) -> None:
    waiting = queue.submit(queue="mail", type="mail.send")
    url = with_key(service, key(shell, "--scope", "read", "--all-tenants"))

    with Terminal(tmp_path, *TOP, "--url", url) as terminal:
        terminal.shows("▸ mail", service, "no worker is connected", without="@")
        terminal.type("py")
        terminal.shows("operate", without="(paused)")
        terminal.type("\r")
        terminal.shows(f"▸ {waiting}")
        terminal.type("\r")
        terminal.shows(f"id         {waiting}", "No worker is connected.")
        terminal.type("q")

        assert terminal.left() == 0
    assert not queue.ask(lambda engine: pauses.every(engine))
