"""Circuit breakers on the command line."""

import json

from cli_steps import Queue, Shell


def test_a_breaker_is_set_shown_reset_and_unset(shell: Shell, queue: Queue):
    done = shell("breakers", "set", "mail", "--failures", "5", "--cooldown", "1m", "--json")
    shown = shell("breakers", "show", "mail").stdout
    (listed,) = shell.lines("breakers", "list")
    reset = shell("breakers", "reset", "mail", "--json")
    shell("breakers", "unset", "mail", "--all")

    assert json.loads(done.stdout) == listed == json.loads(reset.stdout)
    assert (listed["type"], listed["phase"], listed["since"]) == ("mail", "closed", None)
    assert listed["overridden"]["cooldown_seconds"] == 60.0
    assert "override" in shown
    assert "1m" in shown
    assert shell.lines("breakers", "list") == []


def test_a_breaker_that_nothing_opens_is_refused(shell: Shell, queue: Queue):
    refused = shell("breakers", "set", "mail", "--probes", "2")

    assert refused.exit_code != 0
    assert "failures or a ratio" in refused.stderr
    assert shell("breakers", "set", "mail").exit_code == 2
