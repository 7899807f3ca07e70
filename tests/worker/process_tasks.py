"""Tasks for child processes: an app that a fresh interpreter can import."""

import asyncio
import contextlib
import ctypes
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import Any

from longshore import Cancel, Dead, Longshore, Retry, Snooze, current_job

app = Longshore()
IMPORTED_IN = os.getpid()
MARK: ContextVar[str] = ContextVar("mark", default="unset")


class UnpicklableError(Exception):
    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.lambda_ = lambda: words

    def __reduce__(self) -> Any:
        raise TypeError("this cannot be pickled")


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("mute")


@app.task(execution="process")
def plain(word: str) -> dict[str, object]:
    return {"word": word, "pid": os.getpid()}


@app.task(execution="process")
def born() -> dict[str, object]:
    """Where it runs, where the app was imported, and what its parent was started as."""
    parent = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
    return {
        "pid": os.getpid(),
        "imported_in": IMPORTED_IN,
        "is_forked": "longshore.worker.fork_server" in parent,
        "word": os.environ.get("WORD"),
        "folder": str(Path.cwd()),
    }


@app.task(execution="process")
async def coroutine(word: str) -> dict[str, object]:
    await asyncio.sleep(0.001)
    return {"word": word, "pid": os.getpid()}


@app.task(execution="process", tags=["blue"], timeout=30.0)
def look() -> dict[str, object]:
    job = current_job()
    return {
        "id": job.id,
        "type": job.type,
        "queue": job.queue,
        "attempt": job.attempt,
        "tags": job.tags,
        "left": job.deadline - time.monotonic(),
        "is_cancel_requested": job.is_cancel_requested,
    }


@app.task(execution="process", max_attempts=1)
async def transact() -> None:
    async with current_job().transaction():
        pass


@app.task(execution="process", max_attempts=1)
def fail(how: str) -> None:
    match how:
        case "unpicklable":
            raise UnpicklableError("as it is")
        case "mute":
            raise MuteError
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "long":
            raise ValueError("x" * 10_000_000)
        case "nul":
            raise ValueError("a\0b\udc80")
        case "memory":
            raise MemoryError


@app.task(execution="process")
def wish(what: str) -> None:
    match what:
        case "snooze":
            raise Snooze(timedelta(minutes=5))
        case "retry":
            raise Retry(after=60, reason="not yet")
        case "dead":
            raise Dead("hopeless")
        case "cancel":
            raise Cancel("unwanted")


@app.task(execution="process")
def returns_nonsense() -> object:
    return object()


@app.task(execution="process", max_crashes=2, retry_base=0.001)
def crash(how: str) -> None:
    match how:
        case "_exit":
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "deaf":
            os.closerange(3, 64)


@app.task(execution="process", max_attempts=1)
async def exit_beside() -> None:
    async def leave() -> None:
        sys.exit(4)

    await asyncio.create_task(leave())


@app.task(execution="process", timeout=0.3, max_attempts=1)
def oversleep(path: str) -> None:
    try:
        time.sleep(60)
    finally:
        Path(path).write_text("tidied up")


@app.task(execution="process", timeout=0.3, max_attempts=1)
async def oversleep_async(path: str) -> None:
    try:
        await asyncio.sleep(60)
    finally:
        Path(path).write_text("tidied up")


@app.task(execution="process", timeout=0.3, max_attempts=1)
def hold_the_gil() -> None:
    """Run C code that never ends, and never looks for a signal."""
    sum(itertools.repeat(0))


@app.task(execution="process", timeout=0.3, max_attempts=1)
def ignore_everything(path: str) -> None:
    """Leave a child in the group and one outside, and heed nothing."""
    inside = subprocess.Popen(["sleep", "600"])
    outside = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(path).write_text(f"{os.getpid()} {inside.pid} {outside.pid}")
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


@app.task(execution="process")
def leave_a_child(path: str) -> None:
    left = subprocess.Popen(["sleep", "600"])
    Path(path).write_text(f"{os.getpid()} {left.pid}")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(execution="process", max_attempts=1)
def wait_for(path: str, then: str) -> str:
    """Say where it runs, and wait for a file, or for the request to stop."""
    Path(path).write_text(str(os.getpid()))
    try:
        while not Path(f"{path}.go").exists():
            time.sleep(0.005)
    except asyncio.CancelledError:
        Path(f"{path}.told").write_text(str(current_job().is_cancel_requested))
        if then == "raise":
            raise
    return "done"


@app.task(execution="process", max_attempts=1, memory_limit="160MiB")
def hoard(mebibytes: int) -> int:
    hoarded = bytearray(mebibytes << 20)
    time.sleep(0.3)
    return len(hoarded)


@app.task(execution="process", max_attempts=1)
def hoard_unlimited(mebibytes: int) -> int:
    hoarded = bytearray(mebibytes << 20)
    time.sleep(0.3)
    return len(hoarded)


KEPT: list[bytearray] = []


@app.task(execution="process")
def leak(mebibytes: int) -> int:
    KEPT.append(bytearray(mebibytes << 20))
    return os.getpid()


@app.task(execution="process")
def mark(word: str) -> str:
    before = MARK.get()
    MARK.set(word)
    return before


@app.task(execution="process")
def use_multiprocessing() -> tuple[int, int | None]:
    """What a pool of forks computes, and how SIGTERM ends a fork that heeds no exception."""
    forking = multiprocessing.get_context("fork")
    with forking.Pool(2) as pool:
        total = sum(pool.map(abs, [-1, -2, -3]))
    has_begun = forking.Event()
    stubborn = forking.Process(target=heed_nothing, args=(has_begun,))
    stubborn.start()
    has_begun.wait(30)
    stubborn.terminate()
    stubborn.join(30)
    return total, stubborn.exitcode


def heed_nothing(has_begun: Any) -> None:
    has_begun.set()
    for _ in range(100):
        with contextlib.suppress(BaseException):
            time.sleep(0.1)


@app.task(execution="process")
async def submit_another() -> None:
    async with app:
        await plain.submit("another")


@app.task
async def on_the_loop() -> int:
    return os.getpid()


@app.task(execution="process")
def hurry(steps: int) -> None:
    for step in range(1, steps + 1):
        current_job().progress(step / steps, f"step {step}")


@app.task(execution="process")
async def say_and_wait(path: str) -> None:
    for part in (0.1, 0.3, 0.5):
        await current_job().progress(part)
    while not Path(path).exists():
        await asyncio.sleep(0.01)


@app.task(execution="process")
def say_for_ever() -> None:
    current_job().progress(0.0)
    while True:
        current_job().progress(0.5, "x" * 200)


@app.task(execution="process", timeout=30.0)
def times() -> dict[str, float]:
    job = current_job()
    return {"left": job.time_left, "now": job.now().timestamp()}
