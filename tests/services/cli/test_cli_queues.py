"""Queues, workers and the schema."""

import json

from cli_steps import LEASE, Queue, Shell

from longshore.contract import Engine
from longshore.core.limit_settings import ENFORCED, Layer, QueueSettings
from longshore.records import queue_settings

NOTHING = dict.fromkeys({*ENFORCED, "aging_seconds"} - {"aging"})


def test_queues_are_counted_by_state(shell: Shell, queue: Queue):
    queue.submit(queue="mail")
    queue.submit(queue="mail", delay=60_000_000)
    queue.dead(queue="web")

    mail, web = shell.lines("queues", "list")

    assert (mail["queue"], mail["ready"], mail["scheduled"]) == ("mail", 1, 1)
    assert mail["oldest_ready_at"].endswith("Z")
    assert (web["queue"], web["dead"], web["oldest_ready_at"]) == ("web", 1, None)
    assert "mail" in shell("queues", "list").stdout


def test_a_paused_queue_says_so_until_it_is_resumed(shell: Shell, queue: Queue):
    queue.submit(queue="mail")

    paused = shell("queues", "pause", "mail")
    while_paused = shell.lines("queues", "list")
    resumed = shell("queues", "resume", "mail", "--json")

    assert paused.stdout == "paused queue mail\n"
    assert while_paused[0]["is_paused"] is True
    assert json.loads(resumed.stdout) == {"queue": "mail", "type": None, "is_paused": False}
    assert shell.lines("queues", "list")[0]["is_paused"] is False


def test_a_type_can_be_paused_everywhere_or_in_one_queue(shell: Shell, queue: Queue):
    everywhere = shell("queues", "pause", "--type", "mail.send")
    in_one = shell("queues", "pause", "bulk", "--type", "mail.send")

    assert everywhere.stdout == "paused type mail.send\n"
    assert in_one.stdout == "paused type mail.send in queue bulk\n"


def test_the_list_shows_which_types_are_paused_where(shell: Shell, queue: Queue):
    queue.submit(queue="mail")
    shell("queues", "pause", "--type", "mail.send")
    shell("queues", "pause", "bulk", "--type", "noop")

    bulk, mail = shell.lines("queues", "list")
    shown = shell("queues", "list").stdout

    assert (bulk["queue"], bulk["paused_types"]) == ("bulk", ["mail.send", "noop"])
    assert (mail["queue"], mail["paused_types"]) == ("mail", ["mail.send"])
    assert not bulk["is_paused"]
    assert "paused: mail.send, noop" in shown


def test_an_empty_name_pauses_nothing(shell: Shell, queue: Queue):
    assert shell("queues", "pause", "").exit_code == 2
    assert shell("queues", "pause", "--type", "").exit_code == 2
    assert shell.lines("queues", "list") == []


def test_pausing_nothing_is_a_usage_error(shell: Shell, queue: Queue):
    assert shell("queues", "pause").exit_code == 2
    assert shell("queues", "resume").exit_code == 2


async def open_worker(engine: Engine) -> int:
    session = await engine.open_session(
        worker="box:7", queues=["mail"], types=["mail.send"], lease=LEASE
    )
    return session.token


def test_live_workers_are_listed_with_what_they_serve(shell: Shell, queue: Queue):
    token = queue.ask(open_worker)

    (worker,) = shell.lines("workers", "list")

    assert (worker["token"], worker["worker"]) == (token, "box:7")
    assert (worker["queues"], worker["types"]) == (["mail"], ["mail.send"])
    assert "box:7" in shell("workers", "list").stdout


def test_a_worker_can_be_asked_to_drain(shell: Shell, queue: Queue):
    token = queue.ask(open_worker)

    result = shell("workers", "drain", token)

    assert result.exit_code == 0
    assert shell.lines("workers", "list")[0]["is_quiet"] is True


def test_draining_a_worker_that_is_not_there_is_not_found(shell: Shell, queue: Queue):
    assert shell("workers", "drain", 99).exit_code == 3


def test_migrate_makes_the_schema_once(shell: Shell):
    first = shell("migrate", "--json")
    second = shell("migrate")

    assert json.loads(first.stdout)["applied"]
    assert second.stdout == "the schema is up to date\n"


def test_migrate_check_changes_nothing(shell: Shell, tmp_path):
    absent = shell("migrate", "--check")
    (tmp_path / "empty.db").touch()
    empty = shell("migrate", "--check", "--url", "sqlite:///empty.db")
    shell("migrate")
    current = shell("migrate", "--check")

    assert absent.exit_code == 7
    assert empty.exit_code == 8
    assert "longshore migrate" in empty.stderr
    assert current.exit_code == 0
    assert [path.name for path in tmp_path.iterdir() if "jobs" in path.name] == []


def test_settings_of_a_queue_are_overridden_shown_and_given_back(shell: Shell, queue: Queue):
    declared = QueueSettings(max_running=10, rate=5.0)
    queue.ask(lambda engine: queue_settings.put(engine, "mail", Layer.DECLARED, declared))

    (changed,) = shell.lines(
        "queues", "set", "mail", "--max-running", 2, "--rate", "30/m", "--burst", 4
    )
    shown = shell("queues", "show", "mail").stdout
    (given_back,) = shell.lines("queues", "unset", "mail", "--max-running", "--burst")

    assert changed["settings"] == {**NOTHING, "max_running": 2, "rate": 0.5, "burst": 4}
    assert changed["declared"] == {**NOTHING, "max_running": 10, "rate": 5.0}
    assert changed["overridden"] == {**NOTHING, "max_running": 2, "rate": 0.5, "burst": 4}
    rows = [line.split() for line in shown.splitlines()]
    assert ["max", "running", "2", "override", "10"] in rows
    assert ["rate", "0.5/s", "override", "5/s"] in rows
    assert given_back["settings"] == {**NOTHING, "max_running": 10, "rate": 0.5}
    (bare,) = shell.lines("queues", "unset", "mail", "--all", "--declared")
    assert bare["settings"] == NOTHING
    assert queue.ask(lambda engine: queue_settings.every(engine)) == []


def test_settings_that_make_no_sense_are_refused_with_a_reason(shell: Shell, queue: Queue):
    refused = {
        ("set", "mail"): "say what to set",
        ("set", "mail", "--max-running", "0"): "whole number from 1",
        ("set", "mail", "--rate", "fast"): "is not a rate such as 100/s",
        ("set", "mail", "--burst", "5"): "burst says nothing without rate",
        ("set", "mail", "--order", "random"): "is not strict, aging, fair",
        ("set", "mail", "--aging", "5s"): "aging says nothing without the order aging",
        ("set", "not a name", "--rate", "5"): "queue 'not a name'",
        ("unset", "mail"): "say what to take away",
    }

    for words, reason in refused.items():
        result = shell("queues", *words)
        assert result.exit_code == 2, words
        assert reason in result.stderr
    assert queue.ask(lambda engine: queue_settings.every(engine)) == []


def test_the_order_of_a_queue_and_the_weights_of_tenants_are_set(shell: Shell, queue: Queue):
    (aging,) = shell.lines("queues", "set", "mail", "--order", "aging", "--aging", "90s")
    shown = shell("queues", "show", "mail").stdout
    (fair,) = shell.lines("queues", "set", "mail", "--order", "fair")
    shell("tenants", "create", "acme", "--weight", 2)
    (acme,) = shell.lines("tenants", "set", "acme", "--weight", 3)
    refused = shell("tenants", "set", "acme", "--weight", 0)

    assert (aging["settings"]["order"], aging["settings"]["aging_seconds"]) == ("aging", 90)
    assert ["aging", "1m30s", "override", "-"] in [line.split() for line in shown.splitlines()]
    assert fair["overridden"] == {**NOTHING, "order": "fair", "aging_seconds": 90}
    assert acme["weight"] == 3
    assert (refused.exit_code, "1<=x<=1000" in refused.stderr) == (2, True)
