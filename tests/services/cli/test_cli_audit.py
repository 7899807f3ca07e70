"""Who did what, on the command line, and what becomes of a log that somebody touched."""

import json
import sqlite3
from pathlib import Path

import pytest
from cli_steps import Queue, Shell


@pytest.fixture
def noted(shell: Shell, queue: Queue) -> str:
    """The head of a log with three entries."""
    for name in ("mail", "reports", "mail"):
        shell("queues", "pause", name)
    queue.ask(lambda engine: engine.chain(limit=100))
    return shell("audit", "head").stdout.strip()


def tampered(queue: Queue, statement: str) -> None:
    with sqlite3.connect(queue.url.removeprefix("sqlite:///")) as db:
        assert db.execute(statement).rowcount > 0


def test_the_log_is_listed_exported_and_verified(
    shell: Shell, queue: Queue, noted: str, tmp_path: Path
):
    listed = shell.lines("audit", "list", "--subject", "mail")
    table = shell("audit", "list", "--action", "queue.*", "--limit", "1")
    whole = shell("audit", "verify", "--head", noted)
    file = tmp_path / "audit.jsonl"
    file.write_bytes(shell("audit", "export").stdout_bytes)
    from_file = shell.lines("audit", "verify", "--file", str(file), "--head", noted)
    file.write_text(file.read_text().replace("reports", "rep0rts"))
    forged = shell("audit", "verify", "--file", str(file), "--json")

    assert [one["number"] for one in listed] == [3, 1]
    assert listed[0]["actor"].startswith("cli ")
    assert "only the newest 1" in table.stderr
    assert whole.stdout == f"3 entries are whole, up to {noted}\n"
    assert from_file[0]["is_whole"] is True
    assert (forged.exit_code, json.loads(forged.stdout)["entry"]) == (1, 2)


@pytest.mark.parametrize(
    ("statement", "entry"),
    [
        ("update longshore_audit set actor = 'somebody' where number = 2", 2),
        ("update longshore_audit set at = at + 1 where number = 1", 1),
        ("delete from longshore_audit where number = 2", 2),
        ("delete from longshore_audit where number = 3", 3),
        ("update longshore_audit_standing set head = 2", 3),
        ("update longshore_audit_standing set anchor = 1", 2),
        ("delete from longshore_audit_standing", 1),
    ],
)
def test_whoever_touches_the_log_is_told_on(
    shell: Shell, queue: Queue, noted: str, statement: str, entry: int
):
    tampered(queue, statement)

    result = shell("audit", "verify", "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["entry"] == entry


def test_a_log_that_was_cut_at_its_end_is_told_on_by_the_head(
    shell: Shell, queue: Queue, noted: str
):
    tampered(queue, "delete from longshore_audit where number = 3")
    tampered(
        queue,
        "update longshore_audit_standing set head = 2,"
        " head_hash = (select hash from longshore_audit where number = 2)",
    )

    alone, against = shell("audit", "verify"), shell("audit", "verify", "--head", noted)

    assert alone.exit_code == 0
    assert (against.exit_code, against.stdout.splitlines()[0]) == (
        1,
        "entry 3: the log once went on to entry 3",
    )
    assert shell("audit", "verify", "--head", "3:ab").exit_code == 2
