"""An experiment from its command to its data, and what the sampler sees of a real store."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from longshore.bench.server import server_of
from longshore.core.job import NewJob
from longshore.engines import open_engine
from longshore.runtime.ids import IdSource
from longshore_lab.experiments.experiment import Stage
from longshore_lab.experiments.probe import FREE, HELD, open_probe
from longshore_lab.experiments.runner import read, read_catch
from longshore_lab.experiments.sampler import Sampler
from longshore_lab.experiments.screen import Glance
from longshore_lab.servers import PostgresServer

pytestmark = pytest.mark.slow

make = IdSource().make


def experiment(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "longshore_lab.experiments", *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_an_experiment_leaves_its_data_and_says_what_held(tmp_path: Path):
    ended = experiment("leases", "--quick", "--url", "sqlite", "--out", str(tmp_path))

    assert ended.returncode == 0, ended.stderr
    assert "holds: with renewal no job runs twice" in ended.stderr
    record = read("leases", tmp_path)
    assert record is not None
    assert (record.is_quick, record.machine.store) == (True, "SQLite")
    assert record.findings.results["without"]["runs"] > record.config["jobs"]
    assert record.findings.results["with"]["runs"] == record.config["jobs"]


def test_an_experiment_that_is_ended_takes_its_processes_along(tmp_path: Path):
    command = [sys.executable, "-m", "longshore_lab.experiments", "worlds"]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    ) as running:
        deadline = time.monotonic() + 30
        while len(session_of(running.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
        had = session_of(running.pid)
        running.terminate()
        said = running.communicate(timeout=60)[1]

    assert len(had) >= 3
    assert running.returncode == 130
    assert said.endswith("ended before it was done; nothing of it is kept\n")
    assert "Traceback" not in said
    assert session_of(running.pid) == []
    assert list(tmp_path.iterdir()) == []


def session_of(leader: int) -> list[int]:
    """Processes that are left of a session."""
    found: list[int] = []
    for one in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            pid, _, rest = one.read_text().partition(" (")
            state, _, _, session = rest.rpartition(") ")[2].split()[:4]
            found += [int(pid)] if int(session) == leader and state != "Z" else []
    return found


@pytest.mark.parametrize("is_harmed", [False, True])
def test_a_job_that_is_in_no_place_breaks_a_promise(postgres_url: str, is_harmed: bool):
    with Stage(postgres_url) as stage:
        with stage.store(is_searched=True) as url:
            asyncio.run(submitted(url, count=3))
            if is_harmed:
                asyncio.run(order(url, "delete from longshore.ready"))
        (found,) = stage.placed()

    assert found.words == "every job is in exactly one place of PostgreSQL's tables"
    assert found.figure == f"{3 if is_harmed else 0} of 3 are not"
    assert found.holds is not is_harmed


def test_a_file_has_no_places_to_search():
    with Stage("sqlite") as stage:
        with stage.store(is_searched=True) as url:
            asyncio.run(submitted(url, count=3))

        assert stage.placed() == []


async def order(url: str, words: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(words)
    await connection.close()


def test_a_planted_fault_is_found_and_kept_apart(tmp_path: Path):
    ended = experiment("punctual", "--break", "--url", "sqlite", "--out", str(tmp_path))

    assert ended.returncode == 0, ended.stderr
    assert "found: none starts before its time: -9" in ended.stderr
    assert read("punctual", tmp_path) is None
    catch = read_catch("punctual", tmp_path)
    assert catch is not None
    assert catch.fault == "jobs are due a second before their time"
    assert catch.shown[0].startswith("none starts before its time: -9")


def test_a_glance_sees_what_top_shows(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    asyncio.run(submitted(url, count=7))

    with Glance(url, 0.0, look=1.5) as glance:
        glance.wait(60)

    shown = "\n".join(glance.lines)
    assert "longshore top" in shown
    assert "sqlite://…" in shown
    assert "ready 7" in shown
    assert str(tmp_path) not in shown


async def submitted(url: str, *, count: int) -> None:
    engine = open_engine(url)
    await engine.migrate()
    await engine.submit([NewJob(id=make(), type="noop", payload=b"{}") for _ in range(count)])
    await engine.close()


def test_an_experiment_that_does_not_exist_is_refused_in_one_line():
    ended = experiment("nonsense")

    assert ended.returncode == 2
    assert "no experiment is called nonsense; there are workers," in ended.stderr


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return request.getfixturevalue("postgres_url")


async def test_the_sampler_sees_depth_size_and_who_uses_the_processor(url: str):
    engine = open_engine(url)
    await engine.migrate()
    queue = "sampled"

    with Sampler(url) as sampler:
        await engine.submit(
            [NewJob(id=make(), type="noop", queue=queue, payload=b"{}") for _ in range(500)]
        )
        used = time.process_time() + 0.5
        while time.process_time() < used:
            sum(range(100_000))
        seen = len(sampler.samples)
        async with asyncio.timeout(30):
            while len(sampler.samples) < seen + 2:
                await asyncio.sleep(0.05)
    await engine.close()

    last, starts = sampler.samples[-1], [0.0, *(one.at for one in sampler.samples)]
    spent = sum(
        one.cores["producer"] * (one.at - before)
        for one, before in zip(sampler.samples, starts, strict=False)
    )
    assert last.ready >= 500
    assert last.store_bytes > 0
    assert spent > 0.4
    assert last.busy > 0
    assert ("server" in last.cores) == url.startswith("postgres")


async def test_the_processor_time_of_a_server_behind_a_socket_is_its_own(
    postgres_server: PostgresServer,
):
    found = await server_of(postgres_server.url())

    assert found.pid == postgres_server.pid


async def test_a_look_at_a_file_tells_whether_somebody_writes(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    early = await open_probe(url)
    assert not await early.waits()  # there is no file, and none is made
    assert not (tmp_path / "jobs.db").exists()
    engine = open_engine(url)
    await engine.migrate()
    db = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)

    free = await early.waits()
    db.execute("begin immediate")
    held = await early.waits()
    db.execute("rollback")
    again = await early.waits()

    db.close()
    await early.close()
    await engine.close()
    assert (free, held, again) == ({FREE: 1}, {HELD: 1}, {FREE: 1})
