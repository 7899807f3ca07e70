"""Real processes whose PostgreSQL is far away: each round trip to it takes long."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from keeper_yard import Hand, Yard

from longshore.contract import Engine
from longshore.core.job import JobId
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.testing.harness import eventually
from longshore_lab.wires import Wire

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]

JOBS = 60
WITHIN = 30.0
"""Seconds, with the start of the process."""


@pytest.fixture
async def near(empty_postgres_url: str) -> AsyncIterator[Engine]:
    """An engine that is where the server is."""
    engine = open_engine(empty_postgres_url)
    yield engine
    await engine.close()


@pytest.fixture
async def wire(near: Engine, empty_postgres_url: str) -> AsyncIterator[Wire]:
    place = parse_qs(urlsplit(empty_postgres_url).query)
    async with Wire(Path(place["host"][0]) / f".s.PGSQL.{place['port'][0]}") as wire:
        yield wire


@pytest.fixture
def far_url(wire: Wire, empty_postgres_url: str) -> str:
    return f"postgresql://postgres@127.0.0.1:{wire.port}{urlsplit(empty_postgres_url).path}"


@pytest.fixture
async def pooled_wire(near: Engine, empty_pooled_url: str) -> AsyncIterator[Wire]:
    place = urlsplit(empty_pooled_url)
    async with Wire((place.hostname or "", place.port or 0)) as wire:
        yield wire


async def settled(near: Engine, ids: list[JobId], within: float) -> None:
    async def are_settled() -> bool:
        jobs = [await near.get(one) for one in ids]
        return all(job.state is State.SUCCEEDED for job in jobs)

    await eventually(are_settled, within=within)


async def works(yard: Yard, lease: str) -> Hand:
    """The worker ran all there is, and leaves nothing behind when it goes."""
    ids = await yard.submit("quick", JOBS)
    hand = yard.start("quick", lease=lease)
    await settled(yard.engine, ids, WITHIN)

    hand.kill(signal.SIGTERM)
    assert await asyncio.to_thread(hand.process.wait, WITHIN) == 0
    assert hand.lines("lease lost") == []
    assert len(yard.runs()) == JOBS
    await eventually(no_session(yard.engine), within=WITHIN)
    return hand


def no_session(near: Engine):
    async def is_so() -> bool:
        return not (await near.sessions()).sessions

    return is_so


@pytest.mark.parametrize(("trip", "lease"), [(0.5, "30s"), (0.15, "5s")])
async def test_a_worker_far_from_its_store_runs_all_its_jobs(
    near: Engine, wire: Wire, far_url: str, tmp_path: Path, trip: float, lease: str
) -> None:
    wire.delay(trip / 2)
    yard = Yard(near, far_url, tmp_path)
    try:
        hand = await works(yard, lease)
    finally:
        yard.close()

    assert hand.lines("engine call failed") == []
    assert hand.lines("renewal failed") == []


@pytest.mark.parametrize(("trip", "lease"), [(0.5, "30s"), (0.15, "5s")])
async def test_a_worker_far_from_its_pooler_runs_all_its_jobs(
    near: Engine,
    pooled_wire: Wire,
    empty_pooled_url: str,
    tmp_path: Path,
    trip: float,
    lease: str,
) -> None:
    place = urlsplit(empty_pooled_url)
    far = place._replace(netloc=place.netloc.replace(f":{place.port}", f":{pooled_wire.port}"))
    pooled_wire.delay(trip / 2)
    yard = Yard(near, far.geturl(), tmp_path)
    try:
        await works(yard, lease)
    finally:
        yard.close()


async def test_a_worker_far_from_its_store_goes_on_when_its_connections_are_lost(
    near: Engine, wire: Wire, far_url: str, tmp_path: Path
) -> None:
    wire.delay(0.25)
    yard = Yard(near, far_url, tmp_path)
    try:
        hand = yard.start("quick")
        await settled(near, await yard.submit("quick", JOBS), WITHIN)
        for _ in range(2):
            wire.reset()
            await settled(near, await yard.submit("quick", JOBS), WITHIN)
    finally:
        yard.close()

    assert hand.lines("lease lost") == []


async def test_the_death_of_a_worker_far_from_its_store_is_told_before_its_lease_is_over(
    near: Engine, wire: Wire, far_url: str, tmp_path: Path
) -> None:
    wire.delay(0.25)
    yard = Yard(near, far_url, tmp_path)
    try:
        hand = await yard.started("hold", lease="60s")
        ids = await yard.submit("hold", 3)
        await yard.ran(3)

        hand.kill()

        told = await hand.logged("worker died, its jobs are free")
    finally:
        yard.close()

    assert told["seconds"] < 20
    assert told["jobs"] == 3
    assert [job.crashes for job in await yard.jobs(ids)] == [1, 1, 1]


@pytest.mark.parametrize(
    "words",
    [("submit", "noop", '{"seq": 1}'), ("doctor",), ("queues", "list"), ("workers", "list")],
)
async def test_commands_work_far_from_their_store(
    wire: Wire, far_url: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    wire.delay(0.25)
    clean = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}

    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "longshore", "--url", far_url, *words],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )

    assert done.returncode == 0, done.stderr
