"""An application whose jobs run in child processes, and start processes of their own."""

import itertools
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from longshore import Longshore, current_job

app = Longshore()
log = logging.getLogger("shop")


@app.task(execution="process", timeout=None)
def hold(name: str) -> str:
    """Wait to be let go, with a child in the group."""
    with subprocess.Popen(["sleep", "600"]) as beside:
        Path(f"{name}.pids").write_text(f"{os.getpid()} {beside.pid}")
        while not Path(f"{name}.go").exists():
            time.sleep(0.01)
        beside.kill()
    return f"{name} in attempt {current_job().attempt}"


@app.task(execution="process", timeout=None)
def hold_the_gil(name: str) -> None:
    """Run C code that never ends and heeds no signal, with a child in the group."""
    beside = subprocess.Popen(["sleep", "600"])
    Path(f"{name}.pids").write_text(f"{os.getpid()} {beside.pid}")
    sum(itertools.repeat(0))


@app.task(execution="process")
async def pass_on(words: str) -> str:
    """Submit another job, from the child."""
    async with app:
        return (await speak.submit(words)).id


@app.task(execution="process")
def speak(words: str) -> None:
    sys.stdout.write(f"printed {words}\n")
    log.info("logged", extra={"words": words})


@app.task(execution="process")
def count(n: int) -> None:
    """Note the run in a book outside the queue."""
    with Path("runs").open("ab", buffering=0) as book:
        book.write(b"%d\n" % n)
    time.sleep(0.005)
