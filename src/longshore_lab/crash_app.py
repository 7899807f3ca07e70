"""Tasks that end their own process, and healthy ones; each run leaves a line in a book.

The line is `<what> <n>` in the file `runs` of the working directory, written by one call before
anything else happens: a ledger that knows nothing of the queue.
"""

import asyncio
import ctypes
import os
import signal
import time
from collections import Counter
from pathlib import Path

from longshore import Longshore

__all__ = ["BEGAN", "ENDED", "HEALTHY", "MOST_APART", "MOST_BESIDE", "WAYS", "app", "read"]

BEGAN, ENDED = "began", "ended"
WAYS = ("segfault", "exit", "kill")
"""How a process ends: SIGSEGV, `os._exit`, and SIGKILL from itself."""
MOST_APART = (1, 2, 3, 4, 5)
"""What `max_crashes` is for the tasks with a process of their own."""
MOST_BESIDE = (2, 3)
"""The same for those that run in the worker; with 1 none would."""
HEALTHY = ("healthy.process", "healthy.async", "healthy.thread")

_BEFORE = 0.1
"""Seconds, for its neighbours to be at work when the worker dies."""

app = Longshore()


def read(folder: Path, what: str) -> Counter[int]:
    """How often each job began, or ended, by its number."""
    book = folder / "runs"
    lines = book.read_text().splitlines() if book.exists() else []
    return Counter(int(n) for kind, n in map(str.split, lines) if kind == what)


def _note(what: str, n: int) -> None:
    book = os.open("runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(book, f"{what} {n}\n".encode())
    os.close(book)


def _die(how: str) -> None:
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(0)
        case _:
            os.kill(os.getpid(), signal.SIGKILL)


def _apart(n: int, how: str) -> None:
    _note(BEGAN, n)
    _die(how)


async def _beside(n: int, how: str) -> None:
    _note(BEGAN, n)
    await asyncio.sleep(_BEFORE)
    _die(how)


for most in MOST_APART:
    app.task(
        name=f"apart.{most}",
        execution="process",
        max_crashes=most,
        retry_base=0.01,
        retry_cap=0.1,
    )(_apart)
for most in MOST_BESIDE:
    app.task(name=f"beside.{most}", max_crashes=most, retry_base=0.01, retry_cap=0.1)(_beside)


@app.task(name=HEALTHY[0], execution="process")
def healthy_process(n: int, seconds: float) -> None:
    """Take a while, in a process of its own."""
    _note(BEGAN, n)
    time.sleep(seconds)
    _note(ENDED, n)


@app.task(name=HEALTHY[1])
async def healthy_async(n: int, seconds: float) -> None:
    """Take a while, on the worker's loop."""
    _note(BEGAN, n)
    await asyncio.sleep(seconds)
    _note(ENDED, n)


@app.task(name=HEALTHY[2])
def healthy_thread(n: int, seconds: float) -> None:
    """Take a while, in a thread."""
    _note(BEGAN, n)
    time.sleep(seconds)
    _note(ENDED, n)
