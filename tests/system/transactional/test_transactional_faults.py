"""A completion whose worker is killed, or whose connection is cut, at the worst moment."""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from transaction_steps import (
    assert_in_order,
    claimed,
    complete,
    released,
    state_of,
    submitted,
    written,
)

from longshore import Longshore
from longshore.core.state import State
from longshore.errors import EngineUnavailableError, LeaseLostError
from longshore.testing.harness import eventually

SCRIPT = str(Path(__file__).with_name("transaction_process.py"))


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_job_is_run_again_exactly_if_its_worker_was_killed_before_the_commit(
    app: Longshore, url: str, db: Any, when: str
) -> None:
    """A real process and a real SIGKILL, in the handler itself."""
    (handle,) = await submitted(app)
    for ending in (-signal.SIGKILL, 0):
        process = await asyncio.create_subprocess_exec(sys.executable, SCRIPT, url, when)
        async with asyncio.timeout(60):
            assert await process.wait() == ending
        is_done = when == "after" or ending == 0
        # At once, and not when the session is buried.
        assert await written(db) == ([0] if is_done else [])
        assert await state_of(handle) is (State.SUCCEEDED if is_done else State.RUNNING)
        await assert_in_order(db)
        await db.execute("update longshore.session set expires_at = 0")
        await app.engine.expired_sessions(grace=0, limit=10)
        for token in [row["token"] for row in await db.fetch("table longshore.session")]:
            await app.engine.end_session(token, [], grace=0)

    job = await handle.get()
    assert (job.state, job.delivery) == (State.SUCCEEDED, 1 if when == "after" else 2)
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    assert await db.fetchval("select count(*) from longshore.journal") == 0
    await assert_in_order(db)


async def a_worker(url: str, log: Path) -> asyncio.subprocess.Process:
    """A worker with a keeper, as the command line starts them; both write into the log."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    words = ["worker", "--json", "--lease", "60s", "--url", url, "--app", "transaction_app:app"]
    with log.open("wb") as errors:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "longshore", *words),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stderr=errors,
        )


def logged(log: Path, event: str) -> list[dict[str, Any]]:
    whole, _, _ = log.read_text().rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines()]
    return [line for line in lines if line["event"] == event]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux")
async def test_a_keeper_that_reports_a_death_after_the_commit_frees_no_job(
    app: Longshore, url: str, db: Any, tmp_path: Path
) -> None:
    (handle,) = await submitted(app)
    log = tmp_path / "log"
    process = await a_worker(url, log)

    async with asyncio.timeout(60):
        assert await process.wait() == -signal.SIGKILL
    (died,) = await eventually(lambda: logged(log, "worker died, its jobs are free"), within=60)

    job = await handle.get()
    assert (job.state, job.delivery, job.crashes) == (State.SUCCEEDED, 1, 0)
    assert died["crashed"] == 0
    assert await written(db) == [0]
    for table in ("session", "claim", "journal", "ready", "scheduled"):
        assert await db.fetchval(f"select count(*) from longshore.{table}") == 0
    await assert_in_order(db)


class Line:
    """A line to the server that is cut when the handler's transaction commits."""

    def __init__(
        self, target: str, cut: str, *, meanwhile: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """`meanwhile` is done when the server has given up, and before the client knows."""
        self._target, self._cut, self._meanwhile = target, cut, meanwhile
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, away = await asyncio.open_unix_connection(self._target)
        back = asyncio.create_task(self._pump(there, writer))
        while data := await reader.read(65_536):
            if b"COMMIT;" in data:
                await self._end(back, writer, away, data)
                return
            away.write(data)
        away.close()
        await asyncio.wait([back])

    async def _end(
        self, back: asyncio.Task[None], here: Any, away: asyncio.StreamWriter, commit: bytes
    ) -> None:
        back.cancel()
        if self._meanwhile is not None:
            away.close()
            await self._meanwhile()
        here.close()
        if self._cut == "after a while":
            await asyncio.sleep(0.3)
        if self._cut != "before":
            away.write(commit)
            await away.drain()
        away.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()


@pytest.mark.parametrize("cut", ["before", "after", "after a while"])
async def test_the_truth_about_a_commit_without_answer_is_learned(
    url: str, db: Any, cut: str
) -> None:
    """Before the server heard of it, or after; also when it hears of it much later."""
    (host, port) = re.search(r"host=([^&]+)&port=(\d+)", url).groups()  # pyright: ignore
    with tempfile.TemporaryDirectory(prefix="ls-") as folder:
        line = Line(f"{host}/.s.PGSQL.{port}", cut)
        server = await asyncio.start_unix_server(line.serve, f"{folder}/.s.PGSQL.{port}")
        app = Longshore(url.replace(host, folder))
        async with server, app:
            (handle,) = await submitted(app)
            session, (claim,) = await claimed(app)
            outcome = await asyncio.gather(complete(session, claim), return_exceptions=True)
            is_done = cut != "before"
            assert await state_of(handle) is (State.SUCCEEDED if is_done else State.RUNNING)
            # The session goes on in either case.
            answer = await session.exchange(2, settlements=[released(claim)])
            assert answer.stale == []
            state = await state_of(handle)
            await session.close()

    assert state is (State.SUCCEEDED if is_done else State.READY)
    assert [type(error) for error in outcome] == [
        type(None) if is_done else EngineUnavailableError
    ]
    assert await written(db) == ([1] if is_done else [])
    await assert_in_order(db)


async def test_a_commit_without_answer_of_a_session_that_was_buried_is_a_lost_lease(
    url: str, db: Any
) -> None:
    (host, port) = re.search(r"host=([^&]+)&port=(\d+)", url).groups()  # pyright: ignore
    with tempfile.TemporaryDirectory(prefix="ls-") as folder:
        near = Longshore(url)
        line = Line(
            f"{host}/.s.PGSQL.{port}",
            "before",
            meanwhile=lambda: near.engine.end_session(session.token, []),
        )
        server = await asyncio.start_unix_server(line.serve, f"{folder}/.s.PGSQL.{port}")
        app = Longshore(url.replace(host, folder))
        async with server, near, app:
            (handle,) = await submitted(app)
            session, (claim,) = await claimed(app)
            other, _ = await claimed(near)

            outcome = await asyncio.gather(complete(session, claim), return_exceptions=True)

            state = await state_of(handle)
            await other.close()

    assert [type(error) for error in outcome] == [LeaseLostError]
    assert state is State.READY
    assert await written(db) == []
    await assert_in_order(db)
