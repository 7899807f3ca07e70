"""A worker as a process of its own: `python worker_process.py URL FOLDER NAME LEASE`.

Every run of a handler leaves a line in FOLDER/runs: name, job number, attempt. A `hold` job
waits, in its first attempt only, until FOLDER/go is there; it never ends early.
"""

import asyncio
import logging
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from longshore.engines import open_store
from longshore.job_context import current_job
from longshore.scheduler.promote import Promoter
from longshore.scheduler.reclaim import Reclaimer
from longshore.worker.registry import Execution, Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.signals import drained_by_signals, run_to_end
from longshore.worker.worker import Worker

URL, FOLDER, NAME, LEASE = sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])
RUNS = os.open(FOLDER / "runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(arguments: Any) -> None:
    os.write(RUNS, f"{NAME} {arguments['n']} {current_job().attempt}\n".encode())


async def hold(arguments: Any) -> str:
    note(arguments)
    while current_job().attempt == 1 and not (FOLDER / "go").exists():
        await asyncio.sleep(0.01)
    return NAME


async def quick(arguments: Any) -> None:
    note(arguments)
    await asyncio.sleep(0.002)


async def shaky(arguments: Any) -> None:
    """Fails at first, now and then."""
    note(arguments)
    await asyncio.sleep(0.002)
    if arguments["n"] % 7 == 3 and current_job().attempt == 1:
        raise ValueError("not yet")


def in_thread(arguments: Any) -> None:
    note(arguments)


async def leave(arguments: Any) -> None:
    """Raise SystemExit in a task beside the handler, which asyncio lets out of its loop."""

    async def exit_now() -> None:
        raise SystemExit(3)

    note(arguments)
    await asyncio.create_task(exit_now())


def handlers() -> Registry:
    decode = msgspec.json.decode
    return Registry(
        Handler(
            type=run.__name__,
            decode=decode,
            run=run,
            execution=(
                Execution.ASYNC if asyncio.iscoroutinefunction(run) else Execution.THREAD
            ),
            encode_result=msgspec.json.encode,
        )
        for run in (hold, quick, shaky, in_thread, leave)
    )


async def main() -> str:
    engine = open_store(URL)
    worker = Worker(
        engine,
        handlers(),
        WorkerSettings(
            lease=timedelta(seconds=LEASE), drain_timeout=timedelta(seconds=10), name=NAME
        ),
        ticks=[
            ("promote", Promoter(engine).tick),
            ("reclaim", Reclaimer(engine, lease=int(LEASE * 1e6)).tick),
        ]
        if engine.traits.maintenance
        else [],
    )
    with drained_by_signals(worker):
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        ending = await worker.run()
    await engine.close()
    return ending


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    run_to_end(main())
