"""Processes that borrow from one bucket at the same time."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from longshore.engines import open_engine

PROCESSES, BURST, RATE = 3, 200, 0.001
_PROGRAM = """
import asyncio, sys
from longshore.engines import open_engine

async def main(url, burst, rate):
    engine = open_engine(url)
    await engine.now()
    print("ready", flush=True)
    sys.stdin.readline()
    granted = 0
    while True:
        asked = [engine.borrow("b", rate=rate, burst=burst, want=3) for _ in range(4)]
        answers = await asyncio.gather(*asked)
        granted += sum(answer.granted for answer in answers)
        if not any(answer.granted for answer in answers):
            break
    print(granted, flush=True)
    await engine.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"


async def migrate(url: str) -> None:
    engine = open_engine(url)
    await engine.migrate()
    await engine.close()


def test_processes_together_get_what_is_in_the_bucket_and_no_more(url: str):
    asyncio.run(migrate(url))
    command = [sys.executable, "-c", _PROGRAM, url, str(BURST), str(RATE)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    try:
        for one in processes:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in processes:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        granted = [int(one.communicate(timeout=60)[0]) for one in processes]
    finally:
        for one in processes:
            one.kill()
            one.wait()

    assert sum(granted) == BURST, granted
