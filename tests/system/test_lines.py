"""Ordering keys under workers that are killed again and again, by a ledger of its own."""

import asyncio
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from longshore.contract import Engine
from longshore.engines import open_engine
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually

PROGRAM = Path(__file__).with_name("worker_process.py")
KEYS, LENGTH, KILLS = 12, 40, 8

pytestmark = pytest.mark.prove


def start(url: str, folder: Path, name: str) -> subprocess.Popen[str]:
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, PROGRAM, url, folder, name, "1.5"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    assert process.stdout.readline() == "listening\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(30)
    assert process.stdout is not None
    process.stdout.close()


async def submit(engine: Engine) -> None:
    """Number n of key k is k * 1000 + n; the keys take turns."""
    for number in range(LENGTH):
        await engine.submit(
            [
                a_job(
                    type="shaky",
                    ordering_key=f"key {key}",
                    payload=msgspec.json.encode({"n": key * 1_000 + number}),
                )
                for key in range(KEYS)
            ]
        )


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


async def test_every_key_runs_in_order_whoever_is_killed(url: str, tmp_path: Path) -> None:
    engine = open_engine(url)
    await engine.migrate()
    steady = [start(url, tmp_path, name) for name in ("one", "two")]
    await submit(engine)

    for kill in range(KILLS):
        victim = start(url, tmp_path, f"victim-{kill}")
        await asyncio.sleep(0.4)
        end(victim)

    async def is_done() -> bool:
        (counts,) = await engine.counts()
        return counts.succeeded == KEYS * LENGTH

    await eventually(is_done, within=120.0)
    for process in steady:
        end(process)
    runs = [int(line.split()[1]) for line in (tmp_path / "runs").read_text().splitlines()]
    for key in range(KEYS):
        mine = [number % 1_000 for number in runs if number // 1_000 == key]
        assert [number for number, _ in groupby(mine)] == list(range(LENGTH)), key
    assert len(runs) > KEYS * LENGTH, "some ran twice"
    (counts,) = await engine.counts()
    assert (counts.ready, counts.parked, counts.running, counts.scheduled) == (0, 0, 0, 0)
    assert await engine.line("default", "key 0") is None
    await engine.close()
