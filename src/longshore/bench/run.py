"""Run a benchmark: start the processes, watch them, take their figures."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from itertools import product
from pathlib import Path

import msgspec

from longshore.bench.load import Load
from longshore.bench.machine import Hours
from longshore.bench.plan import Mode, Plan
from longshore.bench.server import server_of
from longshore.bench.shared_counters import Board
from longshore.bench.tally import Tallied, tallied
from longshore.core.state import State
from longshore.core.view import JobFilter
from longshore.engines import open_engine
from longshore.errors import EngineError

__all__ = ["CpuPerJob", "Figures", "run"]

Report = Callable[[str, float], None]
"""Told what is going on and how far it is, from 0 to 1."""

_GO, _STOP = 1, 2
_SET_UP_SECONDS = 60.0
_STALLED_SECONDS = 60.0
_TIDIED = 1_000


class CpuPerJob(msgspec.Struct, frozen=True):
    """Microseconds of processor time per job, by who used it."""

    producer: float
    worker: float
    server: float
    """Of the engine's server; an embedded engine has none: its work is the others'."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a benchmark found."""

    plan: Plan
    jobs: int
    seconds: float
    jobs_per_s: float
    p50_ms: float
    """From submit to the handler's start."""
    p99_ms: float
    submit_p50_ms: float
    """Of one submit call, durably committed."""
    submit_p99_ms: float
    cpu_us_per_job: CpuPerJob
    wal_bytes_per_job: float | None
    """What PostgreSQL wrote to its log, submit included; None where there is no such log."""
    depth_before: int
    """Jobs that were not finished when the measurement began."""
    depth: int
    """Jobs that were not finished when it ended."""
    stolen: float | None
    """The share of the wanted processor time that the host gave to others, from 0 to 1."""
    tally: Tallied | None = None
    """Of a drain: how often each job ran, as the handlers wrote it down."""


def run(plan: Plan, report: Report = lambda _, __: None) -> Figures:
    """Measure, in processes that end with it. EngineError when one of them fails."""
    asyncio.run(_prepare(plan))
    with tempfile.TemporaryDirectory(prefix="longshore-bench-") as name:
        folder = Path(name)
        (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
        stage = _Stage(plan, folder, report)
        try:
            return stage.measure()
        finally:
            stage.end()
            asyncio.run(_tidy(plan))


async def _prepare(plan: Plan) -> None:
    engine = open_engine(plan.url)
    try:
        await engine.migrate()
    finally:
        await engine.close()


async def _tidy(plan: Plan) -> None:
    """Cancel what the benchmark left: nobody would ever run it."""
    engine = open_engine(plan.url)
    try:
        for queue, state in product(plan.queues, (State.READY, State.SCHEDULED)):
            which = JobFilter(queue=queue, state=state)
            while jobs := (await engine.find(which, limit=_TIDIED)).jobs:
                await engine.change(
                    "cancel", [job.id for job in jobs], reason="the benchmark is over"
                )
    finally:
        await engine.close()


class _Stage:
    """The processes and the board they write on."""

    def __init__(self, plan: Plan, folder: Path, report: Report) -> None:
        self._plan = plan
        self._folder = folder
        self._report = report
        self._board = Board(folder / "board")
        self._workers = range(1, plan.processes + 1)
        self._server = asyncio.run(server_of(plan.url))
        self._wal = self._server.wal()
        self._hours: tuple[Hours | None, Hours | None] = None, None
        self._depth_before = 0
        roles = ["producer"] + ["worker"] * plan.processes
        self._processes = [self._start(role, number) for number, role in enumerate(roles)]

    def measure(self) -> Figures:
        self._wait("starting", _SET_UP_SECONDS, self._all_ready)
        if self._plan.mode is Mode.STEADY:
            jobs, seconds, cpu = self._steady()
        else:
            jobs, seconds, cpu = self._to_the_end()
        depth = self._depth()
        written = self._written(jobs)
        self.end()
        waits, submits = self._samples(*self._workers), self._samples(0)
        return Figures(
            plan=self._plan,
            jobs=jobs,
            seconds=round(seconds, 3),
            jobs_per_s=round(jobs / seconds, 1),
            p50_ms=_percentile(waits, 50),
            p99_ms=_percentile(waits, 99),
            submit_p50_ms=_percentile(submits, 50),
            submit_p99_ms=_percentile(submits, 99),
            cpu_us_per_job=cpu,
            wal_bytes_per_job=written,
            depth_before=self._depth_before,
            depth=depth,
            stolen=_stolen(*self._hours),
            tally=self._tallied(),
        )

    def end(self) -> None:
        """Let everyone leave; whoever does not within ten seconds is killed."""
        self._board.phase = _STOP
        for process in self._processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, role: str, number: int) -> "subprocess.Popen[bytes]":
        actor = [sys.executable, "-m", "longshore.bench.processes", role, str(number)]
        # A file, for nobody reads along: a pipe would be full after seven thousand dead jobs,
        # and the worker would stand still until the end.
        with (self._folder / f"errors.{number}").open("wb") as errors:
            return subprocess.Popen(
                [*actor, str(self._folder), str(os.getpid())],
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    def _steady(self) -> tuple[int, float, CpuPerJob]:
        self._board.phase = _GO
        warm_up = self._plan.seconds / 4
        self._sleep("warming up", warm_up)
        self._wal = self._server.wal()
        hours, self._depth_before = Hours.now(), self._depth()
        began, first, used = time.perf_counter(), self._finished(), self._cpu()
        self._sleep("measuring", self._plan.seconds)
        seconds, jobs = time.perf_counter() - began, self._finished() - first
        self._hours = hours, Hours.now()
        return jobs, seconds, self._cpu_per_job(used, jobs)

    def _to_the_end(self) -> tuple[int, float, CpuPerJob]:
        is_drain = self._plan.mode is Mode.DRAIN
        goal = self._plan.planned if is_drain else max(self._plan.jobs // 100, 1)
        if is_drain:
            self._wait("submitting", _STALLED_SECONDS, lambda: self._board.count(0) / goal)
        used = self._cpu()
        if is_drain:
            used[0] = 0  # what the producer used, it used before
        self._depth_before = self._depth()
        self._board.phase = _GO
        hours, began = Hours.now(), time.perf_counter()
        self._wait("running", _STALLED_SECONDS, lambda: self._finished() / goal)
        seconds = time.perf_counter() - began
        self._hours = hours, Hours.now()
        return goal, seconds, self._cpu_per_job(used, goal)

    def _finished(self) -> int:
        return sum(self._board.count(one) for one in self._workers)

    def _depth(self) -> int:
        return max(self._board.count(0) - self._finished(), 0)

    def _cpu(self) -> list[int]:
        actors = [self._board.cpu(one) for one in range(len(self._processes))]
        return [*actors, self._server.cpu()]

    def _cpu_per_job(self, before: list[int], jobs: int) -> CpuPerJob:
        used = [now - then for now, then in zip(self._cpu(), before, strict=True)]
        producer, *workers, server = (round(one / max(jobs, 1), 2) for one in used)
        return CpuPerJob(producer, round(sum(workers), 2), server)

    def _written(self, jobs: int) -> float | None:
        """Of a drain the whole, of steady what was written since the warm-up."""
        now, then = self._server.wal(), self._wal
        return round((now - then) / max(jobs, 1), 1) if now and then else None

    def _all_ready(self) -> float:
        ready = sum(self._board.is_ready(one) for one in range(len(self._processes)))
        return ready / len(self._processes)

    def _sleep(self, what: str, seconds: float) -> None:
        began = time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            self._report(what, passed / seconds)
            self._watch()
            time.sleep(min(0.1, seconds - passed))

    def _wait(self, what: str, patience: float, progress: Callable[[], float]) -> None:
        """Until the progress is whole; EngineError when it stands still for too long."""
        last, since = 0.0, time.perf_counter()
        while (done := progress()) < 1:
            if done > last:
                last, since = done, time.perf_counter()
            if time.perf_counter() - since > patience:
                raise EngineError(f"nothing moved for {patience:g} s while {what}")
            self._report(what, done)
            self._watch()
            time.sleep(0.01)

    def _watch(self) -> None:
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                errors = (self._folder / f"errors.{number}").read_text(errors="replace")
                last = errors.strip().splitlines()[-1:]
                why = last[0] if last else f"code {process.returncode}"
                raise EngineError(f"a process of the benchmark ended early: {why}")

    def _tallied(self) -> Tallied | None:
        if self._plan.mode is not Mode.DRAIN:
            return None
        files = [self._folder / f"tally.{one}" for one in self._workers]
        return tallied(files, self._plan.planned, Load(self._plan).lots)

    def _samples(self, *actors: int) -> list[float]:
        found = array("d")
        for actor in actors:
            file = self._folder / f"samples.{actor}"
            if file.exists():
                found.frombytes(file.read_bytes())
        return sorted(found)


def _stolen(before: Hours | None, after: Hours | None) -> float | None:
    return after.stolen_since(before) if before is not None and after is not None else None


def _percentile(ordered: list[float], percent: int) -> float:
    if not ordered:
        return 0.0
    return round(ordered[min(len(ordered) * percent // 100, len(ordered) - 1)], 3)
