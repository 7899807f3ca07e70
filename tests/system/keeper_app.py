"""Tasks that hold on, hog the interpreter or kill their process; each start leaves a line.

The line is `<time> <process> <n> <attempt>` in the file `runs` of the working directory, the
time on the clock that all processes of a machine share.
"""

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import threading
import time
from datetime import timedelta
from pathlib import Path

from longshore import Longshore, current_job

app = Longshore()


def note(n: int) -> None:
    _write("runs", f"{time.monotonic()} {os.getpid()} {n} {current_job().attempt}\n")


def _write(name: str, line: str) -> None:
    book = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(book, line.encode())
    os.close(book)


@app.task(queue="quick")
async def quick(n: int) -> None:
    note(n)


@app.task(queue="hold")
async def hold(n: int) -> int:
    """Runs until the file `go` is there; the second time it ends at once."""
    note(n)
    while current_job().delivery == 1 and not Path("go").exists():
        await asyncio.sleep(0.01)
    return os.getpid()


@app.task(queue="hold")
async def stay(n: int) -> None:
    """Runs, the first time, until it is stopped, and leaves `<process> <n>` in `aborts`."""
    note(n)
    try:
        while current_job().delivery == 1:
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        _write("aborts", f"{os.getpid()} {n}\n")
        raise


@app.task(queue="hold")
def hold_in_thread(n: int) -> None:
    note(n)
    while current_job().delivery == 1 and not Path("go").exists():
        time.sleep(0.01)


@app.task(queue="hog")
async def match(n: int, seconds: float) -> float:
    """A catastrophic expression: no other thread of the process runs meanwhile."""
    note(n)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        re.match(r"(a+)+$", "a" * 22 + "b")
    return time.monotonic() - began


@app.task(queue="hog")
async def block(n: int, seconds: float) -> None:
    """The event loop does nothing else."""
    note(n)
    time.sleep(seconds)  # noqa: ASYNC251  # that is what it is for


@app.task(queue="hog")
async def clutch(n: int, seconds: float) -> None:
    """One call into C that never lets go of the interpreter."""
    note(n)
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))


@app.task(queue="hog")
def orphan(n: int) -> None:
    """Leave a process without a parent, which soon ends."""
    note(n)
    subprocess.run(["sh", "-c", "sleep 0.1 &"], check=True)


@app.task(queue="hog")
def spin(n: int, seconds: float) -> None:
    """A thread that never gives way on its own."""
    note(n)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@app.task(queue="hog")
def bomb(n: int, seconds: float) -> None:
    """Ten threads that never give way on their own."""
    note(n)
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=_turn, args=(until,)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _turn(until: float) -> None:
    while time.monotonic() < until:
        pass


@app.task(queue="stuck", timeout=timedelta(seconds=1), max_attempts=1)
async def stuck(n: int) -> None:
    note(n)
    while True:
        time.sleep(1)  # noqa: ASYNC251  # that is what it is for


@app.task(queue="stuck", timeout=timedelta(seconds=1), max_attempts=1)
def linger(n: int) -> None:
    """A thread that heeds nothing, and has moved the whole process elsewhere."""
    note(n)
    os.chdir("/")
    threading.Event().wait()


@app.task(queue="fatal")
async def fatal(n: int) -> None:
    note(n)
    if current_job().delivery == 1:
        os.kill(os.getpid(), signal.SIGKILL)
