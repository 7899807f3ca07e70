"""Ordering keys on the command line."""

import json

from cli_steps import Queue, Shell

from longshore.core.state import Verb


def test_a_blocked_line_is_listed_explained_and_released(shell: Shell, queue: Queue):
    shell("queues", "set", "mail", "--on-dead", "block", "--max-running-per-key", "1")
    first = queue.submit(queue="mail", ordering_key="anna")
    behind = shell("submit", "noop", "{}", "--queue", "mail", "--ordering-key", "anna").stdout
    waits = shell("explain", behind.strip()).stdout
    queue.settle(first, Verb.KILL)

    listed = shell.lines("lines", "blocked")
    table = shell("lines", "blocked").stdout
    shown = json.loads(shell("lines", "show", "mail", "anna", "--json").stdout)
    why = shell("explain", behind.strip()).stdout
    elsewhere = shell("lines", "release", "mail", "anna", "--tenant", "acme")
    released = json.loads(shell("lines", "release", "mail", "anna", "--json").stdout)

    assert f"It waits for job {first}" in waits
    assert listed == [shown]
    assert (shown["queue"], shown["key"], shown["dead"]) == ("mail", "anna", [first])
    assert (shown["inside"], shown["parked"]) == (0, 1)
    assert first in table
    assert f"The dead job {first} blocks the ordering key anna" in why
    assert elsewhere.stdout == "no dead job blocks it\n"
    assert released["is_released"] is True
    assert shell.lines("lines", "blocked") == []
    assert queue.get(behind.strip()).parked is None


def test_what_a_dead_job_does_is_one_of_two_words(shell: Shell, queue: Queue):
    refused = shell("queues", "set", "mail", "--on-dead", "stop")

    assert refused.exit_code == 2
    assert "continue or block" in refused.stderr
