"""Several processes on one file."""

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from longshore.contract import Engine
from longshore.core.job import NewJob
from longshore.engines import open_engine
from longshore.engines.sqlite.notify import wake_folder
from longshore.errors import ConfigError
from longshore.runtime.ids import IdSource
from longshore.testing.harness import eventually

processes = multiprocessing.get_context("spawn")


def _submit_many(url: str, batches: int) -> None:
    async def main() -> None:
        engine, ids = open_engine(url), IdSource()
        for _ in range(batches):
            await engine.submit([NewJob(id=ids.make(), type="t") for _ in range(10)])
        await engine.close()

    asyncio.run(main())


def _claim_all(url: str, claimed: "multiprocessing.Queue[list[str]]") -> None:
    async def main() -> list[str]:
        engine = open_engine(url)
        session = await engine.open_session(
            worker=str(os.getpid()), queues=["default"], types=["t"], lease=60_000_000
        )
        found: list[str] = []
        number = 0
        while True:
            number += 1
            answer = await session.exchange(number, want=7)
            if not answer.claims:
                break
            found += [one.id.hex() for one in answer.claims]
        # Keep what was claimed: releasing it would let the others claim it again.
        await engine.close()
        return found

    claimed.put(asyncio.run(main()))


async def test_writers_in_several_processes_wait_for_each_other(
    engine: Engine, path: Path
) -> None:
    children = [
        processes.Process(target=_submit_many, args=(f"sqlite:///{path}", 40)) for _ in range(3)
    ]
    for child in children:
        child.start()
    for child in children:
        await asyncio.to_thread(child.join, 60)

    assert [child.exitcode for child in children] == [0, 0, 0]
    assert [one.ready for one in await engine.counts()] == [1_200]


def _open_first(url: str, start: float, failures: "multiprocessing.Queue[str]") -> None:
    async def main() -> None:
        engine = open_engine(url)
        time.sleep(max(start - time.monotonic(), 0))  # noqa: ASYNC251  # all at the same moment
        await engine.migrate()
        await engine.counts()
        await engine.close()

    try:
        asyncio.run(main())
    except BaseException as error:
        failures.put(repr(error))
        raise


@pytest.mark.slow
async def test_processes_that_find_no_file_yet_make_one_together(tmp_path: Path) -> None:
    failures: multiprocessing.Queue[str] = processes.Queue()
    start = time.monotonic() + 1.5
    children = [
        processes.Process(
            target=_open_first, args=(f"sqlite:///{tmp_path}/{file}.db", start, failures)
        )
        for file in range(2)
        for _ in range(4)
    ]
    for child in children:
        child.start()
    for child in children:
        await asyncio.to_thread(child.join, 60)

    assert [child.exitcode for child in children] == [0] * 8, failures.get(timeout=1)


async def test_claimers_in_several_processes_never_get_the_same_job(
    engine: Engine, path: Path
) -> None:
    ids = IdSource()
    await engine.submit([NewJob(id=ids.make(), type="t") for _ in range(500)])
    claimed: multiprocessing.Queue[list[str]] = processes.Queue()
    children = [
        processes.Process(target=_claim_all, args=(f"sqlite:///{path}", claimed))
        for _ in range(3)
    ]
    for child in children:
        child.start()
    found = [job for _ in children for job in await asyncio.to_thread(claimed.get, True, 60)]
    for child in children:
        await asyncio.to_thread(child.join, 60)

    assert len(found) == len(set(found)) == 500


async def test_a_submit_in_another_process_wakes_a_waiting_session(
    engine: Engine, path: Path
) -> None:
    session = await engine.open_session(
        worker="w", queues=["default"], types=["t"], lease=60_000_000
    )
    waiting = asyncio.create_task(session.wait(30))
    await asyncio.sleep(0)  # let it listen
    child = processes.Process(target=_submit_many, args=(f"sqlite:///{path}", 1))

    child.start()
    await asyncio.wait_for(waiting, 20)

    assert (await session.exchange(1, want=100)).claims
    await asyncio.to_thread(child.join, 60)


async def test_a_socket_left_by_a_killed_process_is_swept_away(
    engine: Engine, path: Path
) -> None:
    child = processes.Process(target=_wait_for_ever, args=(f"sqlite:///{path}",))
    child.start()
    folder = wake_folder(str(path))
    async with asyncio.timeout(30):
        while not folder.exists() or not list(folder.iterdir()):
            await asyncio.sleep(0.01)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    await asyncio.to_thread(child.join, 30)

    await engine.submit([NewJob(id=IdSource().make(), type="t")])

    assert list(folder.iterdir()) == []


def _wait_for_ever(url: str) -> None:
    async def main() -> None:
        engine = open_engine(url)
        session = await engine.open_session(
            worker="w", queues=["other"], types=["t"], lease=60_000_000
        )
        await session.wait(600)

    asyncio.run(main())


async def test_an_engine_carried_over_a_fork_is_refused(engine: Engine, path: Path) -> None:
    """Its threads stayed behind: a call would wait for ever, a close take the sockets away."""
    await engine.counts()
    session = await engine.open_session(
        worker="w", queues=["default"], types=["t"], lease=60_000_000
    )
    await session.wait(0.000_1)
    sockets = list(wake_folder(str(path)).iterdir())
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.new_event_loop().run_until_complete(_use_inherited(engine, write))
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)

    assert os.read(read, 100) == b"submit refused, counts refused, closed"
    assert list(wake_folder(str(path)).iterdir()) == sockets


async def _use_inherited(engine: Engine, write: int) -> None:
    async with asyncio.timeout(10):
        try:
            await engine.submit([])
        except ConfigError:
            os.write(write, b"submit refused, ")
        try:
            await engine.counts()
        except ConfigError:
            os.write(write, b"counts refused, ")
        await engine.close()
        os.write(write, b"closed")


@pytest.mark.parametrize("callers", [64])
async def test_many_callers_share_few_commits(engine: Engine, callers: int) -> None:
    ids = IdSource()

    await asyncio.gather(
        *(engine.submit([NewJob(id=ids.make(), type="t")]) for _ in range(callers))
    )

    batches = await engine.events(after=0, limit=1_000)
    assert sum(len(group.ids) // 16 for batch in batches for group in batch.groups) == callers
    assert len(batches) <= callers // 8


async def test_a_log_that_readers_held_back_is_emptied_when_they_are_gone(
    engine: Engine, path: Path
) -> None:
    """Under writers and readers that never pause SQLite would let it take the whole disk."""
    ids = IdSource()
    log = path.with_name(path.name + "-wal")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from longshore_job").fetchone()
    while log.stat().st_size < 80 << 20:
        await engine.submit(
            [
                NewJob(id=ids.make(), type="t", payload=b'{"x":"%s"}' % (b"x" * 1_000_000))
                for _ in range(10)
            ]
        )
    reader.close()

    async def is_small() -> bool:
        await engine.submit([NewJob(id=ids.make(), type="t")])
        return log.stat().st_size < 16 << 20

    assert await eventually(is_small, within=20)
    await engine.ping()
