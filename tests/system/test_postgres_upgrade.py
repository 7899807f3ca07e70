"""Workers of this version, installed by themselves, while the next version migrates.

The next version is this one and a few more migrations. Where those say so, the workers go on
under load as if nothing happened. Where not, they finish what they run and leave before the
schema changes. Either way every job runs once, by a ledger outside the queue.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from random import Random

import asyncpg
import pytest
from releases import KNOWN, Release, additive, install, succeed, unlike
from upgrade_port import SCHEMA, Port, opened

from longshore_lab.ledger import now
from longshore_lab.servers import PostgresServer

pytestmark = pytest.mark.slow
log = logging.getLogger(__name__)

COLUMN = "alter table longshore.session add column origin text not null default 'none'"
INDEX = "create index concurrently if not exists finished_worker on longshore.finished (worker)"
BREAK = "alter function longshore.exchange rename to trade"

Opener = Callable[..., AbstractAsyncContextManager[Port]]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """This version."""
    return install(tmp_path_factory.mktemp("releases") / "old")


@pytest.fixture
async def port(postgres_server: PostgresServer, tmp_path: Path) -> Opener:
    """Makes a port on a new database."""
    url = await asyncio.to_thread(postgres_server.create, tmp_path.name)
    return partial(opened, url, tmp_path)


@pytest.mark.slow
async def test_workers_of_this_version_go_on_under_load_while_the_next_one_migrates(
    old: Release, port: Opener, tmp_path: Path
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


@pytest.mark.prove
async def test_workers_that_cannot_follow_finish_and_leave_before_the_schema_changes(
    old: Release, port: Opener, tmp_path: Path
):
    new = succeed(old, tmp_path / "new", {f"{KNOWN + 1:04d}_trade": BREAK})
    unlike(new, "postgres/sql/exchange.sql", "longshore.exchange(", "longshore.trade(")
    async with port(slow_scale=1.0) as site:
        before = await site.work(old)
        await site.produce(old)
        await site.all_run(before, since=0)

        applied = await site.migrate(new)
        assert applied == [f"applied {KNOWN + 1:04d}_trade"]
        await site.refused(before)
        refused = await asyncio.to_thread(
            old.run, "migrate", "--check", "--url", site.trial.url
        )
        after = await site.work(new)
        await site.all_run(after, since=now())
        await site.finish()

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
APPLIED = "select max(number) from longshore.migration where applied_at is not null"


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


async def killed_migration(
    site: Port, new: Release, other: asyncpg.Connection, number: int
) -> int:
    """Migrate, and be killed in the middle of it; the level after that."""
    migrator = await site.start(
        new, f"migrator-{number}", "longshore", "migrate", "--url", site.trial.url
    )
    # Its work begins when it is connected.
    while migrator.returncode is None and not await other.fetchval(MIGRATING):
        await asyncio.sleep(0.01)
    await asyncio.sleep(Random(number).uniform(0, 0.1))
    if migrator.returncode is None:
        migrator.kill()
    if number % 2:
        # Else the server finishes the statement that it is at.
        await other.execute(END_MIGRATORS)
    await migrator.wait()
    return await other.fetchval(APPLIED)


@pytest.mark.prove
async def test_migrators_that_are_killed_at_any_moment_leave_nothing_half_done(
    old: Release, port: Opener, tmp_path: Path
):
    async with port() as site:
        other = await asyncpg.connect(site.trial.url)
        tables = [row[0] for row in await other.fetch(TABLES)]
        new = succeed(old, tmp_path / "new", a_column_and_an_index(tables))
        before = await site.work(old)
        await site.produce(old)
        await site.all_run(before, since=0)

        steps = [await killed_migration(site, new, other, number) for number in range(KILLS)]
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
    old: Release, port: Opener, tmp_path: Path
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
