"""One peer's trial: submit, drain, ping, kill. Every phase has a deadline."""

import os
import tempfile
import time
from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bench.compare.catalogue import Peer
from bench.compare.cpu import busy_seconds, cpu_seconds
from bench.compare.crew import Crew, PeerError
from bench.compare.environments import Environment
from bench.compare.stores import Store

__all__ = ["Figures", "Sizes", "Trial"]

_PHASE_SECONDS = 50.0
_START_SECONDS = 30.0
_LOOK_SECONDS = 0.005
_SETTLE_SECONDS = 1.0
"""After the last handler: what is still to be settled counts as processor time of the drain."""
_SETTLED_IN_SECONDS = 3.0
"""A worker is killed when it has been up for a while, with all that it starts beside itself."""
_SKIPPED_PINGS = 20

Measuring = Callable[[], AbstractContextManager[object]]
"""Held while the machine has to be quiet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    one_seconds: float = 3.0
    share: float = 1.0
    """Of the jobs that the catalogue names."""
    pings: int = 250
    kill_seconds: float = 75.0
    """The longest that the job of a killed worker is waited for."""


@dataclass(slots=True, kw_only=True)
class Figures:
    """What a trial found; None where it did not come so far."""

    peer: str
    store: str
    submit_one_per_s: float | None = None
    submit_bulk_per_s: float | None = None
    drain_per_s: float | None = None
    drained: int = 0
    others_share: float = 0.0
    """Of the machine's cores, what other programs and the host took during the drain."""
    p50_ms: float | None = None
    p99_ms: float | None = None
    cpu_ms_per_1000: dict[str, float] = field(default_factory=dict)
    """By producer, workers and server."""
    drain_cpu_ms_per_1000: float = 0.0
    """Of workers and server, in the drain alone: what its rate can be on so many cores."""
    real_per_s: float | None = None
    """The rate of a drain of jobs with queues, tenants, keys and results."""
    rerun_after_s: float | None = None
    waited_s: float = 0.0
    """How long the job of the killed worker was waited for."""
    problems: list[str] = field(default_factory=list)


class Trial:
    """Runs one peer against a fresh store."""

    def __init__(self, peer: Peer, store: Store, sizes: Sizes) -> None:
        self._peer = peer
        self._store = store
        self._sizes = sizes
        self._figures = Figures(peer=peer.name, store=peer.store)

    def run(self, environment: Environment, measuring: Measuring) -> Figures:
        """All phases; what fails is said in `problems`, and what was found before is kept."""
        with tempfile.TemporaryDirectory(prefix="compare-", dir=_shared_memory()) as name:
            self._folder = Path(name)
            self._crew = Crew(self._peer, environment, self._store, self._folder)
            try:
                self._phases(measuring)
            except PeerError as error:
                self._figures.problems.append(str(error))
            finally:
                self._crew.stop()
        return self._figures

    def _phases(self, measuring: Measuring) -> None:
        self._crew.call("setup", seconds=_START_SECONDS)
        with measuring():
            submitted = self._submit()
        self._store.rest()
        with measuring():
            self._drain(submitted)
        self._store.rest()
        with measuring():
            self._ping()
        self._crew.stop()
        self._kill()

    def _submit(self) -> int:
        planned = int(self._peer.jobs * self._sizes.share)
        most = max(planned // 2, 500)
        one = self._crew.call("one", self._sizes.one_seconds, most, seconds=_PHASE_SECONDS)
        self._figures.submit_one_per_s = one["jobs"] / one["seconds"]
        jobs = max(planned - one["submitted"], 1_000)
        server = self._server_cpu()
        bulk = self._crew.call("bulk", jobs, seconds=_PHASE_SECONDS)
        self._figures.submit_bulk_per_s = bulk["jobs"] / bulk["seconds"]
        self._add_cpu("producer", bulk["cpu_seconds"], jobs)
        self._add_cpu("server", self._server_cpu() - server, jobs)
        return int(one["submitted"]) + jobs

    def _drain(self, submitted: int) -> None:
        server = self._server_cpu()
        self._crew.start()
        first = self._await(self._counted, "no job began")
        began, used, others = time.perf_counter(), self._crew.cpu_seconds(), self._others()
        deadline = began + _PHASE_SECONDS
        while (done := self._counted()) < submitted and time.perf_counter() < deadline:
            self._crew.check()
            time.sleep(_LOOK_SECONDS)
        seconds = time.perf_counter() - began
        cores = os.cpu_count() or 1
        self._figures.others_share = (self._others() - others) / seconds / cores
        self._figures.drained = done
        self._figures.drain_per_s = (done - first) / seconds
        time.sleep(_SETTLE_SECONDS)
        worked, served = self._crew.cpu_seconds() - used, self._server_cpu() - server
        self._add_cpu("workers", worked, done - first)
        self._add_cpu("server", served, done)
        self._figures.drain_cpu_ms_per_1000 = (worked + served) * 1e6 / max(done - first, 1)
        if done < submitted:
            left = f"{submitted - done} jobs left after {seconds:.0f} s"
            raise PeerError(f"{left}; what follows needs an empty queue")

    def _ping(self) -> None:
        times, pause = self._sizes.pings + _SKIPPED_PINGS, self._peer.poll_seconds
        said = self._crew.call("ping", times, pause, seconds=_PHASE_SECONDS)
        if "lost_after" in said:
            self._figures.problems.append(f"ping {said['lost_after']} did not start in 15 s")
        waits = array("Q")
        waits.frombytes((self._folder / "pings").read_bytes())
        ordered = sorted(waits[_SKIPPED_PINGS:])
        if ordered:
            self._figures.p50_ms = ordered[len(ordered) // 2] / 1e6
            self._figures.p99_ms = ordered[len(ordered) * 99 // 100] / 1e6

    def _kill(self) -> None:
        """Kill the process that runs a job, and wait for the job; workers that end return."""
        self._crew.start()
        self._crew.call("hang", seconds=_START_SECONDS)
        self._await(lambda: len(self._starts()), "the job that hangs did not begin")
        time.sleep(_SETTLED_IN_SECONDS)
        killed = time.monotonic_ns()
        self._crew.kill(self._starts()[0][0])
        waited = min(self._peer.wait_seconds, self._sizes.kill_seconds)
        self._figures.waited_s = waited
        deadline = time.monotonic() + waited
        while len(self._starts()) < 2 and time.monotonic() < deadline:
            self._crew.revive()
            time.sleep(_LOOK_SECONDS)
        for _, started in self._starts()[1:2]:
            self._figures.rerun_after_s = (started - killed) / 1e9

    def _starts(self) -> list[tuple[int, int]]:
        """Process and instant of each start of the job that hangs."""
        path = self._folder / "hangs"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(pid), int(at)) for pid, at in (line.split() for line in lines)]

    def _counted(self) -> int:
        cells = (path.read_bytes() for path in self._folder.glob("counts.*"))
        return sum(int.from_bytes(cell, "little") for cell in cells)

    def _await(self, number: Callable[[], int], otherwise: str) -> int:
        """The number, once it is over zero."""
        deadline = time.monotonic() + _START_SECONDS
        while not (found := number()):
            self._crew.check()
            if time.monotonic() > deadline:
                raise PeerError(otherwise)
            time.sleep(_LOOK_SECONDS)
        return found

    def _server_cpu(self) -> float:
        return cpu_seconds(list(self._store.pids))

    def _others(self) -> float:
        ours = self._server_cpu() + self._crew.cpu_seconds() + time.process_time()
        return busy_seconds() - ours

    def _add_cpu(self, who: str, seconds: float, jobs: int) -> None:
        used = self._figures.cpu_ms_per_1000
        used[who] = used.get(who, 0.0) + seconds * 1e6 / max(jobs, 1)


def _shared_memory() -> str | None:
    """The counts are in memory, so that they do not wait for the disk under trial."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
