"""The failover trial: a primary is lost, its standby takes over, every job is accounted for.

    python -m longshore_lab.failover [--lag 5 | --synchronous] [--json]

Producers and workers reach a PostgreSQL primary through one address. A streaming standby
follows it and, with a lag, stops receiving for so many seconds. Then the primary is killed, the
standby is promoted, and the address leads to it. Producers and handlers write ledgers outside
of the queue: which job was acknowledged when, which job ran. Exits with 1 if a job that the new
primary acknowledged was lost, if a job holds the result of another, or if one counts as
succeeded that never ran; with a synchronous standby also if any acknowledged job was lost.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import msgspec

from longshore.engines import open_engine
from longshore_lab.places import count_misplaced
from longshore_lab.servers import PostgresServer
from longshore_lab.wires import Wire

__all__ = ["Plan", "Verdict", "run"]

_DATABASE = "failover"
_LEASE = "6s"
_PATIENCE = 60.0
_GLANCE = 0.1
_MINUTE = 60.0
_JOBS = """
    select id::text, state, (payload ->> 'n')::bigint as n, result::text as result
      from (select id, state, payload::jsonb as payload, result from longshore.jobs) j
"""
_OPEN = "select count(*) from longshore.jobs where state in ('ready', 'running', 'scheduled')"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much is under way, and how the primary is lost."""

    producers: int = 3
    workers: int = 3
    rate: float = 20.0
    """Jobs a second of each producer."""
    before: float = 5.0
    """Seconds of work before anything happens."""
    lag: float = 5.0
    """Seconds in which the standby receives nothing, before the primary is killed."""
    after: float = 8.0
    """Seconds of submissions to the new primary."""
    is_synchronous: bool = False
    """Whether commits wait for the standby; then it has no lag."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledgers say of the jobs."""

    acknowledged: int
    by_new_primary: int
    lost_of_new_primary: int
    """Acknowledged by it, and it does not have them as succeeded."""
    never_ran: int
    """Stored as succeeded although no handler came to its end."""
    wrong_results: int
    """Stored with the result of another job."""
    unreceived: int
    """Submitted before the old primary was killed, acknowledged, and not there."""
    lost_before_lag: int
    """Acknowledged more than a second before the lag, and not there."""
    misplaced: int
    """Jobs in two places of the tables, or in none."""
    is_synchronous: bool

    @property
    def holds(self) -> bool:
        """Whether nothing was lost but what an asynchronous standby never received."""
        wrong = self.lost_of_new_primary + self.never_ran + self.wrong_results
        lost = self.unreceived if self.is_synchronous else self.lost_before_lag
        return not wrong + lost + self.misplaced and self.by_new_primary > 0


class _Site:
    """The processes of a trial, and the folder of their ledgers."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []

    def produce(self, name: int, rate: float) -> None:
        """Start a producer."""
        self._start("longshore_lab.failover_app", self._url, str(name), str(rate))

    def work(self) -> None:
        """Start a worker."""
        words = ["--app", "longshore_lab.failover_app:app", "--url", self._url]
        words += ["worker", "--queues", "failover", "--concurrency", "400", "--lease", _LEASE]
        self._start("longshore", *words)

    def end(self, module: str | None = None) -> None:
        """End the processes of a module, or all of them."""
        for started, process in self._processes:
            if module in (None, started):
                process.send_signal(signal.SIGKILL)
                process.wait(_PATIENCE)

    def accepted(self) -> dict[str, tuple[float, float]]:
        """When each job was submitted and when it was acknowledged, by its id."""
        found: dict[str, tuple[float, float]] = {}
        for book in self._folder.glob("accepted-*"):
            for line in book.read_text().splitlines():
                called, acknowledged, _, job_id = line.split()
                found[job_id] = float(called), float(acknowledged)
        return found

    def ended(self) -> set[int]:
        """The numbers of the jobs whose handler came to its end."""
        lines = (self._folder / "runs").read_text().splitlines()
        return {int(line.split()[1]) for line in lines if line.startswith("end ")}

    def _start(self, module: str, *words: str) -> None:
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stderr=log,
                stdout=log,
            )
        self._processes.append((module, process))


async def run(plan: Plan, folder: Path) -> Verdict:
    """Lose a primary under load, and account for every job."""
    async with AsyncExitStack() as stack:
        primary = await stack.enter_async_context(PostgresServer(durable=True))
        await asyncio.to_thread(primary.create, _DATABASE)
        await _migrate(primary.url(_DATABASE))
        standby = await stack.enter_async_context(primary.standby())
        if plan.is_synchronous:
            await asyncio.to_thread(primary.set, "synchronous_standby_names", "standby")
        wire = await stack.enter_async_context(Wire(("127.0.0.1", primary.port)))
        address = primary.url(_DATABASE, tcp=True).replace(
            f":{primary.port}/", f":{wire.port}/"
        )
        site = _Site(address, folder)
        stack.callback(site.end)
        await _same_minute(plan)
        for _ in range(plan.workers):
            site.work()
        for name in range(plan.producers):
            site.produce(name, plan.rate)
        await _until_accepted(site)
        await asyncio.sleep(plan.before)
        lagging_from = time.time()
        if not plan.is_synchronous:
            await asyncio.to_thread(standby.stop_receiving)
            await asyncio.sleep(plan.lag)
        wire.refuse()
        await asyncio.to_thread(primary.stop, immediate=True)
        killed_at = time.time()
        await asyncio.to_thread(standby.promote)
        wire.lead_to(("127.0.0.1", standby.port))
        wire.heal()
        await asyncio.sleep(plan.after)
        site.end("longshore_lab.failover_app")
        await _until_done(standby.url(_DATABASE))
        return await _judge(site, standby.url(_DATABASE), plan, lagging_from, killed_at)


async def _migrate(url: str) -> None:
    engine = open_engine(url)
    try:
        await engine.migrate()
    finally:
        await engine.close()


async def _same_minute(plan: Plan) -> None:
    """Numbers that tell the minute can only be given out again within it."""
    takes = plan.before + plan.lag + plan.after + 6
    left = _MINUTE - time.time() % _MINUTE
    if left < takes:
        await asyncio.sleep(left)


async def _until_accepted(site: _Site) -> None:
    for _ in range(int(_PATIENCE / _GLANCE)):
        if site.accepted():
            return
        await asyncio.sleep(_GLANCE)
    raise TimeoutError("no job was acknowledged")


async def _until_done(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for _ in range(int(_PATIENCE / _GLANCE)):
            if not await connection.fetchval(_OPEN):
                return
            await asyncio.sleep(_GLANCE)
    finally:
        await connection.close()
    raise TimeoutError("jobs are left that nobody ended")


async def _judge(
    site: _Site, url: str, plan: Plan, lagging_from: float, killed_at: float
) -> Verdict:
    accepted, ended = site.accepted(), site.ended()
    connection = await asyncpg.connect(url)
    try:
        stored = {row["id"]: row for row in await connection.fetch(_JOBS)}
    finally:
        await connection.close()
    succeeded = {one: row for one, row in stored.items() if row["state"] == "succeeded"}
    new = [one for one, (called, _) in accepted.items() if called > killed_at]
    old = [one for one, (called, _) in accepted.items() if called <= killed_at]
    early = [one for one in old if accepted[one][1] < lagging_from - 1.0]
    return Verdict(
        acknowledged=len(accepted),
        by_new_primary=len(new),
        lost_of_new_primary=sum(one not in succeeded for one in new),
        never_ran=sum(row["n"] not in ended for row in succeeded.values()),
        wrong_results=sum(row["result"] != str(row["n"]) for row in succeeded.values()),
        unreceived=sum(one not in succeeded for one in old),
        lost_before_lag=sum(one not in succeeded for one in early),
        misplaced=await count_misplaced(url) or 0,
        is_synchronous=plan.is_synchronous,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trial and print its verdict."""
    parser = argparse.ArgumentParser(prog="longshore_lab.failover", description=__doc__)
    parser.add_argument("--lag", type=float, default=Plan().lag, metavar="SECONDS")
    parser.add_argument(
        "--synchronous", action="store_true", help="commits wait for the standby"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the verdict as one JSON line"
    )
    options = parser.parse_args(arguments)
    plan = Plan(lag=options.lag, is_synchronous=options.synchronous)
    with tempfile.TemporaryDirectory(prefix="longshore-failover-") as folder:
        verdict = asyncio.run(run(plan, Path(folder)))
    if options.json:
        print(msgspec.json.encode(verdict).decode())
    else:
        for name, value in msgspec.structs.asdict(verdict).items():
            print(f"{name.replace('_', ' '):<22} {value}")
        print("holds" if verdict.holds else "BROKEN")
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main())
