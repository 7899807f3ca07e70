"""Many submitters of the same job at once, in processes of their own."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from longshore.contract import JobFilter
from longshore.core import event
from longshore.core.event import Name
from longshore.engines import open_engine
from longshore.testing.manual import a_worker

PROCESSES, SUBMITTERS, ROUNDS = 8, 8, 10
# Half of them share an engine, half another; each writes its arguments in an order of its own.
_PROGRAM = """
import asyncio, sys
from longshore import Longshore

async def submit(app, number, types):
    arguments = {"user": 7, "deep": {"a": 1, "b": [2, 3]}}
    if number % 2:
        arguments = {"deep": {"b": [2, 3], "a": 1}, "user": 7}
    new = 0
    for turn in range(10):
        job = await app.submit(f"sync{turn % types}", arguments, unique=True)
        new += job.is_new
    return new

async def main(url, submitters, types):
    apps = [Longshore(url), Longshore(url)]
    print("ready", flush=True)
    sys.stdin.readline()
    async with apps[0], apps[1]:
        all = [submit(apps[number // 2 % 2], number, types) for number in range(submitters)]
        print(sum(await asyncio.gather(*all)), flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"


@contextmanager
def submitters(url: str, *, types: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that submit, from the same moment on, until each says how many were new."""
    command = [sys.executable, "-c", _PROGRAM, url, str(SUBMITTERS), str(types)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    try:
        for one in started:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        yield started
    finally:
        for one in started:
            one.kill()
            one.wait()


@pytest.mark.prove
async def test_sixty_four_submitters_of_the_same_arguments_make_one_job(url: str):
    engine = open_engine(url)
    await engine.migrate()

    with submitters(url, types=ROUNDS) as processes:
        new = [await told(one) for one in processes]

    assert sum(new) == ROUNDS, new
    found = (await engine.find(JobFilter(), limit=100)).jobs
    assert sorted(job.type for job in found) == sorted(f"sync{n}" for n in range(ROUNDS))
    await engine.close()


@pytest.mark.prove
async def test_the_next_job_of_the_same_arguments_comes_only_after_the_last_one(url: str):
    engine = open_engine(url)
    await engine.migrate()
    worker = await a_worker(engine, types=["sync0"])

    with submitters(url, types=1) as processes:
        telling = asyncio.gather(*map(told, processes))
        while not telling.done():
            for claim in await worker.claim(8):
                await worker.succeed(claim)
            await asyncio.sleep(0)
        new = await telling

    happened = [
        one.name
        for batch in await engine.events(after=0, limit=100_000)
        for one in event.expand(batch)
        if one.name in (Name.SUBMITTED, Name.SUCCEEDED)
    ]
    assert happened.count(Name.SUBMITTED) == sum(new) > 1
    assert Name.SUBMITTED not in happened[1::2]
    await engine.close()


async def told(process: "subprocess.Popen[str]") -> int:
    """How many of a process's jobs were new."""
    answer, _ = await asyncio.to_thread(process.communicate, timeout=120)
    return int(answer)
