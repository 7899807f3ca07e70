"""Who asks the service without await: the blocking client, and the command line."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_steps import served
from click.testing import CliRunner

from longshore.cli.main import main
from longshore.client import Submission, SyncClient
from longshore.contract import Engine, JobFilter
from longshore.core import ids
from longshore.core.account import NewKey, Scope
from longshore.core.state import State
from longshore.errors import JobFailedError
from longshore.records import api_keys
from longshore.runtime.keys import mint
from longshore.testing.factories import a_job


class Forgetful(httpx.BaseTransport):
    """A line that loses the first answer."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport()
        self.asked: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._inner.handle_request(request)
        self.asked.append(request.headers.get("idempotency-key", ""))
        if len(self.asked) == 1:
            answer.read()
            raise httpx.ReadError("cut off")
        return answer

    def close(self) -> None:
        self._inner.close()


async def test_the_blocking_client_makes_one_job_of_a_lost_answer_and_hears_its_end(
    memory: Engine,
):
    line = Forgetful()

    def ask(url: str) -> tuple[list[str], list[str | None]]:
        with SyncClient(url, transport=line) as client:
            job = client.submit("mail", {"n": 1}, queue="mail")
            many = client.submit_many([Submission("mail", {}, {"queue": "mail"})] * 3)
            listed = [one.id for one in client.jobs(queue="mail", limit=2)]
            client.cancel(job.id, "no longer wanted")
            with pytest.raises(JobFailedError, match="no longer wanted"):
                client.result(job.id, timeout=10)
            return listed, [job.id, *[one.id for one in many]]

    async with served(memory) as (host, port):
        listed, submitted = await asyncio.to_thread(ask, f"http://{host}:{port}")

    assert len(line.asked[0]) > 0
    assert line.asked[0] == line.asked[1]
    assert len(listed) == 4
    assert set(listed) == set(submitted)
    assert len((await memory.find(JobFilter(), limit=10)).jobs) == 4


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs `longshore` in a thread: its exit code, and what it printed."""
    monkeypatch.chdir(tmp_path)

    async def run(*words: str) -> tuple[int, str]:
        result = await asyncio.to_thread(CliRunner().invoke, main, list(words))
        assert "Traceback" not in result.output
        return result.exit_code, result.output

    return run


async def test_commands_work_over_http_as_far_as_their_key_goes(
    engine: Engine, shell: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    scopes: list[tuple[Scope, ...]] = [tuple(Scope), (Scope.READ,)]
    minted = [mint() for _ in scopes]
    for one, allowed in zip(minted, scopes, strict=True):
        await api_keys.add(
            engine, NewKey(id=one.id, digest=one.digest, tenant=None, scopes=allowed)
        )
    operator, reader = [one.text for one in minted]
    monkeypatch.setenv("LONGSHORE_KEY", operator)
    job = a_job(type="noop")
    await engine.submit([job])
    name = ids.text(job.id)
    async with served(engine) as (host, port):
        url = f"http://{host}:{port}"
        _, listed = await shell("--url", url, "jobs", "list", "--json")
        submitted = await shell("--url", url, "submit", "noop", "--queue", "mail")
        paused = await shell("--url", url, "queues", "pause", "mail")
        cancelled = await shell("--url", url, "jobs", "cancel", name)
        keys = await shell("--url", url, "keys", "list")
        forbidden = await shell("--url", url, "--api-key", reader, "jobs", "cancel", name)
        read = await shell("--url", url, "--api-key", reader, "jobs", "show", name)
        stranger = await shell("--url", url, "--api-key", mint().text, "jobs", "list")
    gone = await shell("--url", url, "jobs", "list")

    assert [json.loads(line)["id"] for line in listed.splitlines()] == [name]
    assert [submitted[0], paused[0], cancelled[0], keys[0], read[0]] == [0] * 5
    assert (await engine.get(job.id)).state is State.CANCELLED
    assert [one.is_paused for one in await engine.counts() if one.queue == "mail"] == [True]
    assert forbidden[0] != 0
    assert "scope" in forbidden[1]
    assert stranger[0] != 0
    assert "key" in stranger[1]
    assert gone[0] == 7
    assert "cannot be reached" in gone[1]
