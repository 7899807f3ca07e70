"""Workers of this version on one SQLite file, while the next version migrates it."""

import asyncio
from pathlib import Path

import pytest
from releases import Release, additive, install, succeed, unlike
from upgrade_port import SCHEMA, opened

from longshore.engines.sqlite.schema_migration import MIGRATIONS
from longshore_lab.ledger import now

pytestmark = [pytest.mark.slow, pytest.mark.prove]

KNOWN = MIGRATIONS[-1].number
COLUMN = "alter table longshore_job add column origin text not null default 'none';"
INDEX = "create index longshore_session_worker on longshore_session (worker);"
BREAK = "alter table longshore_session rename column exchange to last_exchange;"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """This version."""
    return install(tmp_path_factory.mktemp("releases") / "old")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


async def test_workers_of_this_version_go_on_under_load_while_the_next_one_migrates(
    old: Release, url: str, tmp_path: Path
):
    steps = additive(COLUMN, INDEX, known=KNOWN)
    new = succeed(old, tmp_path / "new", steps, engine="sqlite")
    async with opened(url, tmp_path) as site:
        before = await site.work(old)
        await site.produce(old)
        await site.all_run(before, since=0)

        assert await site.migrate(new) == [f"applied {name}" for name in steps]
        migrated = now()
        await site.all_run(before, since=migrated)
        after = [*await site.work(new, count=1), *await site.work(old, count=1)]
        await site.all_run(after, since=migrated)
        await site.finish()

        assert await site.dismiss([*before, *after]) == [0, 0, 0, 0]
        await site.assert_sound()


async def test_workers_that_cannot_follow_finish_and_leave_before_the_schema_changes(
    old: Release, url: str, tmp_path: Path
):
    name = f"{KNOWN + 1:04d}_last"
    new = succeed(old, tmp_path / "new", {name: BREAK}, engine="sqlite")
    unlike(new, "sqlite/sql/session_get.sql", "select exchange,", "select last_exchange,")
    unlike(new, "sqlite/sql/session_exchanged.sql", "set exchange =", "set last_exchange =")
    async with opened(url, tmp_path, slow_scale=1.0) as site:
        before = await site.work(old)
        await site.produce(old)
        await site.all_run(before, since=0)

        hasty = await asyncio.to_thread(new.run, "jobs", "list", "--url", url)
        assert await site.migrate(new) == [f"applied {name}"]
        await site.refused(before)
        refused = await asyncio.to_thread(old.run, "submit", "noop", "--url", url)
        after = await site.work(new)
        await site.all_run(after, since=now())
        await site.finish()

        assert hasty.returncode == 7
        assert "are at work; stop them, or run `longshore migrate`" in hasty.stderr
        assert refused.returncode == SCHEMA
        assert await site.dismiss(after) == [0, 0]
        await site.assert_sound()
