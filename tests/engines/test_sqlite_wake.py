"""Wake-ups between processes: a lost one costs a poll, and none of it can fail a call."""

import asyncio
import errno
import multiprocessing
import os
import socket
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import cast

import pytest

from longshore.contract import Engine, Exchanged, PromptSession, Session
from longshore.core.job import NewJob, Verdict
from longshore.engines import open_engine
from longshore.engines.sqlite import submission, wal_checkpoint
from longshore.engines.sqlite.connection import Store
from longshore.engines.sqlite.notify import Waker, wake_folder
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.wal_checkpoint import Log
from longshore.engines.sqlite.writer import Writer
from longshore.errors import EngineUnavailableError
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource

ids = IdSource()
processes = multiprocessing.get_context("spawn")


def a_job() -> NewJob:
    return NewJob(id=ids.make(), type="t")


async def _session(engine: Engine) -> Session:
    return await engine.open_session(
        worker="w", queues=["default"], types=["t"], lease=60_000_000
    )


async def _is_woken_by(other: Engine, session: Session) -> bool:
    waiting = asyncio.create_task(session.wait(30))
    await asyncio.sleep(0)  # let it listen
    await other.submit([a_job()])
    done, _ = await asyncio.wait([waiting], timeout=10)
    waiting.cancel()
    return bool(done)


async def test_a_place_without_room_for_sockets_fails_no_call(
    engine: Engine, path: Path
) -> None:
    wake_folder(str(path)).write_text("a file stands where the folder should")
    session = await _session(engine)

    await engine.submit([a_job()])
    await session.wait(0.01)

    assert len((await session.exchange(1, want=5)).claims) == 1


async def test_a_claim_at_a_wake_up_leaves_the_loop_alone_while_others_write(
    engine: Engine, path: Path
) -> None:
    session, number = cast("PromptSession", await _session(engine)), 1
    while await _claimed(session, number, 0.2) is not None:
        number += 1  # it looks once more when it begins to listen
    waiting = asyncio.create_task(_claimed(session, number, 30))
    await asyncio.sleep(0)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("begin immediate")
        with closing(Waker(str(path))) as waker:
            waker.wake()
        await asyncio.sleep(0.05)
        is_early = waiting.done()
        db.execute("rollback")
        async with asyncio.timeout(10):
            answer = await waiting

    assert not is_early
    assert answer is not None


async def _claimed(session: PromptSession, number: int, seconds: float) -> Exchanged | None:
    return await session.claim_at_wakeup(number, want=1, queues=None, seconds=seconds)


async def test_work_does_not_wake_who_waits_for_a_cancel_nor_the_other_way_round(
    engine: Engine, path: Path
) -> None:
    session = await _session(engine)
    other = open_engine(f"sqlite:///{path}")
    await other.submit([a_job()])
    (claim,) = (await session.exchange(1, want=1)).claims
    heeding = asyncio.create_task(session.wait(30, until="cancel"))

    assert await _is_woken_by(other, session)
    assert not heeding.done()
    waiting = asyncio.create_task(session.wait(30))
    await other.change("cancel", [claim.id], reason="no longer needed")
    await asyncio.wait([heeding], timeout=10)

    assert heeding.done()
    assert not waiting.done()
    waiting.cancel()
    await other.close()


async def test_waiting_works_again_once_there_is_room(engine: Engine, path: Path) -> None:
    folder = wake_folder(str(path))
    folder.write_text("in the way")
    session = await _session(engine)
    await session.wait(0.01)
    folder.unlink()
    other = open_engine(engine.url)

    assert await _is_woken_by(other, session)
    await other.close()


async def test_a_swept_away_socket_is_made_again_by_the_next_wait(
    engine: Engine, path: Path
) -> None:
    """As a cleaner of temporary files would do it."""
    session, other = await _session(engine), open_engine(engine.url)
    await session.wait(0.01)
    folder = wake_folder(str(path))
    for address in folder.iterdir():
        address.unlink()
    folder.rmdir()

    assert await _is_woken_by(other, session)
    await other.close()


async def test_whoever_leaves_last_takes_no_folder_from_under_a_newcomer(path: Path) -> None:
    folder = wake_folder(str(path))
    deaf = 0

    with _coming_and_going(path):
        while not folder.exists():
            await asyncio.sleep(0.001)
        for _ in range(2_000):
            waker = Waker(str(path))
            await waker.wait(0)
            deaf += not any(one.name.startswith(f"{os.getpid()}-") for one in _inside(folder))
            waker.close()

    assert deaf == 0


def _inside(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


@contextmanager
def _coming_and_going(path: Path) -> Generator[None]:
    """Another process that begins to wait and leaves, again and again."""
    child = processes.Process(target=_come_and_go, args=(str(path),))
    child.start()
    try:
        yield
    finally:
        child.terminate()
        child.join()


def _come_and_go(path: str) -> None:
    async def main() -> None:
        while True:
            waker = Waker(path)
            await waker.wait(0)
            waker.close()

    asyncio.run(main())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
async def test_two_loops_that_wait_in_turn_keep_one_socket_each(
    engine: Engine, path: Path
) -> None:
    session = await _session(engine)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def wait_in_both() -> None:
        await session.wait(0.000_1)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(session.wait(0.000_1), loop))

    await wait_in_both()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await wait_in_both()

    assert len(os.listdir("/proc/self/fd")) == before
    assert len(list(wake_folder(str(path)).iterdir())) == 2
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def test_a_loop_that_is_gone_leaves_the_others_their_wake_ups(
    engine: Engine, path: Path
) -> None:
    session, other = await _session(engine), open_engine(engine.url)
    await asyncio.to_thread(asyncio.run, session.wait(0.000_1))

    assert await _is_woken_by(other, session)
    assert len(list(wake_folder(str(path)).iterdir())) == 1
    await other.close()


async def test_a_process_that_is_too_busy_to_listen_keeps_its_socket(
    engine: Engine, path: Path
) -> None:
    """Its socket is full of wake-ups; that is no reason to take it away."""
    waker, sender = Waker(str(path)), Waker(str(path))
    await waker.wait(0.000_1)
    (address,) = wake_folder(str(path)).iterdir()
    _fill(address)

    sender.wake()
    sender.close()

    assert address.exists()
    waker.close()


def _fill(address: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                sender.sendto(b"!", str(address))


async def test_the_others_are_woken_while_the_lock_keeps_them_from_looking(
    engine: Engine, path: Path
) -> None:
    """They get up while the disk is busy, and cannot look before the work is there."""
    locked: list[bool] = []
    store = Store(path=str(path), clock=SystemClock())
    writer = Writer(store, submission.submit, lambda _: locked.append(_is_locked(path)))

    def free(transaction: Transaction) -> None:
        transaction.wakes = True

    await writer.call(free)

    assert locked == [True]
    await writer.close()


async def test_a_new_job_can_be_taken_before_it_is_on_disk_but_is_not_promised_before(
    engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    sync = Log.sync

    def synced(log: Log, db: sqlite3.Connection) -> None:
        sync(log, db)
        happened.append("on disk")

    def told(_: bytes) -> None:
        happened.append("locked" if _is_locked(path) else "free to take")

    monkeypatch.setattr(Log, "sync", synced)
    store = Store(path=str(path), clock=SystemClock())
    writer = Writer(store, submission.submit, told)

    await writer.submit([a_job()])

    assert happened == ["free to take", "on disk"]
    await writer.close()


async def test_a_disk_that_failed_once_is_not_believed_before_the_log_is_copied_back(
    engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error the system may take pages for written that it has not written."""
    store = Store(path=str(path), clock=SystemClock())
    writer = Writer(store, submission.submit, lambda _: None)
    job, other = a_job(), a_job()
    await writer.submit([a_job()])

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "cannot write")

    with monkeypatch.context() as broken:
        broken.setattr(wal_checkpoint, "_sync", fail)
        with pytest.raises(EngineUnavailableError, match="not known"):
            await writer.submit([job])
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from longshore_job").fetchone()
    # Somebody reads from the log: it cannot be copied whole.
    with pytest.raises(EngineUnavailableError, match="copied back"):
        await writer.submit([other])
    with pytest.raises(EngineUnavailableError, match="copied back"):
        await writer.call(lambda transaction: transaction.now)
    reader.close()
    answers = await writer.submit([job, other])

    assert [answer.verdict for answer in answers] == [Verdict.REPEATED, Verdict.ACCEPTED]
    assert os.path.getsize(f"{path}-wal") < 100_000
    await writer.close()


def _is_locked(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        try:
            other.execute("begin immediate")
        except sqlite3.OperationalError:
            return True
        return False
