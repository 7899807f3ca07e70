"""Tenants and API keys."""

import json

import pytest
from cli_steps import Queue, Shell

from longshore.core import account
from longshore.core.account import Scope
from longshore.records import api_keys
from longshore.testing.factories import DAY, HOUR


def test_a_tenant_is_created_shown_and_listed(shell: Shell, queue: Queue):
    created = shell("tenants", "create", "acme", "--rate", "50", "--require-idempotency-key")

    acme, default = shell.lines("tenants", "list")
    (shown,) = shell.lines("tenants", "show", "acme")

    assert created.stdout == "created acme\n"
    assert acme == shown
    assert (acme["rate"], acme["burst"], acme["requires_idempotency_key"]) == (50.0, None, True)
    assert acme["created_at"].endswith("Z")
    assert (default["name"], default["created_at"]) == ("default", None)
    assert "50 jobs/s, 50 at once" in shell("tenants", "list").stdout
    assert "required" in shell("tenants", "show", "acme").stdout


def test_only_what_is_said_of_a_tenant_is_changed(shell: Shell, queue: Queue):
    shell("tenants", "create", "acme", "--rate", "50", "--burst", "200")

    disabled = shell("tenants", "set", "acme", "--disable")
    (after_one,) = shell.lines("tenants", "show", "acme")
    shell("tenants", "set", "acme", "--enable", "--rate", "none")
    (after_two,) = shell.lines("tenants", "show", "acme")

    assert disabled.stdout == "changed acme\n"
    assert (after_one["is_disabled"], after_one["rate"], after_one["burst"]) == (True, 50, 200)
    assert (after_two["is_disabled"], after_two["rate"], after_two["burst"]) == (
        False,
        None,
        None,
    )


def test_the_default_tenant_can_be_changed_but_not_deleted(shell: Shell, queue: Queue):
    assert shell("tenants", "set", "default", "--rate", "5").exit_code == 0
    assert shell.lines("tenants", "list")[0]["rate"] == 5.0

    refused = shell("tenants", "delete", "default")

    assert refused.exit_code == 2
    assert "always there" in refused.stderr


def test_a_tenant_with_jobs_is_not_deleted(shell: Shell, queue: Queue):
    shell("tenants", "create", "acme")
    shell("tenants", "create", "empty")
    queue.submit(tenant="acme")

    refused = shell("tenants", "delete", "acme")
    deleted = shell("tenants", "delete", "empty")

    assert (refused.exit_code, deleted.exit_code) == (4, 0)
    assert "1 jobs" in refused.stderr
    assert [one["name"] for one in shell.lines("tenants", "list")] == ["acme", "default"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("tenants", "create", "a b"), 2),
        (("tenants", "create", "default", "--rate", "3"), 2),
        (("tenants", "create", "acme", "--rate", "fast"), 2),
        (("tenants", "create", "acme", "--rate", "nan"), 2),
        (("tenants", "create", "acme", "--rate", "0"), 2),
        (("tenants", "create", "acme", "--burst", "5"), 2),
        (("tenants", "set", "default"), 2),
        (("tenants", "set", "acme", "--disable"), 3),
        (("tenants", "show", "acme"), 3),
        (("tenants", "delete", "acme"), 3),
        (("keys", "create", "--tenant", "acme"), 3),
        (("keys", "create", "--tenant", "default", "--all-tenants"), 2),
        (("keys", "create", "--scope", "admin"), 2),
        (("keys", "create", "--scope", "everything"), 2),
        (("keys", "create", "--expires", "0"), 2),
        (("keys", "create", "--label", "a\nb"), 2),
        (("keys", "rotate", "unknown"), 3),
        (("keys", "revoke", "unknown"), 3),
    ],
)
def test_a_mistake_changes_nothing(
    shell: Shell, queue: Queue, words: tuple[str, ...], code: int
):
    result = shell(*words)

    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert [one["name"] for one in shell.lines("tenants", "list")] == ["default"]
    assert shell.lines("keys", "list") == []


def test_a_new_key_is_alone_on_standard_output_and_works(shell: Shell, queue: Queue):
    created = shell("keys", "create", "--label", "ci", "--expires", "90d")

    credential = account.parse(created.stdout.removesuffix("\n"))
    assert credential is not None
    access = queue.ask(lambda engine: api_keys.find_access(engine, credential.id))
    now = queue.ask(lambda engine: engine.now())
    assert account.admits(access, credential.secret, now)
    assert access.key.scopes == (Scope.SUBMIT, Scope.READ)
    assert (access.key.tenant, access.key.label) == ("default", "ci")
    assert access.key.expires_at == access.key.created_at + 90 * DAY
    assert credential.secret not in created.stderr
    assert "not shown again" in created.stderr


def test_keys_are_listed_without_their_secrets(shell: Shell, queue: Queue):
    made = json.loads(
        shell("keys", "create", "--all-tenants", "--scope", "admin", "--json").stdout
    )

    (listed,) = shell.lines("keys", "list")
    shown = shell("keys", "list").stdout

    assert listed == made["about"]
    assert (listed["tenant"], listed["scopes"], listed["state"]) == (None, ["admin"], "live")
    assert made["key"].split("_")[2] not in shown
    assert "(all)" in shown
    assert shell.lines("keys", "list", "--tenant", "default") == []


def test_a_rotated_key_keeps_its_id_and_for_a_day_its_old_secret(shell: Shell, queue: Queue):
    old = shell("keys", "create").stdout.strip()
    key_id = old.split("_")[1]

    new = shell("keys", "rotate", key_id).stdout.strip()

    access = queue.ask(lambda engine: api_keys.find_access(engine, key_id))
    now = queue.ask(lambda engine: engine.now())
    secrets = [text.split("_")[2] for text in (old, new)]
    assert new.split("_")[1] == key_id
    assert [account.admits(access, one, now) for one in secrets] == [True, True]
    assert [account.admits(access, one, now + DAY + HOUR) for one in secrets] == [False, True]


def test_a_key_can_be_rotated_so_that_the_old_secret_ends_now(shell: Shell, queue: Queue):
    old = shell("keys", "create").stdout.strip()
    key_id = old.split("_")[1]

    shell("keys", "rotate", key_id, "--grace", "0")

    access = queue.ask(lambda engine: api_keys.find_access(engine, key_id))
    now = queue.ask(lambda engine: engine.now())
    assert not account.admits(access, old.split("_")[2], now)


def test_a_revoked_key_is_listed_as_such_and_cannot_be_rotated(shell: Shell, queue: Queue):
    text = shell("keys", "create").stdout.strip()
    key_id = text.split("_")[1]

    revoked = shell("keys", "revoke", text)
    again = shell("keys", "revoke", key_id)
    rotated = shell("keys", "rotate", key_id)

    assert revoked.stdout == again.stdout == f"revoked {key_id}\n"
    assert rotated.exit_code == 4
    assert rotated.stdout == ""
    (listed,) = shell.lines("keys", "list")
    assert listed["state"] == "revoked"
    assert "revoked now" in shell("keys", "list").stdout


def test_a_key_past_its_time_is_listed_as_expired(shell: Shell, queue: Queue):
    shell("keys", "create", "--expires", "1us")

    (listed,) = shell.lines("keys", "list")

    assert listed["state"] == "expired"
