"""Tasks that go wrong in every way, and healthy ones; each run leaves a line in a book.

The line is `<n> <process> <parent>` in the file `runs` of the working directory: a ledger that
knows nothing of the queue.
"""

import asyncio
import atexit
import ctypes
import itertools
import os
import signal
import sys
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable
from pathlib import Path
from signal import raise_signal

from longshore import Longshore, current_job

if Path("no-uvloop").exists():
    sys.modules["uvloop"] = None  # pyright: ignore[reportArgumentType]

if Path("block-import").exists():
    Path("importing").touch()
    while True:
        time.sleep(0.01)

if Path("block-exit").exists() and "--supervised" not in sys.argv:

    @atexit.register
    def wait_at_exit() -> None:
        Path("exiting").touch()
        while True:
            time.sleep(0.01)


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
        case _:
            (REFUSED | BREAKING | HARMLESS | OTHER)[how]()


def cancel_all_tasks() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


def stop_loop_from_thread() -> None:
    loop = asyncio.get_running_loop()
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(loop.stop,))
    thread.start()
    thread.join()


def send_by_descriptor() -> None:
    process = os.pidfd_open(os.getpid())
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
    finally:
        os.close(process)


def in_thread(act: Callable[..., object], *arguments: object) -> Callable[[], None]:
    """Done by a thread that does not know which job has started it."""

    def run() -> None:
        thread = threading.Thread(target=act, args=arguments)
        thread.start()
        thread.join()

    return run


def call_soon(act: Callable[..., object], *arguments: object) -> Callable[[], object]:
    return lambda: asyncio.get_running_loop().call_soon(act, *arguments)


def set_handlers(set_one: Callable[[signal.Signals], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        set_one(number)


def ignore(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)


def take(number: signal.Signals) -> None:
    asyncio.get_running_loop().add_signal_handler(number, print, "a job heard a signal")


def forget_loop() -> None:
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    asyncio.set_event_loop(None)


def end_forked_process() -> None:
    """Fork, and end that process with SIGTERM, as `multiprocessing` does."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        # Python forgets what a process hears before it is forked to the end.
        os.write(writer, b"!")
        time.sleep(60)
        os._exit(1)
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGTERM:
        raise ChildProcessError(status)


SIGNALLING: dict[str, Callable[[], object]] = {
    "kill SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "kill SIGINT": lambda: os.kill(os.getpid(), signal.SIGINT),
    "kill the group": lambda: os.kill(0, signal.SIGTERM),
    "killpg": lambda: os.killpg(os.getpgrp(), signal.SIGTERM),
    "kill a thread": lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM),
    "raise SIGTERM": lambda: raise_signal(signal.SIGTERM),
    "raise SIGINT": lambda: raise_signal(signal.SIGINT),
    "interrupt main": lambda: interrupt_main(),
    "interrupt main SIGTERM": lambda: interrupt_main(signal.SIGTERM),
    "send by descriptor": send_by_descriptor,
}
"""Signals that would stop the worker of the job; two functions are imported by name."""

ON_THE_LOOP: dict[str, Callable[[], object]] = {
    "cancel all tasks": cancel_all_tasks,
    "stop the loop": lambda: asyncio.get_running_loop().stop(),
}

REFUSED = SIGNALLING | ON_THE_LOOP
"""What would end a worker, and what the worker can refuse, since it knows which job does it."""

BREAKING: dict[str, Callable[[], object]] = {
    "kill SIGTERM in a thread": in_thread(lambda: os.kill(os.getpid(), signal.SIGTERM)),
    "raise SIGINT in a thread": in_thread(raise_signal, signal.SIGINT),
    "close all files": lambda: os.closerange(3, 1000),
}
"""What ends a worker, with code 77."""

HARMLESS: dict[str, Callable[[], object]] = {
    "stop the loop from a thread": stop_loop_from_thread,
    "raise in a callback": call_soon(int, "not a number"),
    "exit in a callback": call_soon(sys.exit),
    "interrupt in a callback": call_soon(signal.default_int_handler, signal.SIGINT, None),
    "exit in a thread": in_thread(sys.exit),
    "ignore signals": lambda: set_handlers(ignore),
    "take the signals of the loop": lambda: set_handlers(take),
    "reset the wakeup of signals": lambda: signal.set_wakeup_fd(-1),
    "forget the loop": forget_loop,
}
"""What looks as if it might harm a worker."""

OTHER: dict[str, Callable[[], object]] = {
    "close the loop": lambda: asyncio.get_running_loop().close(),
    "leave the session": os.setsid,
    "end a forked process": end_forked_process,
}


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
    if not {b"longshore.worker.child_reaper", b"longshore.worker.fork_server"} & set(words):
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
    await asyncio.sleep(0.1)


for most in range(1, 6):
    app.task(name=f"fatal_{most}", max_crashes=most, retry_base=0.01)(_fatal)


@app.task(max_crashes=2, retry_base=0.01)
def fatal_thread(n: int, how: str) -> None:
    note(n)
    time.sleep(0.1)
    go_wrong(how)
    time.sleep(0.1)


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


@app.task(max_crashes=2, retry_base=0.01)
async def fatal_in_transaction(n: int) -> None:
    """Take the whole worker along, once the job needs the worker's own process."""
    async with current_job().transaction():
        note(n)
        os._exit(1)


async def _linger(n: int) -> None:
    note(n)
    while not Path("go").exists():
        await asyncio.sleep(0.01)


for most in (1, 2, 3):
    app.task(name=f"linger_{most}", max_crashes=most, timeout=None)(_linger)
