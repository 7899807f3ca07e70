"""Commands for tenants and keys say and do the same in front of a service."""

import json
from collections.abc import Generator

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving
from test_cli_over_http import the_same

from longshore.core import account
from longshore.records import api_keys


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


def test_tenants_are_listed_and_shown_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    shell("tenants", "create", "acme", "--rate", "50", "--max-streams", "3")
    shell("tenants", "set", "acme", "--disable", "--weight", "3")

    assert "50 jobs/s, 50 at once" in the_same(shell, service, "tenants", "list")
    assert "disabled" in the_same(shell, service, "tenants", "show", "acme")
    assert "default" in the_same(shell, service, "tenants", "show", "default")


def test_tenants_are_managed_through_a_service(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    created = service("tenants", "create", "acme", "--rate", "50", "--burst", "200")
    again = service("tenants", "create", "acme", "--rate", "50", "--burst", "200")
    service("tenants", "set", "acme", "--weight", "3", "--require-idempotency-key")
    service("tenants", "set", "acme", "--disable", "--rate", "none")
    (acme,) = shell.lines("tenants", "show", "acme")
    deleted = service("tenants", "delete", "acme")

    assert created.stdout == again.stdout == "created acme\n"
    assert (acme["weight"], acme["requires_idempotency_key"]) == (3, True)
    assert (acme["is_disabled"], acme["rate"], acme["burst"]) == (True, None, None)
    assert deleted.stdout == "deleted acme\n"
    assert [one["name"] for one in shell.lines("tenants", "list")] == ["default"]


@pytest.mark.parametrize(
    "words",
    [
        ("tenants", "create", "a b"),
        ("tenants", "create", "acme", "--rate", "3"),
        ("tenants", "create", "new", "--rate", "0"),
        ("tenants", "create", "new", "--burst", "5"),
        ("tenants", "set", "acme", "--burst", "5"),
        ("tenants", "set", "nobody", "--disable"),
        ("tenants", "show", "nobody"),
        ("tenants", "show", "no body"),
        ("tenants", "delete", "nobody"),
        ("tenants", "delete", "default"),
        ("tenants", "delete", "acme"),
        ("keys", "create", "--tenant", "nobody"),
        ("keys", "create", "--scope", "admin"),
        ("keys", "create", "--queue", "mail"),
        ("keys", "create", "--expires", "0"),
        ("keys", "rotate", "unknown"),
        ("keys", "revoke", "unknown"),
    ],
)
def test_a_mistake_with_tenants_and_keys_has_the_same_exit_code(
    shell: Shell, service: ServiceShell, queue: Queue, words: tuple[str, ...]
) -> None:
    shell("tenants", "create", "acme")
    queue.submit(tenant="acme")
    before = shell.lines("tenants", "list")

    the_same(shell, service, *words)

    assert shell(*words).exit_code != 0
    assert shell.lines("tenants", "list") == before
    assert shell.lines("keys", "list") == []


def test_keys_are_listed_the_same(shell: Shell, queue: Queue) -> None:
    operator = shell("keys", "create", "--all-tenants", "--scope", "admin").stdout.strip()
    shell("tenants", "create", "acme")
    ended = shell("keys", "create", "--tenant", "acme", "--label", "ci").stdout.strip()
    shell("keys", "create", "--scope", "work", "--queue", "mail", "--type", "email.*")
    shell("keys", "revoke", ended)

    with serving(queue.url) as url:
        service = ServiceShell(url)
        key = ("--api-key", operator)
        # What is noted of the use of the operator's own key comes later, and is not compared.
        beside = shell("keys", "list", "--tenant", "acme").stdout
        over = service(*key, "keys", "list", "--tenant", "acme").stdout
        (listed,) = service.lines(*key, "keys", "list", "--tenant", "acme")
        everybodys = service.lines(*key, "keys", "list")

    assert over == beside
    assert [listed] == shell.lines("keys", "list", "--tenant", "acme")
    assert [one["state"] for one in everybodys] == ["live", "revoked", "live"]
    assert everybodys[2]["types"] == ["email.*"]


def test_keys_are_made_rotated_and_revoked_through_a_service(
    shell: Shell, queue: Queue
) -> None:
    operator = shell("keys", "create", "--all-tenants", "--scope", "admin").stdout.strip()
    shell("tenants", "create", "acme")

    with serving(queue.url) as url:
        service = ServiceShell(url)
        key = ("--api-key", operator)
        made = service(*key, "keys", "create", "--tenant", "acme", "--expires", "90d")
        told = json.loads(service(*key, "keys", "create", "--label", "x", "--json").stdout)
        text = made.stdout.strip()
        renewed = service(*key, "keys", "rotate", text, "--grace", "0").stdout.strip()
        revoked = service(*key, "keys", "revoke", told["about"]["id"])

    assert "not shown again" in made.stderr
    old, new = account.parse(text), account.parse(renewed)
    assert old is not None
    assert new is not None
    access = queue.ask(lambda engine: api_keys.find_access(engine, old.id))
    now = queue.ask(lambda engine: engine.now())
    assert new.id == old.id
    assert account.admits(access, new.secret, now)
    assert not account.admits(access, old.secret, now)
    assert (access.key.tenant, access.key.expires_at is not None) == ("acme", True)
    assert revoked.stdout == f"revoked {told['about']['id']}\n"
    assert told["key"].split("_")[1] == told["about"]["id"]


def test_a_tenants_own_key_manages_neither_tenants_nor_keys(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    scopes = ("--scope", "operate", "--scope", "read", "--scope", "submit")
    key = ("--api-key", shell("keys", "create", *scopes).stdout.strip())

    for words in (("tenants", "list"), ("keys", "list"), ("keys", "create")):
        refused = service(*key, *words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "scope" in refused.stderr
