"""Who did what, on the command line, and what becomes of a log that somebody touched."""

import json
import sqlite3
from pathlib import Path

import pytest
from cli_steps import Queue, Shell

from longshore.core.audit import Mark
from longshore.core.event import Name, expand
from longshore.core.retention import Retention


@pytest.fixture
def noted(shell: Shell, queue: Queue) -> str:
    """The head of a log with three entries."""
    for verb, name in (("pause", "mail"), ("pause", "reports"), ("resume", "mail")):
        shell("queues", verb, name)
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

    assert [one["id"] for one in listed] == ["3.0", "1.0"]
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


def test_a_head_that_cannot_be_compared_is_not_told_to_be_whole(
    shell: Shell, queue: Queue, noted: str
):
    first = Mark(1, bytes(32)).text
    keep = Retention(audit=0)
    queue.ask(lambda engine: engine.prune(keep, limit=100))
    end = shell("audit", "head").stdout.strip()

    older = shell("audit", "verify", "--keep", "0s", "--head", first, "--head", end)
    told = shell("audit", "verify", "--keep", "0s", "--head", first, "--json")
    known = shell("audit", "verify", "--keep", "0s", "--head", noted)

    assert older.exit_code == told.exit_code == 9
    assert older.stdout.splitlines() == [
        f"head {first}: cannot be compared, the log begins later",
        "nothing is wrong with the 1 entries that are left",
    ]
    document = json.loads(told.stdout)
    assert (document["is_whole"], document["not_compared"]) == (False, [first])
    assert known.exit_code == 0


def test_entries_that_should_still_be_there_are_missed(shell: Shell, queue: Queue, noted: str):
    queue.ask(lambda engine: engine.prune(Retention(audit=0), limit=100))

    result = shell("audit", "verify", "--head", noted)

    assert result.exit_code == 1
    assert "entry 3: entries up to this one should still be there: program " in result.stdout


def test_the_event_of_a_purge_names_the_caller_as_the_log_does(shell: Shell, queue: Queue):
    job_id = queue.dead()
    shell("dead", "purge", job_id, "--yes")

    queue.ask(lambda engine: engine.chain(limit=100))
    (item,) = shell.lines("audit", "list", "--action", "job.purge")
    batches = queue.ask(lambda engine: engine.events(after=0, limit=100))
    told = [one for batch in batches for one in expand(batch) if one.name is Name.PURGED]
    assert item["actor"].startswith("cli ")
    assert [one.details["who"] for one in told] == [item["actor"]]
