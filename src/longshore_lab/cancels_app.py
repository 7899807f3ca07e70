"""The tasks of the cancel trial: each tells when it runs, and when it learns of its cancel."""

import asyncio
import os
import time

from longshore import Longshore, current_job

app = Longshore()

_GLANCE = 0.005
"""Seconds between two looks of a thread."""


@app.task(queue="cancels", timeout=None)
async def on_the_loop() -> None:
    """A coroutine: it is cancelled."""
    _tell("runs")
    try:
        await asyncio.Event().wait()
    finally:
        _tell("told")


@app.task(queue="cancels", timeout=None)
def in_a_thread() -> None:
    """A thread: it has to look."""
    _tell("runs")
    while not current_job().is_cancel_requested:
        time.sleep(_GLANCE)
    _tell("told")
    raise InterruptedError


@app.task(queue="cancels", timeout=None, execution="process")
def in_a_process() -> None:
    """A child process: a signal interrupts it."""
    _tell("runs")
    try:
        time.sleep(3_600)
    finally:
        _tell("told")


def _tell(what: str) -> None:
    book = os.open("book", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(book, f"{time.monotonic()} {current_job().id} {what}\n".encode())
    os.close(book)
