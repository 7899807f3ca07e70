"""`longshore migrate`: what it says, and the exit codes that deployments wait for."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from cli_steps import LEASE, Queue, Shell

from longshore.engines.sqlite import schema_migration
from longshore.engines.sqlite.schema_migration import MIGRATIONS
from longshore.runtime.migrate import Migration
from longshore_lab.servers import PostgresServer

URL = "sqlite:///jobs.db"
LAST = MIGRATIONS[-1]
NEXT = Migration(LAST.number + 1, f"{LAST.number + 1:04d}_next", "select 1;")


def change(folder: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(folder / "jobs.db")) as db, db:
        db.execute(statement, values)


def newer(folder: Path, *, works_with: int) -> None:
    """As if a newer version had migrated the file."""
    row = (99, "0099_later", "x", works_with, 0, 1)
    change(folder, "insert into longshore_migration values (?, ?, ?, ?, ?, ?)", *row)


def test_it_says_what_it_applied_and_is_safe_to_repeat(shell: Shell, tmp_path: Path):
    first = shell("migrate", "--url", URL)
    second = shell("migrate", "--url", URL)

    said = [line.split()[0] for line in first.stdout.splitlines()]
    assert said == ["applied"] * len(MIGRATIONS)
    assert second.stdout == "the schema is up to date\n"
    assert shell.lines("migrate", "--url", URL) == [{"applied": [], "is_current": True}]


def test_a_check_changes_nothing_and_tells_by_its_exit_code(shell: Shell, tmp_path: Path):
    shell("migrate", "--url", URL)
    change(tmp_path, "delete from longshore_migration where number = ?", LAST.number)

    missing = shell("migrate", "--check", "--url", URL)
    again = shell("migrate", "--check", "--url", URL, "--json")

    assert (missing.exit_code, again.exit_code) == (8, 8)
    assert missing.stderr == (
        f"error: migration {LAST.name} is missing; run `longshore migrate`\n"
    )
    assert '"error": "schema"' in again.stderr


def test_an_older_version_goes_on_where_the_newer_schema_allows_it(
    shell: Shell, tmp_path: Path
):
    shell("migrate", "--url", URL)
    newer(tmp_path, works_with=LAST.number)

    assert shell("migrate", "--check", "--url", URL).exit_code == 0
    assert shell("submit", "noop", "--url", URL).exit_code == 0


def test_an_older_version_is_told_to_upgrade_where_not(shell: Shell, tmp_path: Path):
    shell("migrate", "--url", URL)
    newer(tmp_path, works_with=LAST.number + 1)

    for words in (["migrate"], ["migrate", "--check"], ["submit", "noop"], ["jobs", "list"]):
        result = shell(*words, "--url", URL)
        assert (result.exit_code, result.stdout) == (8, "")
        assert result.stderr.endswith("cannot work with that; upgrade longshore\n")


def test_who_is_in_the_way_is_waited_for_as_long_as_it_is_told(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    queue = Queue(f"sqlite:///{tmp_path}/jobs.db")
    queue.ask(
        lambda engine: engine.open_session(
            worker="old", queues=["default"], types=["noop"], lease=LEASE
        )
    )
    monkeypatch.setattr(schema_migration, "MIGRATIONS", [*MIGRATIONS, NEXT])

    patient = shell("migrate", "--patience", "100ms", "--url", URL)
    hasty = shell("submit", "noop", "--url", URL)

    assert (patient.exit_code, hasty.exit_code) == (7, 7)
    for result in (patient, hasty):
        assert f"older workers that cannot go on beside {NEXT.name} are" in result.stderr
    assert shell("migrate", "--patience", "soon", "--url", URL).exit_code == 2


UNRELEASED = (
    "update {table} set name = '0001_tables', checksum = 'x'",
    "insert into {table} (number, name, checksum, works_with, applied_at)"
    " select 2, '0002_submit', 'y', 2, applied_at from {table}",
)


@pytest.fixture(params=["sqlite", "postgres"])
def unreleased(request: pytest.FixtureRequest, shell: Shell, tmp_path: Path) -> Iterator[str]:
    """A store whose schema begins otherwise than that of every release."""
    if request.param == "sqlite":
        shell("migrate", "--url", URL)
        for statement in UNRELEASED:
            change(tmp_path, statement.format(table="longshore_migration"))
        yield URL
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create("unreleased")
    shell("migrate", "--url", url)
    asyncio.run(execute(url, *(one.format(table="longshore.migration") for one in UNRELEASED)))
    yield url
    server.drop("unreleased")


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


@pytest.mark.parametrize("words", [["migrate"], ["migrate", "--check"]], ids=" ".join)
def test_a_store_of_an_unreleased_version_is_refused_with_what_to_do(
    words: list[str], shell: Shell, unreleased: str
):
    result = shell(*words, "--url", unreleased)

    assert result.exit_code == 8
    assert result.stderr.splitlines()[-1] == (
        "error: the store was made by an unreleased version of longshore: its schema begins "
        "with 0001_tables and not with 0001_baseline; let that version finish its jobs, and "
        "start this one with a new store"
    )
