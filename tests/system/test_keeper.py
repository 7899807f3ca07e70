"""Real workers beside real keepers: killed, stopped, hogged, and cut off from the store."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longshore.core.job import Job, JobId
from longshore.core.state import State
from longshore.engine import Engine
from longshore.engines import open_engine
from longshore.testing.factories import SECOND, a_job
from longshore.testing.harness import eventually
from longshore_lab.servers import PostgresServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]

HERE = Path(__file__).parent
PATIENCE = 20.0
LONG = "30s"
"""A lease that no test waits for: what happens sooner happens without it."""
SHORT = 1.5


@dataclass(slots=True)
class Run:
    """One start of a handler."""

    at: float
    pid: int
    n: int
    attempt: int


class Hand:
    """A worker's process, with its keeper and what it logs."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._log = log

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What the worker or its keeper logged under this name."""
        written = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in written if line["event"] == event]

    async def logged(self, event: str, count: int = 1) -> dict[str, Any]:
        found = await eventually(
            lambda: self.lines(event) if len(self.lines(event)) >= count else [],
            within=PATIENCE,
        )
        return found[-1]

    async def keeper(self, count: int = 1) -> int:
        """The process id of the keeper that was started last."""
        return int((await self.logged("keeper started", count))["pid"])

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid, number)


class Yard:
    """A store, and the workers on it as the command line starts them."""

    def __init__(self, engine: Engine, url: str, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self._url = url
        self._hands: list[Hand] = []

    def start(self, queues: str, *, lease: str = LONG, **settings: str) -> Hand:
        log = self.folder / f"{len(self._hands)}.log"
        clean = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}
        more = {f"LONGSHORE_WORKER_{name.upper()}": value for name, value in settings.items()}
        paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        words = ["--url", self._url, "--app", "keeper_app:app", "--queues", queues]
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "longshore",
                    "worker",
                    "--json",
                    "--lease",
                    lease,
                    *words,
                ],
                cwd=self.folder,
                env={**clean, "PYTHONPATH": paths, **more},
                stderr=stderr,
                process_group=0,
            )
        hand = Hand(process, log)
        self._hands.append(hand)
        return hand

    async def started(self, queues: str, **options: Any) -> Hand:
        """A worker that is listed, and whose keeper looks after it."""
        known = {session.token for session in await self.engine.sessions()}
        hand = self.start(queues, **options)

        async def is_kept() -> bool:
            # The keeper renews as soon as it sees the session, the worker after a third.
            sessions = [one for one in await self.engine.sessions() if one.token not in known]
            return any(one.renewed_at > one.opened_at for one in sessions)

        await eventually(is_kept, within=PATIENCE)
        return hand

    async def submit(self, type_name: str, count: int = 1, **arguments: Any) -> list[JobId]:
        queue = {"quick": "quick", "stuck": "stuck", "fatal": "fatal"}.get(type_name)
        queue = queue or ("hold" if type_name.startswith("hold") else "hog")
        limits = {"timeout": SECOND, "max_attempts": 1} if type_name == "stuck" else {}
        jobs = [
            a_job(
                type=type_name,
                queue=queue,
                payload=msgspec.json.encode({"n": n, **arguments}),
                **limits,
            )
            for n in range(count)
        ]
        await self.engine.submit(jobs)
        return [job.id for job in jobs]

    def runs(self, n: int | None = None) -> list[Run]:
        book = self.folder / "runs"
        lines = map(str.split, book.read_text().splitlines() if book.exists() else [])
        runs = [Run(float(at), int(pid), int(m), int(time_)) for at, pid, m, time_ in lines]
        return runs if n is None else [run for run in runs if run.n == n]

    async def ran(self, count: int) -> list[Run]:
        await eventually(lambda: len(self.runs()) >= count, within=PATIENCE)
        return self.runs()

    async def jobs(self, ids: list[JobId]) -> list[Job]:
        return [await self.engine.get(one) for one in ids]

    async def settled(self, ids: list[JobId], state: State = State.SUCCEEDED) -> list[Job]:
        async def found() -> list[Job]:
            jobs = await self.jobs(ids)
            return jobs if all(job.state is state for job in jobs) else []

        return await eventually(found, within=PATIENCE)

    def go(self) -> None:
        (self.folder / "go").touch()

    def close(self) -> None:
        for hand in self._hands:
            hand.process.kill()
            hand.process.wait(PATIENCE)
            for line in hand.lines("keeper started"):
                with suppress(ProcessLookupError):
                    os.kill(line["pid"], signal.SIGKILL)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def engine(url: str) -> AsyncIterator[Engine]:
    engine = open_engine(url)
    await engine.migrate()
    yield engine
    await engine.close()


@pytest.fixture
def yard(engine: Engine, url: str, tmp_path: Path) -> Iterator[Yard]:
    yard = Yard(engine, url, tmp_path)
    yield yard
    yard.close()


async def test_the_job_of_a_killed_worker_runs_elsewhere_at_once(yard: Yard):
    first = await yard.started("hold")
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)
    await yard.started("hold")

    first.kill()
    killed = time.monotonic()
    (job,) = await yard.settled([job_id])

    again = yard.runs()[1]
    assert again.at - killed < 5.0
    assert (job.attempt, job.crashes, job.failures, job.lapses) == (2, 1, 0, 0)
    outcomes = [one.outcome for one in await yard.engine.attempts(job_id)]
    assert outcomes == ["crashed", "succeeded"]


async def test_a_crash_charges_what_ran_and_nothing_else(yard: Yard):
    """One job runs in the only room; what waits for the room has not started."""
    (running,) = await yard.submit("hold_in_thread")
    first = await yard.started("hold,quick", concurrency="1")
    await yard.ran(1)
    waiting = await yard.submit("quick", 20)

    first.kill()
    await first.logged("worker died, its jobs are free")
    after = [await yard.engine.get(running), *await yard.jobs(waiting)]

    assert {job.state for job in after} == {State.READY}
    assert [(job.attempt, job.crashes) for job in after] == [(1, 1)] + [(0, 0)] * 20
    assert {(job.failures, job.lapses) for job in after} == {(0, 0)}


async def test_jobs_that_had_ended_do_not_run_again(yard: Yard):
    """At full speed hundreds have ended of which the engine has not heard."""
    ids = await yard.submit("quick", 4_000)
    first = await yard.started("quick")
    await yard.ran(500)

    first.kill()
    await first.logged("worker died, its jobs are free")
    await yard.started("quick")
    jobs = await yard.settled(ids)

    # One handler ran when the worker died, or none did.
    assert sum(job.crashes for job in jobs) <= 1
    assert sum(job.failures + job.lapses for job in jobs) == 0
    assert len(yard.runs()) <= 4_001
    assert Counter(job.attempt for job in jobs)[1] >= 3_999


async def test_a_job_that_kills_its_worker_is_charged_alone(yard: Yard):
    (fatal,) = await yard.submit("fatal")
    waiting = await yard.submit("quick", 20)

    hand = yard.start("fatal,quick", concurrency="1")
    await hand.logged("worker died, its jobs are free")

    after = [await yard.engine.get(fatal), *await yard.jobs(waiting)]
    assert {job.state for job in after} == {State.READY}
    assert [(job.attempt, job.crashes) for job in after] == [(1, 1)] + [(0, 0)] * 20


@pytest.mark.parametrize(
    ("url", "task"),
    [
        ("sqlite", "match"),
        pytest.param("sqlite", "block", marks=pytest.mark.prove),
        ("postgres", "spin"),
        pytest.param("postgres", "bomb", marks=pytest.mark.prove),
    ],
    indirect=["url"],
)
async def test_a_handler_may_hog_the_process_for_three_leases(yard: Yard, task: str):
    lease = SHORT * 2 if task == "bomb" else SHORT
    hand = await yard.started("hog,quick", lease=f"{lease}s")
    ids = await yard.submit(task, seconds=3.2 * lease)

    (job,) = await yard.settled(ids)

    assert (job.delivery, job.attempt, job.crashes, job.lapses) == (1, 1, 0, 0)
    assert hand.lines("lease lost") == []
    assert len(yard.runs()) == 1


async def test_a_worker_that_is_stopped_past_its_lease_settles_nothing(yard: Yard):
    first = await yard.started("hold", lease=f"{SHORT}s")
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)
    first.kill(signal.SIGSTOP)
    await yard.started("hold", lease=f"{SHORT}s")
    (taken,) = await yard.settled([job_id])

    # Its handler would return at once.
    yard.go()
    first.kill(signal.SIGCONT)
    await first.logged("lease lost")
    others = await yard.submit("hold", 3)
    await yard.settled(others)

    job = await yard.engine.get(job_id)
    assert job == taken
    assert job.delivery == 2
    assert first.lines("settlement refused") == []
    assert [one.outcome for one in await yard.engine.attempts(job_id)][-1] == "succeeded"


async def test_a_worker_that_is_stopped_for_less_than_its_lease_goes_on(yard: Yard):
    first = await yard.started("hold", lease="6s")
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)

    first.kill(signal.SIGSTOP)
    await first.logged("worker is stopped, lease not renewed")
    first.kill(signal.SIGCONT)
    yard.go()
    (job,) = await yard.settled([job_id])

    assert (job.delivery, job.crashes) == (1, 0)
    assert first.lines("lease lost") == []


async def test_a_killed_keeper_is_replaced_within_a_second(yard: Yard):
    hand = await yard.started("hold")
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)
    keeper = await hand.keeper()

    os.kill(keeper, signal.SIGKILL)
    killed = time.monotonic()
    second = await hand.keeper(2)
    replaced_after = time.monotonic() - killed
    (session,) = await yard.engine.sessions()

    async def is_kept() -> bool:
        (now,) = await yard.engine.sessions()
        return now.renewed_at > session.renewed_at

    await eventually(is_kept, within=PATIENCE)
    await yard.started("hold")
    hand.kill()
    (job,) = await yard.settled([job_id])

    assert replaced_after < 1.5
    assert second != keeper
    assert (job.crashes, job.delivery) == (1, 2)


async def test_when_both_are_killed_the_lease_decides(yard: Yard):
    first = await yard.started("hold", lease=f"{SHORT}s")
    started, *_ = await yard.submit("hold")
    await yard.ran(1)

    async def is_start_known() -> bool:
        return (await yard.engine.get(started)).started_at is not None

    await eventually(is_start_known, within=PATIENCE)
    await yard.started("hold", lease=f"{SHORT}s")
    os.kill(await first.keeper(), signal.SIGSTOP)
    first.kill()
    os.kill(await first.keeper(), signal.SIGKILL)
    killed = time.monotonic()
    (job,) = await yard.settled([started])

    again = yard.runs()[1]
    assert again.at - killed > SHORT / 2
    assert (job.crashes, job.failures) == (1, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_keeper_leaves_with_its_worker_and_not_before(
    yard: Yard, number: signal.Signals
):
    hand = await yard.started("hold", lease=f"{SHORT}s")
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)
    keeper = await hand.keeper()

    os.kill(keeper, number)
    os.killpg(hand.pid, number)
    await hand.logged("worker asked to leave")
    await asyncio.sleep(1.2 * SHORT)  # longer than the lease: it drains, and it is kept
    was_there = is_alive(keeper)
    yard.go()

    assert await asyncio.to_thread(hand.process.wait, PATIENCE) == 0
    assert was_there
    assert not is_alive(keeper)
    (job,) = await yard.jobs([job_id])
    assert (job.state, job.delivery) == (State.SUCCEEDED, 1)
    assert hand.lines("keeper died") == []


async def test_without_a_keeper_the_worker_works_as_ever(yard: Yard):
    ids = await yard.submit("quick", 10)

    hand = yard.start("quick", keeper="false")
    await yard.settled(ids)
    hand.kill(signal.SIGTERM)

    assert await asyncio.to_thread(hand.process.wait, PATIENCE) == 0
    assert hand.lines("keeper started") == []


@pytest.mark.prove
async def test_a_worker_whose_loop_is_stuck_past_a_timeout_is_ended(yard: Yard):
    hand = await yard.started("stuck")
    (job_id,) = await yard.submit("stuck")

    await hand.logged("worker stands still past a timeout, ended")
    (job,) = await yard.settled([job_id], State.DEAD)

    assert await asyncio.to_thread(hand.process.wait, PATIENCE) == -signal.SIGKILL
    assert (job.failures, job.crashes, job.reason) == (1, 0, "exhausted")
    assert job.failure is not None
    assert job.failure.kind == "timeout"


# One that is stopped while it writes to a SQLite file keeps everyone else from it.
@pytest.mark.prove
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_fifty_workers_that_are_stopped_past_their_leases_settle_nothing(yard: Yard):
    for round_ in range(10):
        holders = [yard.start("hold", lease="4s", concurrency="1") for _ in range(5)]
        ids = await yard.submit("hold", 5)
        pids = {holder.pid for holder in holders}
        await eventually(
            lambda pids=pids: pids <= {run.pid for run in yard.runs()}, within=60.0
        )
        for holder in holders:
            holder.kill(signal.SIGSTOP)
        rescuer = await yard.started("hold")
        taken = await yard.settled(ids)
        yard.go()
        for holder in holders:
            holder.kill(signal.SIGCONT)
        for holder in holders:
            await holder.logged("lease lost")
        for leaver in [*holders, rescuer]:
            leaver.kill(signal.SIGTERM)
            assert await asyncio.to_thread(leaver.process.wait, PATIENCE) == 0

        assert await yard.jobs(ids) == taken, f"round {round_}"
        assert {job.delivery for job in taken} == {2}
        assert {job.failures for job in taken} == {0}
        (yard.folder / "go").unlink()


@pytest.mark.usefixtures("postgres_server")
async def test_keepers_outlive_an_outage_of_the_store(tmp_path: Path):
    """A worker that lives through it keeps its lease; the death of another is told after."""
    with PostgresServer() as server:
        engine = open_engine(server.create("outage"))
        await engine.migrate()
        yard = Yard(engine, server.url("outage", tcp=True), tmp_path)
        try:
            await outage(yard, server)
        finally:
            yard.close()
            await engine.close()


async def outage(yard: Yard, server: PostgresServer) -> None:
    alive = await yard.started("hold", lease="20s", concurrency="1")
    dies = await yard.started("hold", concurrency="1")
    kept, *lost = await yard.submit("hold", 2)
    await yard.ran(2)
    by_pid = {run.pid: run.n for run in yard.runs()}
    if by_pid[dies.pid] == 0:
        kept, lost = lost[0], [kept]

    await asyncio.to_thread(server.stop)
    dies.kill()
    await dies.logged("death not reported")
    await asyncio.to_thread(server.start)
    await dies.logged("worker died, its jobs are free")
    yard.go()
    (first,), (second,) = await yard.settled([kept]), await yard.settled(lost)

    assert (first.delivery, first.crashes) == (1, 0)
    assert (second.delivery, second.crashes) == (2, 1)
    assert alive.lines("lease lost") == []


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
