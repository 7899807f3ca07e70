"""How long a worker takes to leave, by what its handlers make of it.

    python bench/worker_leave.py [--drain 300ms]

One `longshore worker` after another, on a SQLite file that is thrown away, runs some handlers
that do not end by themselves, and is sent SIGTERM. The time is until its process is gone.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from longshore import Longshore
from longshore.engines import open_engine
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually

app = Longshore()
PATIENCE = 30.0
FOREVER = 600.0
CASES = (
    ["heeds"],
    ["in_a_thread"],
    ["in_a_process"],
    ["swallows"],
    ["in_a_thread", "in_a_process", "swallows"],
)


def note() -> None:
    """A handler has begun."""
    with Path("runs").open("a") as book:
        book.write("x")


@app.task
async def heeds() -> None:
    """Be told."""
    note()
    await asyncio.sleep(FOREVER)


@app.task
async def swallows() -> None:
    """Be told, and go on."""
    note()
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(FOREVER)


@app.task
def in_a_thread() -> None:
    """Not listen."""
    note()
    time.sleep(FOREVER)


@app.task(execution="process")
def in_a_process() -> None:
    """Be told, and go on."""
    note()
    while True:
        with suppress(BaseException):
            time.sleep(FOREVER)


def started(folder: Path, *options: str) -> "subprocess.Popen[bytes]":
    """A worker in the folder, which has a copy of this file to import."""
    shutil.copy(__file__, folder)
    words = ["worker", "--app", f"{Path(__file__).stem}:app", *options]
    command = [sys.executable, "-m", "longshore", *words]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)


async def leave(kinds: Sequence[str], drain: str, folder: Path) -> float | None:
    """Seconds until it was gone; None if it never was."""
    url = f"sqlite:///{folder}/jobs.db"
    engine = open_engine(url)
    await engine.migrate()
    await engine.submit([a_job(type=kind, payload=b"{}", timeout=None) for kind in kinds])
    await engine.close()
    process, book = started(folder, "--url", url, "--drain-timeout", drain), folder / "runs"
    try:
        await eventually(
            lambda: book.exists() and len(book.read_text()) == len(kinds), within=PATIENCE
        )
        asked = time.monotonic()
        process.terminate()
        await asyncio.to_thread(process.wait, PATIENCE)
        return round(time.monotonic() - asked, 2)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Print a JSON line for each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--drain", default="300ms")
    drain = parser.parse_args().drain
    for kinds in CASES:
        with tempfile.TemporaryDirectory() as folder:
            seconds = asyncio.run(leave(kinds, drain, Path(folder)))
        line = {"handlers": kinds, "drain": drain, "seconds": seconds}
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
