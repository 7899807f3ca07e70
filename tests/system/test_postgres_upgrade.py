"""Workers of this version, installed by themselves, while the next version migrates.

The next version is this one and a few more migrations. Where those say so, the workers go on
under load as if nothing happened. Where not, they finish what they run and leave before the
schema changes. Either way every job runs once, by a ledger outside the queue.
"""

import asyncio
import logging
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from random import Random

import asyncpg
import pytest
from releases import KNOWN, Release, additive, install, succeed, unlike

from longshore.engines import open_engine
from longshore.testing.harness import eventually
from longshore_lab import ledger
from longshore_lab.ledger import now
from longshore_lab.records import Outcome, RunBegan, RunEnded
from longshore_lab.servers import PostgresServer
from longshore_lab.trial import Trial
from longshore_lab.verdict import judge

pytestmark = pytest.mark.slow
log = logging.getLogger(__name__)

PATIENCE = 40.0
SCHEMA = 8
"""The exit code of a worker whose schema has moved on."""

COLUMN = "alter table longshore.session add column origin text not null default 'none'"
INDEX = "create index concurrently if not exists finished_worker on longshore.finished (worker)"
BREAK = "alter function longshore.exchange rename to trade"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """This version."""
    return install(tmp_path_factory.mktemp("releases") / "old")


class Port:
    """A database, a load, and worker processes of several versions."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.engine = open_engine(trial.url)
        self.processes: dict[str, asyncio.subprocess.Process] = {}

    async def work(self, release: Release, *, count: int = 2) -> list[str]:
        """Start workers of a version; their names."""
        names = [
            f"{release.folder.name}-{len(self.processes) + number}" for number in range(count)
        ]
        words = ["longshore", "worker", "--app", "upgrade_app:app", "--drain-timeout", "10s"]
        for name in names:
            await self.start(release, name, *words)
        return names

    async def produce(self, release: Release) -> None:
        """Start the producer of the load."""
        name = "producer-1"
        words = ["longshore_lab.actor", "producer", name, self.trial.pack()]
        await self.start(release, name, *words)

    async def migrate(self, release: Release) -> list[str]:
        """`longshore migrate` of a version; what it applied."""
        done = await asyncio.to_thread(release.run, "migrate", "--url", self.trial.url)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def runs(self, since: int = 0) -> dict[str, int]:
        """How many handlers each worker began since then."""
        found: defaultdict[str, int] = defaultdict(int)
        for entry in ledger.read(self.trial.ledgers, of="*-*").entries:
            if isinstance(entry.record, RunBegan) and entry.record.at >= since:
                found[entry.actor] += 1
        return found

    async def all_run(self, names: list[str], *, since: int) -> None:
        """Return when each of these workers has begun a handler since then."""
        await eventually(lambda: all(self.runs(since)[one] for one in names), within=PATIENCE)

    async def finish(self) -> None:
        """End the load, and return when nothing is left to do."""

        async def is_quiet() -> bool:
            counts = await self.engine.counts()
            return not any(one.ready + one.scheduled + one.running for one in counts)

        self.processes["producer-1"].kill()
        await self.ended("producer-1")
        await eventually(is_quiet, within=PATIENCE)

    async def ended(self, name: str) -> int:
        """The exit code."""
        async with asyncio.timeout(PATIENCE):
            return await self.processes[name].wait()

    def said(self, name: str) -> str:
        """What the process wrote to standard error."""
        return self._log(name).read_text()

    async def dismiss(self, names: list[str]) -> list[int]:
        """The exit codes of those that work, once they were asked to leave."""
        for name in names:
            self.processes[name].send_signal(signal.SIGTERM)
        return [await self.ended(name) for name in names]

    def flow(self, began: int, ended: int) -> tuple[float, float]:
        """Handlers that ended per second, and the longest time in which none did."""
        ends = [
            entry.record.at
            for entry in ledger.read(self.trial.ledgers, of="*-*").entries
            if isinstance(entry.record, RunEnded) and began <= entry.record.at <= ended
        ]
        gaps = (later - earlier for earlier, later in pairwise([began, *ends, ended]))
        return len(ends) / (ended - began) * 1e6, max(gaps) / 1e6

    async def assert_sound(self) -> None:
        """Every job ran once and is where it belongs."""
        verdict = await judge(self.trial, self.engine)
        log.info("%s", verdict.figures)
        assert {k: one.examples for k, one in verdict.findings.items() if not one.holds} == {}
        assert verdict.figures.accepted > 500
        assert verdict.figures.redelivered == 0
        stopped = [
            entry
            for entry in ledger.read(self.trial.ledgers, of="*-*").entries
            if isinstance(entry.record, RunEnded) and entry.record.outcome is Outcome.STOPPED
        ]
        assert stopped == []
        connection = await asyncpg.connect(self.trial.url)
        assert await connection.execute("select * from longshore.misplaced()") == "SELECT 0"
        await connection.close()

    async def close(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
        await self.engine.close()

    async def start(self, release: Release, name: str, *words: str) -> None:
        environment = release.environment(LAB_TRIAL=self.trial.pack(), LAB_ACTOR=name)
        # The pipe closes with this process, which is how the lab's actors learn of its death.
        with self._log(name).open("wb") as errors:
            self.processes[name] = await asyncio.create_subprocess_exec(
                release.python, "-m", *words,
                env=environment, stdin=asyncio.subprocess.PIPE, stderr=errors,
            )  # fmt: skip

    def _log(self, name: str) -> Path:
        return Path(self.trial.folder) / f"{name}.log"


@pytest.fixture
def port(postgres_server: PostgresServer, tmp_path: Path):
    """Makes a port on a new database, with the schema of this version."""

    @asynccontextmanager
    async def opened(**load: float) -> AsyncIterator[Port]:
        url = await asyncio.to_thread(postgres_server.create, tmp_path.name)
        # No lease ends meanwhile, so no job may run a second time without having failed.
        plan = {"batch": 25, "pace": 0.05, "long_share": 0.0, "lease_seconds": 60.0, **load}
        port = Port(Trial(url=url, folder=str(tmp_path), jobs=100_000, **plan))
        try:
            await port.engine.migrate()
            yield port
        finally:
            await port.close()

    return opened


async def test_workers_of_this_version_go_on_under_load_while_the_next_one_migrates(
    old: Release, port: Callable[..., Port], tmp_path: Path
):
    new = succeed(old, tmp_path / "new", additive(COLUMN, INDEX))
    async with port() as site:
        before = await site.work(old)
        await site.produce(old)
        await site.all_run(before, since=0)

        began = now()
        applied = await site.migrate(new)
        migrated = now()
        assert [line.split()[0] for line in applied] == ["applied", "applied"]
        await site.all_run(before, since=migrated)
        after = [*await site.work(new, count=1), *await site.work(old, count=1)]
        await site.all_run(after, since=migrated)
        await site.finish()

        assert await site.dismiss([*before, *after]) == [0, 0, 0, 0]
        await site.assert_sound()
        log.info("%.0f jobs/s, longest gap %.3f s", *site.flow(began, migrated))


async def test_workers_that_cannot_follow_finish_and_leave_before_the_schema_changes(
    old: Release, port: Callable[..., Port], tmp_path: Path
):
    new = succeed(old, tmp_path / "new", {f"{KNOWN + 1:04d}_trade": BREAK})
    unlike(new, "sql/exchange.sql", "longshore.exchange(", "longshore.trade(")
    async with port(slow_scale=1.0) as site:
        before = await site.work(old)
        await site.produce(old)
        await site.all_run(before, since=0)

        applied = await site.migrate(new)
        assert applied == [f"applied {KNOWN + 1:04d}_trade"]
        codes = [await site.ended(name) for name in before]
        refused = await asyncio.to_thread(
            old.run, "migrate", "--check", "--url", site.trial.url
        )
        after = await site.work(new)
        await site.all_run(after, since=now())
        await site.finish()

        assert codes == [SCHEMA, SCHEMA]
        for name in before:
            last = site.said(name).splitlines()[-1]
            assert last.startswith("error: the store's schema is about to go to ")
            assert last.endswith("; upgrade longshore")
            assert "Traceback" not in site.said(name)
        assert refused.returncode == SCHEMA
        assert await site.dismiss(after) == [0, 0]
        await site.assert_sound()


TABLES = """
    select relname from pg_class
     where relkind = 'r' and relnamespace = 'longshore'::regnamespace and relname <> 'migration'
     order by relname <> 'ready', relname
"""


MIGRATING = "select count(*) from pg_stat_activity where application_name = 'longshore migrate'"
END_MIGRATORS = MIGRATING.replace("count(*)", "pg_terminate_backend(pid)")
APPLIED = "select count(*) from longshore.migration where applied_at is not null"


def a_column_and_an_index(tables: list[str]) -> dict[str, str]:
    """For each table one migration after the other."""
    return additive(
        *(f"alter table longshore.{one} add added bigint not null default 7" for one in tables),
        *(
            f"create index concurrently if not exists {one}_added on longshore.{one} (added)"
            for one in tables
        ),
    )


INVALID = """
    select count(*) from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relnamespace = 'longshore'::regnamespace and not i.indisvalid
"""
KILLS = 40


@pytest.mark.prove
async def test_migrators_that_are_killed_at_any_moment_leave_nothing_half_done(
    old: Release, port: Callable[..., Port], tmp_path: Path
):
    rng = Random(40)
    async with port() as site:
        other = await asyncpg.connect(site.trial.url)
        tables = [row[0] for row in await other.fetch(TABLES)]
        new = succeed(old, tmp_path / "new", a_column_and_an_index(tables))
        before = await site.work(old)
        await site.produce(old)
        await site.all_run(before, since=0)

        steps = [KNOWN]
        for number in range(KILLS):
            name = f"migrator-{number}"
            words = ("longshore", "migrate", "--url", site.trial.url)
            await site.start(new, name, *words)
            # Into the middle of its work, which begins when it is connected.
            await eventually(lambda: other.fetchval(MIGRATING), within=PATIENCE)
            await asyncio.sleep(rng.uniform(0, 0.1))
            site.processes[name].kill()
            if number % 2:
                # Else the server finishes the statement that it is at.
                await other.execute(END_MIGRATORS)
            await site.ended(name)
            steps.append(await other.fetchval(APPLIED))
        await site.migrate(new)
        since = now()
        await site.all_run([*before, *await site.work(new, count=1)], since=since)
        await site.finish()

        log.info("level after each kill: %s", steps)
        assert len(set(steps)) > 5
        assert await other.fetchval(APPLIED) == KNOWN + 2 * len(tables)
        assert await other.fetchval(INVALID) == 0
        await other.close()
        assert await site.dismiss([*before, f"new-{len(site.processes) - 1}"]) == [0, 0, 0]
        await site.assert_sound()


@pytest.mark.prove
async def test_a_column_and_an_index_on_every_table_hold_up_nobody_for_long(
    old: Release, port: Callable[..., Port], tmp_path: Path
):
    """Four migrators at once, and a transaction of someone else in their way."""
    async with port(batch=100) as site:
        other = await asyncpg.connect(site.trial.url)
        tables = [row[0] for row in await other.fetch(TABLES)]
        new = succeed(old, tmp_path / "new", a_column_and_an_index(tables))
        before = await site.work(old)
        await site.produce(old)
        await site.all_run(before, since=0)

        began = now()
        async with other.transaction():
            await other.execute("select from longshore.ready limit 1")
            migrations = [asyncio.create_task(site.migrate(new)) for _ in range(4)]
            await asyncio.sleep(8)
            assert not any(one.done() for one in migrations)
        applied = [line for one in migrations for line in await one]
        migrated = now()
        await site.all_run([*before, *await site.work(new, count=1)], since=migrated)
        await site.finish()

        assert sum(line.startswith("applied") for line in applied) == 2 * len(tables)
        workers = [name for name in site.processes if not name.startswith("producer")]
        assert await site.dismiss(workers) == [0, 0, 0]
        await site.assert_sound()
        await other.close()
        rate, gap = site.flow(began, migrated)
        log.info("%.0f jobs/s, longest gap %.3f s", rate, gap)
        assert gap < 2.0
