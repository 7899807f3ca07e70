"""`longshore bench` with real processes, kept short: what it prints, not how fast it is."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from longshore_lab.servers import PostgresServer

KEYS = {
    "jobs_per_s",
    "p50_ms",
    "p99_ms",
    "submit_p50_ms",
    "submit_p99_ms",
    "cpu_us_per_job",
    "wal_bytes_per_job",
    "stolen",
}


def bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "longshore", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )


def figures(*arguments: str) -> dict[str, Any]:
    ended = bench(*arguments)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.slow
def test_steady_shows_two_kinds_of_jobs_and_leaves_nothing_to_run(tmp_path: Path):
    """Jobs that do nothing, and jobs as people have them; repeats do not meet."""
    url = f"sqlite:///{tmp_path}/jobs.db"

    found = figures("--engine", url, "--seconds", "1", "--repeat", "2", "--json")

    assert set(found) > KEYS
    assert (found["mode"], found["profile"], found["engine"]) == ("steady", "noop", url)
    assert set(found["cpu_us_per_job"]) == {"producer", "worker", "server"}
    assert found["jobs"] > 0
    assert found["jobs_per_s"] == pytest.approx(found["jobs"] / found["seconds"], rel=0.01)
    assert found["real"]["profile"] == "real"
    assert set(found["real"]) > KEYS
    assert found["jobs_per_s"] > found["real"]["jobs_per_s"]
    listed = subprocess.run(
        [sys.executable, "-m", "longshore", "--url", url, "queues", "list", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    queues = [json.loads(line) for line in listed.stdout.splitlines()]
    assert len(queues) == 2 * (1 + 4)
    assert [one["ready"] + one["scheduled"] + one["running"] for one in queues] == [0] * 10


@pytest.mark.slow
def test_at_a_rate_jobs_arrive_as_it_says_and_no_more_wait_than_before(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/jobs.db"

    found = figures(
        *("--engine", url, "--seconds", "2", "--profile", "noop", "--batch", "10"),
        *("--rate", "500", "--json"),
    )

    assert found["jobs_per_s"] == pytest.approx(500, rel=0.1)
    assert abs(found["depth"] - found["depth_before"]) < 100


def test_drain_runs_every_job_it_submitted(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/jobs.db"

    found = figures(
        *("--engine", url, "--mode", "drain", "--jobs", "3000", "--profile", "noop"),
        *("--processes", "2", "--json"),
    )

    assert found["jobs"] == 3000
    listed = subprocess.run(
        [sys.executable, "-m", "longshore", "--url", url, "queues", "list", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert '"succeeded": 3000' in listed.stdout or '"succeeded":3000' in listed.stdout


async def test_on_postgresql_it_says_what_a_job_takes_of_the_log(
    postgres_server: PostgresServer,
):
    url = await asyncio.to_thread(postgres_server.create, "bench_log")

    found = await asyncio.to_thread(
        figures, *("--engine", url, "--mode", "drain", "--jobs", "2000"), "--profile", "noop"
    )

    assert 50 < found["wal_bytes_per_job"] < 5_000


def test_latency_measures_an_idle_queue():
    found = figures("--mode", "latency", "--jobs", "2000", "--json")

    assert (found["engine"], found["jobs"]) == ("sqlite", 20)
    assert 0 < found["p50_ms"] <= found["p99_ms"]


def test_processes_that_write_more_errors_than_a_pipe_holds_work_on():
    arguments = ("--mode", "drain", "--jobs", "100", "--profile", "noop", "--json")

    ended = bench(*arguments, PYTHONVERBOSE="1")

    assert ended.returncode == 0, ended.stderr[-1_000:]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seconds", "0"),
        ("--jobs", "0", "--mode", "drain"),
        ("--engine", "sqlite://:memory:"),
        ("--engine", "nonsense"),
        ("--mode", "fast"),
        ("--payload-bytes", "-1"),
        ("--rate", "-1"),
        ("--rate", "100", "--mode", "drain"),
    ],
    ids=" ".join,
)
def test_a_benchmark_that_makes_no_sense_is_refused_in_one_line(arguments: tuple[str, ...]):
    ended = bench(*arguments)

    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    assert ended.stderr.strip()


def test_its_processes_end_with_it_however_it_ends():
    with subprocess.Popen(
        [sys.executable, "-m", "longshore", "bench", "--seconds", "60", "--json"],
        stdout=subprocess.DEVNULL,
    ) as leader:
        actors = eventually_two(leader.pid)
        leader.kill()

    until = time.monotonic() + 30
    while any(map(is_there, actors)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_there, actors))


def eventually_two(leader: int) -> list[int]:
    """The producer and the worker, as soon as they are there."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        if len(found) == 2:
            return [int(one) for one in found]
        time.sleep(0.05)
    pytest.fail("the processes of the benchmark did not start")


def is_there(pid: int) -> bool:
    """It runs, and is no zombie that waits for somebody to ask."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
