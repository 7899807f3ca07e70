"""`longshore migrate`: what it says, and the exit codes that deployments wait for."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from cli_steps import LEASE, Queue, Shell

from longshore.engines.sqlite.migrating import MIGRATIONS

URL = "sqlite:///jobs.db"
LAST = MIGRATIONS[-1]


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


def test_who_is_in_the_way_is_waited_for_as_long_as_it_is_told(shell: Shell, tmp_path: Path):
    queue = Queue(f"sqlite:///{tmp_path}/jobs.db")
    queue.ask(
        lambda engine: engine.open_session(
            worker="old", queues=["default"], types=["noop"], lease=LEASE
        )
    )
    change(tmp_path, "delete from longshore_migration where number = ?", LAST.number)
    change(tmp_path, "update longshore_session_level set level = ?", LAST.works_with - 1)

    patient = shell("migrate", "--patience", "100ms", "--url", URL)
    hasty = shell("submit", "noop", "--url", URL)

    assert (patient.exit_code, hasty.exit_code) == (7, 7)
    for result in (patient, hasty):
        assert f"older workers that cannot go on beside {LAST.name} are" in result.stderr
    assert shell("migrate", "--patience", "soon", "--url", URL).exit_code == 2
