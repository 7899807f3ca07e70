"""Several processes of one service tell one truth, also when one of them was killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from longshore import Longshore
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

PATIENCE = 60.0


class Yard:
    """Services on one store, and what they say of themselves."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/jobs.db"
        self._stack = stack

    def start(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        clean = {key: value for key, value in os.environ.items() if "LONGSHORE" not in key}
        paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        log = self._stack.enter_context((self.folder / name).open("wb"))
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "longshore", "--url", self.url, *words, "--json"],
                stderr=log,
                env={**clean, "PYTHONPATH": paths},
                cwd=self.folder,
            )
        )
        self._stack.callback(_end, process)
        return process

    def said(self, name: str, event: str) -> list[dict[str, object]]:
        lines = (self.folder / name).read_text().splitlines()
        return [one for one in map(json.loads, lines) if one["event"] == event]

    async def address(self, name: str, event: str) -> str:
        await eventually(lambda: bool(self.said(name, event)), within=PATIENCE)
        return str(self.said(name, event)[0]["address"])


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask first: whoever is killed leaves its processes behind."""
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with ExitStack() as stack:
        yield Yard(tmp_path, stack)


def read(address: str) -> dict[str, float]:
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
        page = answer.read().decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for one in family.samples:
            name = one.name.removeprefix("longshore_")
            found[name] = found.get(name, 0.0) + one.value
            found[name + str(sorted(one.labels.values()))] = one.value
    return found


async def test_workers_of_one_machine_and_their_processes_count_every_job_once(yard: Yard):
    yard.start("one", "worker", "--processes", "2", "--concurrency", "5")
    yard.start("two", "worker")
    yard.start("three", "scheduler")
    one = await yard.address("one", "metrics served")
    two = await yard.address("two", "metrics served")
    queue = await yard.address("three", "metrics served")
    assert len({one, two, queue}) == 3

    async with Longshore(yard.url) as app:
        await app.submit_many(app.spec("noop") for _ in range(300))

    def done() -> bool:
        pages = [read(one), read(two)]
        return sum(page.get("jobs_succeeded_total", 0) for page in pages) == 300

    await eventually(lambda: asyncio.to_thread(done), within=PATIENCE)

    def rooms() -> bool:
        page = read(one)
        return page.get("worker_slots['free']", 0) + page.get("worker_slots['busy']", 0) == 10

    await eventually(lambda: asyncio.to_thread(rooms), within=PATIENCE)
    before = await asyncio.to_thread(read, one)
    everywhere = await asyncio.to_thread(read, queue)
    assert everywhere["queue_depth['default', 'ready']"] == 0
    assert everywhere["workers"] >= 1

    # Two of its processes answer on one port; whichever is left tells of both.
    pid = yard.said("one", "worker started")[0]["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: len(yard.said("one", "worker started")) == 3, within=PATIENCE)
    after = await asyncio.to_thread(read, one)
    assert after.get("jobs_succeeded_total", 0) == before.get("jobs_succeeded_total", 0)
    assert after["leases_renewed_total"] >= before["leases_renewed_total"]


async def test_a_worker_that_is_killed_with_its_jobs_is_told_of_by_those_who_live(yard: Yard):
    worker = yard.start("worker", "--app", "keeper_app:app", "worker", "--queues", "hold")
    yard.start("scheduler", "scheduler")
    address = await yard.address("scheduler", "metrics served")
    runs = yard.folder / "runs"
    async with Longshore(yard.url) as app:
        await app.submit_many(app.spec("hold", {"n": n}, queue="hold") for n in range(5))
    await eventually(lambda: runs.exists() and len(runs.read_text().splitlines()) == 5)
    before = await asyncio.to_thread(read, address)

    worker.kill()

    def told() -> bool:
        page = read(address)
        return (page["workers_lost_total"], page["jobs_reclaimed_total"]) == (1, 5)

    assert (before["workers_lost_total"], before["jobs_reclaimed_total"]) == (0, 0)
    await eventually(lambda: asyncio.to_thread(told), within=PATIENCE)


async def test_processes_of_the_http_service_tell_what_all_were_asked(yard: Yard):
    yard.start("api", "api", "--processes", "3", "--port", "0")
    address = await yard.address("api", "api serves")

    def submit() -> None:
        request = urllib.request.Request(
            f"{address}/v1/jobs",
            data=b'{"type": "noop"}',
            headers={"content-type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=PATIENCE).close()

    await eventually(lambda: asyncio.to_thread(lambda: bool(submit()) or True), within=PATIENCE)
    await asyncio.gather(*(asyncio.to_thread(submit) for _ in range(39)))
    pages = [await asyncio.to_thread(read, f"{address}/metrics") for _ in range(5)]

    assert {page["jobs_submitted_total"] for page in pages} == {40}
    assert {page["http_requests_total['/v1/jobs', '201', 'POST']"] for page in pages} == {40}
