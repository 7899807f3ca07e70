"""Tasks that go wrong in every way, and healthy ones; each run leaves a line in a book.

The line is `<n> <process> <parent>` in the file `runs` of the working directory: a ledger that
knows nothing of the queue.
"""

import asyncio
import ctypes
import itertools
import os
import signal
import sys
import time
from pathlib import Path

from longshore import Longshore, current_job

app = Longshore()


def note(n: int) -> None:
    book = os.open("runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(book, f"{n} {os.getpid()} {os.getppid()}\n".encode())
    os.close(book)


def go_wrong(how: str) -> None:
    match how:
        case "raise":
            raise ValueError(how)
        case "exit":
            sys.exit(1)
        case "vanish" | "refuse":
            os._exit(0 if how == "vanish" else 2)
        case "segfault":
            ctypes.string_at(0)
        case "hoard":
            hoarded = bytearray(100 << 20)
            time.sleep(10)
            del hoarded
        case "parricide" | "patricide":
            os.kill(os.getppid() if how == "parricide" else worker(), signal.SIGKILL)
            time.sleep(10)
        case "hang" | "deadlock":
            hang(is_busy=how == "hang")


def hang(*, is_busy: bool) -> None:
    """Hold the interpreter for ever, and heed no signal."""
    if is_busy:
        sum(itertools.repeat(0))
    mutex, lock = ctypes.create_string_buffer(64), ctypes.PyDLL(None).pthread_mutex_lock
    lock(mutex)
    lock(mutex)


def worker() -> int:
    """The worker's process, whatever is done to hide it: of a child, its parent's parent."""
    parent = Path(f"/proc/{os.getppid()}")
    words = (parent / "cmdline").read_bytes().split(b"\0")
    if not {b"longshore.worker.standin", b"longshore.worker.template"} & set(words):
        return os.getpid()
    return int((parent / "stat").read_text().rpartition(")")[2].split()[1])


def _poison(n: int, how: str) -> None:
    note(n)
    go_wrong(how)


for most in range(1, 6):
    app.task(
        name=f"poison_{most}",
        execution="process",
        max_crashes=most,
        memory_limit="100MiB",
        retry_base=0.01,
        retry_cap=0.1,
    )(_poison)


app.task(name="poison_0", execution="process", retry_base=0.01)(_poison)


@app.task(retry_base=0.01, retry_cap=0.1)
async def poison_async(n: int, how: str) -> None:
    note(n)
    if how == "hang":
        await asyncio.sleep(60)
    go_wrong(how)


@app.task(retry_base=0.01, retry_cap=0.1)
def poison_thread(n: int, how: str) -> None:
    note(n)
    if how != "hang":
        go_wrong(how)
    while not current_job().is_cancel_requested:
        time.sleep(0.01)


async def _fatal(n: int, how: str) -> None:
    """Take the whole worker along, once its neighbours run too."""
    note(n)
    await asyncio.sleep(0.1)
    go_wrong(how)


for most in range(1, 6):
    app.task(name=f"fatal_{most}", max_crashes=most, retry_base=0.01)(_fatal)


@app.task(max_crashes=2, retry_base=0.01)
def fatal_thread(n: int, how: str) -> None:
    note(n)
    time.sleep(0.1)
    go_wrong(how)


@app.task(execution="process")
def healthy(n: int, seconds: float = 0.005) -> None:
    note(n)
    time.sleep(seconds)


@app.task
async def healthy_async(n: int, seconds: float = 0.005) -> None:
    note(n)
    await asyncio.sleep(seconds)


@app.task
def healthy_thread(n: int, seconds: float = 0.005) -> None:
    note(n)
    time.sleep(seconds)


@app.task
async def pass_on(n: int) -> str:
    """Submit another job, as a handler on the worker's loop can."""
    note(n)
    return (await healthy_async.submit(-1)).id


@app.task
async def transact(n: int) -> None:
    """End the job in a transaction, which only the worker's own process can."""
    note(n)
    async with current_job().transaction():
        pass


async def _linger(n: int) -> None:
    note(n)
    while not Path("go").exists():
        await asyncio.sleep(0.01)


for most in (1, 2, 3):
    app.task(name=f"linger_{most}", max_crashes=most, timeout=None)(_linger)
