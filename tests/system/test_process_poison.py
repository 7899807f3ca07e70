"""Jobs that go wrong in every way, in child processes beside healthy ones, and every run."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from longshore.core.job import Job, NewJob
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
CHARGED = ["raise", "exit", "hang", "hoard"]
"""Kinds that end as failures: as many runs as max_attempts."""
CRASHING = ["vanish", "segfault"]
"""Kinds that kill their process: as many runs as max_crashes."""
MAX_CRASHES = 2


def poison(number: int) -> tuple[NewJob, int]:
    """A job of one of the kinds, and how often it has to run."""
    kinds = CHARGED + CRASHING
    how = kinds[number % len(kinds)]
    max_attempts = 1 + number // len(kinds) % 3
    job = a_job(
        type="poison",
        payload=msgspec.json.encode({"n": number, "how": how}),
        max_attempts=max_attempts,
        timeout=500_000 if how == "hang" else 60_000_000,
    )
    return job, MAX_CRASHES if how in CRASHING else max_attempts


def healthy(number: int) -> NewJob:
    kinds = ["healthy", "healthy_async", "healthy_thread"]
    body = msgspec.json.encode({"n": number})
    return a_job(type=kinds[number % len(kinds)], payload=body, max_attempts=1)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@contextmanager
def working(url: str, folder: Path) -> Iterator[None]:
    """`longshore worker` in this folder."""
    environ = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}
    environ["PYTHONPATH"] = os.pathsep.join([str(HERE), environ.get("PYTHONPATH", "")])
    words = ["-m", "longshore", "worker", "--app", "process_app:app", "--url", url]
    with subprocess.Popen([sys.executable, *words], cwd=folder, env=environ) as worker:
        try:
            yield
        finally:
            worker.terminate()
            worker.wait(30)


@pytest.mark.parametrize("count", [6, pytest.param(120, marks=pytest.mark.prove)])
async def test_every_poison_job_runs_exactly_as_often_as_it_may_and_no_neighbour_is_harmed(
    tmp_path: Path, url: str, count: int
):
    bad = [poison(number) for number in range(count)]
    good = [healthy(number) for number in range(count, 11 * count)]
    engine = open_engine(url)
    await engine.migrate()
    await engine.submit([job for job, _ in bad] + good)

    async def ended() -> list[Job]:
        """All of them, once none is left to run."""
        jobs = [await engine.get(job.id) for job in [*(one for one, _ in bad), *good]]
        return jobs if {job.state for job in jobs} <= {State.SUCCEEDED, State.DEAD} else []

    with working(url, tmp_path):
        jobs = await eventually(ended, within=60.0 + 3 * count, every=0.2)
    await engine.close()

    runs = Counter(int(line) for line in (tmp_path / "runs").read_text().split())
    expected = [times for _, times in bad] + [1] * len(good)
    assert [runs[number] for number in range(11 * count)] == expected
    dead, others = jobs[:count], jobs[count:]
    assert {job.state for job in dead} == {State.DEAD}
    assert [job.reason for job in dead[:6]] == ["exhausted"] * 4 + ["poison"] * 2
    kinds = [job.failure.kind for job in dead[:6] if job.failure is not None]
    assert kinds == ["ValueError", "SystemExit", "timeout", "memory", "crash", "crash"]
    assert {job.state for job in others} == {State.SUCCEEDED}
    assert {(job.failures, job.crashes, job.lapses) for job in others} == {(0, 0, 0)}
