"""The audit log in front of a service and beside its store."""

import asyncio
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving
from test_cli_over_http import the_same

from longshore import audit_query
from longshore.client import Client
from longshore.core.audit import Entry, Mark
from longshore.core.retention import Retention
from longshore.errors import EngineError


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


@pytest.fixture
def noted(shell: Shell, queue: Queue) -> str:
    """The head of a log with three entries."""
    for verb, name in (("pause", "mail"), ("pause", "reports"), ("resume", "mail")):
        shell("queues", verb, name)
    queue.ask(lambda engine: engine.chain(limit=100))
    return shell("audit", "head").stdout.strip()


def tampered(queue: Queue, statement: str) -> None:
    with sqlite3.connect(queue.url.removeprefix("sqlite:///")) as db:
        assert db.execute(statement).rowcount > 0


def test_the_log_is_listed_headed_exported_and_verified_the_same(
    shell: Shell, service: ServiceShell, queue: Queue, noted: str, tmp_path: Path
) -> None:
    listed = the_same(shell, service, "audit", "list", "--subject", "mail")
    few = service("audit", "list", "--action", "queue.*", "--limit", "1")
    since = ("--since", "2030-01-31T09:00:00Z")
    file = tmp_path / "audit.jsonl"
    file.write_bytes(service("audit", "export").stdout_bytes)

    assert listed.count("mail") == 2
    assert "only the newest 1" in few.stderr
    assert the_same(shell, service, "audit", "list", *since) == ""
    assert the_same(shell, service, "audit", "head") == f"{noted}\n"
    assert "3 entries are whole" in the_same(shell, service, "audit", "verify", "--head", noted)
    assert file.read_bytes() == shell("audit", "export").stdout_bytes
    assert shell("audit", "verify", "--file", file, "--head", noted).exit_code == 0


def test_what_is_done_through_a_service_is_in_the_log_it_serves(
    service: ServiceShell, queue: Queue
) -> None:
    service("queues", "pause", "mail")
    queue.ask(lambda engine: engine.chain(limit=100))

    (item,) = service.lines("audit", "list")

    assert (item["id"], item["action"], item["actor"]) == ("1.0", "queue.pause", "loopback")


@pytest.mark.parametrize(
    ("statement", "entry"),
    [
        ("update longshore_audit set actor = 'somebody' where number = 2", 2),
        ("delete from longshore_audit where number = 2", 2),
        ("update longshore_audit_standing set head = 2", 3),
    ],
)
def test_whoever_touches_the_log_is_told_on_through_a_service(
    shell: Shell, service: ServiceShell, queue: Queue, noted: str, statement: str, entry: int
) -> None:
    tampered(queue, statement)

    the_same(shell, service, "audit", "verify")

    code, told = service.json("audit", "verify")
    assert (code, told["entry"]) == (1, entry)


def test_a_head_that_cannot_be_compared_is_told_through_a_service_too(
    shell: Shell, service: ServiceShell, queue: Queue, noted: str
) -> None:
    older = Mark(1, bytes(32)).text
    queue.ask(lambda engine: engine.prune(Retention(audit=0), limit=100))

    the_same(shell, service, "audit", "verify", "--keep", "0s", "--head", older)

    code, told = service.json("audit", "verify", "--keep", "0s", "--head", older)
    assert (code, told["is_whole"]) == (9, False)


class LyingService:
    """A service in front of a log that answers with other entries than are stored."""

    def __init__(self, queue: Queue, noted: str) -> None:
        self._head = noted
        self.entries: list[Entry] = queue.ask(
            lambda engine: engine.audit_entries(after=0, limit=100)
        )

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/audit/head":
            return httpx.Response(
                200, json={"head": self._head, "anchor": Mark(0, bytes(32)).text}
            )
        after, limit = (int(request.url.params[name]) for name in ("after", "limit"))
        page: Any = [one for one in self.entries if one.number > after][:limit]
        body = msgspec.json.encode({"entries": page, "cursor": None})
        return httpx.Response(200, content=body)

    def verified(self) -> str | None:
        async def inside() -> str | None:
            transport = httpx.MockTransport(self)
            async with Client("http://localhost", transport=transport) as client:
                _, fault = await audit_query.verify(client)
                return None if fault is None else f"{fault.number}: {fault.words}"

        return asyncio.run(inside())


def test_entries_that_a_service_changes_leaves_out_or_repeats_are_found(
    queue: Queue, noted: str
) -> None:
    service = LyingService(queue, noted)
    one, two, three = service.entries
    changed = msgspec.structs.replace(two, actor="nobody")

    whole = service.verified()
    found: list[str | None] = []
    for entries in ([one, changed, three], [one, three], [one, two], [one, one, two]):
        service.entries = entries
        found.append(service.verified())

    assert whole is None
    assert found == [
        "2: it was changed, or does not follow the one before",
        "2: entry 2 is missing",
        "3: entries 3 to 3 are missing at the end",
        "1: it comes twice",
    ]


def test_a_service_that_answers_the_same_entries_for_ever_is_given_up(
    queue: Queue, noted: str
) -> None:
    class Endless(LyingService):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            query = {**request.url.params, "after": "0", "limit": "1"}
            return super().__call__(httpx.Request("GET", request.url.copy_with(params=query)))

    with pytest.raises(EngineError, match="does not go on behind its entry 1"):
        Endless(queue, noted).verified()
