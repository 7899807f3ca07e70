"""The doctor in front of a service and beside its store."""

import json
import re
from collections.abc import Generator
from typing import Any

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, at_any_time, serving

from longshore.cli.commands import doctor
from longshore.contract import Engine
from longshore.core.account import NewKey, Scope, Tenant
from longshore.records import api_keys, tenants
from longshore.runtime.keys import mint


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


def findings(shell: Shell, *words: object) -> tuple[int, str, list[dict[str, Any]]]:
    """The exit code, the worst health, and every finding."""
    result = shell(*words, "doctor", "--json")
    told = json.loads(result.stdout)
    return result.exit_code, told["health"], told["findings"]


@pytest.mark.parametrize("has_jobs", [False, True])
def test_a_service_tells_what_the_doctor_finds_beside_its_store(
    shell: Shell, service: ServiceShell, queue: Queue, has_jobs: bool
) -> None:
    shell("queues", "pause", "bulk", "--type", "mail.send")
    if has_jobs:
        queue.submit()
    free = re.compile(r"[\d,]+ MiB")

    beside, over = findings(shell), findings(service)

    own, (ready, clock, *told) = beside[2], over[2]
    assert over[:2] == beside[:2] == ((1, "problem") if has_jobs else (0, "warning"))
    assert (ready["check"], ready["health"]) == ("service", "fine")
    assert (clock["check"], clock["text"]) == ("clock", "this machine and the engine agree")
    for one in (*own, *told):
        one["text"] = free.sub("", one["text"]).replace("the service's machine", "this machine")
    assert told == own
    lines = service("doctor").stdout
    assert "paused: type mail.send in queue bulk" in lines
    assert at_any_time(lines).startswith("ok service http://127.0.0.1:")


def test_a_service_that_cannot_be_reached_is_a_problem(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "PATIENCE_S", 0.2)

    code, health, (finding,) = findings(shell, "--url", "http://lsk_secret@127.0.0.1:9")

    assert (code, health, finding["check"]) == (1, "problem", "service")
    assert "http://127.0.0.1:9 cannot be reached" in finding["text"]
    assert "lsk_secret" not in finding["text"]


def test_a_tenants_key_is_told_nothing_of_the_store(
    shell: Shell, queue: Queue, service: ServiceShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, all_tenants = mint(), mint()

    async def prepare(engine: Engine) -> None:
        await tenants.create(engine, Tenant(name="acme"))
        for key, tenant in ((own, "acme"), (all_tenants, None)):
            scopes = (Scope.READ,)
            await api_keys.add(
                engine, NewKey(id=key.id, digest=key.digest, tenant=tenant, scopes=scopes)
            )

    queue.ask(prepare)
    monkeypatch.setenv("LONGSHORE_KEY", own.text)
    code, _, refused = findings(service)
    text = service("doctor").stdout
    monkeypatch.setenv("LONGSHORE_KEY", all_tenants.text)
    allowed = findings(service)

    assert code == 1
    assert [one["check"] for one in refused] == ["service", "clock", "service"]
    assert "operator's key and the scope read" in text
    assert "jobs.db" not in text
    assert allowed[0] == 0
    assert len(allowed[2]) > 10
