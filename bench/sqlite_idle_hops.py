"""Where the time of an idle pick-up goes on SQLite, hop by hop, from submit to the handler.

    python bench/sqlite_idle_hops.py [--jobs 120]

A producer and a worker process share a file, and one job at a time meets an idle worker. Both
note the instant at which they come by certain functions, on the clock of the machine; the notes
themselves cost a few microseconds. Prints each hop's median after the call of submit.
"""

import argparse
import asyncio
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from longshore.app import Longshore
from longshore.engines.sqlite import connection, notify, peer_notify, writer
from longshore.runtime.process import loop_factory, settle_in
from longshore.task import Task
from longshore.worker import fetcher, slots
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker

_WARM_UP = 5
_NOTES: list[tuple[int, str]] = []


def note(hop: str) -> None:
    """Remember that the process comes by here now."""
    _NOTES.append((time.monotonic_ns(), hop))


def watch(owner: Any, function: str, before: str, after: str | None = None) -> None:
    """Note when the function is called and, if named, when it returns."""
    inner: Callable[..., Any] = getattr(owner, function)

    def watched(*args: Any, **kwargs: Any) -> Any:
        note(before)
        try:
            return inner(*args, **kwargs)
        finally:
            if after is not None:
                note(after)

    setattr(owner, function, watched)


def watch_engine(who: str) -> None:
    """What producer and worker have in common."""
    watch(writer.Writer, "_hand_over", f"{who}: call handed to the writer")
    watch(writer.Writer, "_commit", f"{who}: writer has it")
    watch(connection.Store, "begin", f"{who}: asks for the lock", f"{who}: has the lock")
    watch(writer.Transaction, "finish", f"{who}: statements done")
    watch(writer.Writer, "_answer", f"{who}: committed")
    watch(writer, "_resolve", f"{who}: answer is in the loop")


def watch_producer() -> None:
    """The way of a submit."""
    watch_engine("producer")
    watch(peer_notify.Herald, "tell", "producer: tells the worker", "producer: has told")


def watch_worker() -> None:
    """The way of a claim."""
    watch_engine("worker")
    # What an idle worker claims with a wake-up is written in the loop's own thread.
    watch(connection.Store, "begin_now", "worker: asks for the lock", "worker: has the lock")
    watch(writer.Writer, "_carry_out", "worker: begins its statements", "worker: committed")
    watch(notify.Waker, "_receive", "worker: hears the wake-up")
    watch(fetcher.Fetcher, "look", "worker: fetcher is rung")
    watch(slots.Slots, "accept", "worker: claims accepted")


class Flag:
    """A counter that both processes see."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(file, 8)
        self._cell = memoryview(mmap.mmap(file, 8)).cast("q")
        os.close(file)

    def raise_(self) -> None:
        """One more handler has begun."""
        self._cell[0] += 1

    async def reached(self, count: int) -> None:
        """Return once so many handlers have begun."""
        async with asyncio.timeout(10):
            while self._cell[0] < count:  # noqa: ASYNC110  # nothing rings between processes
                await asyncio.sleep(0.002)


def make(url: str, flag: Flag) -> tuple[Longshore, Task[[str], None]]:
    """The app, and a job that raises the flag."""
    app = Longshore(url)

    @app.task(name="ping", queue="hops")
    async def ping(padding: str) -> None:
        note("worker: handler begins")
        flag.raise_()

    return app, ping


async def work(url: str, flag: Flag) -> None:
    """Run jobs until the input ends, and print the notes."""
    app, _ = make(url, flag)
    async with app:
        worker = Worker(app.engine, app.registry(), WorkerSettings(queues=("hops",)))
        running = asyncio.create_task(worker.run())
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        worker.stop_now()
        await running
    json.dump(_NOTES, sys.stdout)


async def produce(url: str, flag: Flag, jobs: int) -> None:
    """Submit one job after the other, each to a worker that has been idle for a while."""
    app, ping = make(url, flag)
    async with app:
        for number in range(jobs):
            note("producer: submit called")
            await app.submit_many([ping.spec("x" * 90)])
            note("producer: submit returns")
            await flag.reached(number + 1)
            await asyncio.sleep(0.015 + number % 7 * 0.002)


def by_job(notes: list[tuple[int, str]]) -> list[dict[str, float]]:
    """Microseconds from each submit to the first note of every hop up to the handler."""
    found: list[dict[str, float]] = []
    began = 0
    for at, hop in sorted(notes):
        if hop == "producer: submit called":
            found.append({})
            began = at
        if found and (hop.startswith("producer") or "worker: handler begins" not in found[-1]):
            found[-1].setdefault(hop, (at - began) / 1e3)
    return found[_WARM_UP:]


def show(jobs: list[dict[str, float]]) -> None:
    """One line per hop that most jobs went through, in the order of time."""
    hops = {hop for job in jobs for hop in job}
    times = {hop: [job[hop] for job in jobs if hop in job] for hop in hops}
    usual = {hop: median(at) for hop, at in times.items() if len(at) > len(jobs) / 2}
    for hop, at in sorted(usual.items(), key=lambda one: one[1]):
        sys.stdout.write(f"{at:8.0f} µs  {hop}\n")


def run(main: Any) -> None:
    """As a process of Longshore's own."""
    settle_in()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=120)
    parser.add_argument("--work-in", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work_in is not None:
        watch_worker()
        run(work(f"sqlite:///{options.work_in}/jobs.db", Flag(options.work_in / "flag")))
        return
    with tempfile.TemporaryDirectory(prefix="longshore-hops-") as name:
        command = [sys.executable, os.path.abspath(__file__), "--work-in", name]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as worker:
            assert worker.stdout is not None
            worker.stdout.readline()
            watch_producer()
            run(produce(f"sqlite:///{name}/jobs.db", Flag(Path(name) / "flag"), options.jobs))
            theirs = json.loads(worker.communicate(timeout=30)[0])
    show(by_job(_NOTES + [(at, hop) for at, hop in theirs]))


if __name__ == "__main__":
    main()
