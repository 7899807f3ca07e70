"""Commands for webhooks say and do the same in front of a service as beside its store."""

import json
from collections.abc import Generator

import pytest
from cli_steps import Queue, Shell
from service_steps import ServiceShell, serving
from test_cli_over_http import the_same

from longshore.core.state import Verb
from longshore.records import webhooks

URL = "https://example.com/hook"
NOBODY = "wh_" + "0" * 24


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


def made(shell: Shell, *options: str) -> str:
    """The id of a new endpoint."""
    told = json.loads(shell("webhooks", "create", URL, *options, "--json").stdout)
    return told["webhook"]["id"]


def test_endpoints_and_deliveries_are_listed_and_shown_the_same(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    shell("tenants", "create", "acme")
    ours = made(shell, "--event", "job.dead", "--queue", "mail", "--description", "ops")
    theirs = made(shell, "--tenant", "acme")
    shell("webhooks", "disable", theirs, "--reason", "moved away")
    done = shell("webhooks", "test", ours).stdout.strip()
    queue.settle(done, Verb.SUCCEED, result=b'{"status":204}')
    shell("webhooks", "test", ours)

    listed = the_same(shell, service, "webhooks", "list")
    assert "job.dead" in listed
    assert "disabled: moved away" in listed
    assert ours not in the_same(shell, service, "webhooks", "list", "--tenant", "acme")
    assert "ops" in the_same(shell, service, "webhooks", "show", ours)
    assert "moved away" in the_same(shell, service, "webhooks", "show", theirs)
    deliveries = the_same(shell, service, "webhooks", "deliveries", ours)
    assert deliveries.count("webhook.test") == 2
    words = ("webhooks", "deliveries", ours, "--state", "succeeded", "--limit", "1")
    assert done in the_same(shell, service, *words)


def test_endpoints_are_managed_through_a_service(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    shell("tenants", "create", "acme")
    filters = ("--event", "job.dead", "--queue", "mail", "--type", "mail.send")

    created = service("webhooks", "create", URL, "--tenant", "acme", *filters)
    (endpoint,) = queue.ask(lambda engine: webhooks.every(engine))
    rotated = service("webhooks", "rotate", endpoint.id, "--grace", "1h")
    (renewed,) = queue.ask(lambda engine: webhooks.every(engine))
    (disabled,) = service.lines("webhooks", "disable", endpoint.id, "--reason", "moved")
    (enabled,) = service.lines("webhooks", "enable", endpoint.id)
    begun = service("webhooks", "test", endpoint.id).stdout.strip()
    waiting = service("webhooks", "replay", endpoint.id, begun)
    queue.settle(begun, Verb.SUCCEED)
    replayed = service("webhooks", "replay", endpoint.id, begun).stdout.strip()
    (again, first) = shell.lines("webhooks", "deliveries", endpoint.id)
    deleted = service("webhooks", "delete", endpoint.id)

    assert (endpoint.tenant, endpoint.url, endpoint.events) == ("acme", URL, ("job.dead",))
    assert (endpoint.queues, endpoint.types) == (("mail",), ("mail.send",))
    assert created.stdout.strip() == endpoint.secrets[0].text
    assert "not shown again" in created.stderr
    assert [one.text for one in renewed.secrets] == [
        rotated.stdout.strip(),
        created.stdout.strip(),
    ]
    assert (disabled["is_disabled"], disabled["disabled_reason"]) == (True, "moved")
    assert not enabled["is_disabled"]
    assert waiting.exit_code == 4
    assert (first["id"], again["id"]) == (begun, replayed)
    assert deleted.stdout == f"deleted {endpoint.id}\n"
    assert shell.lines("webhooks", "list") == []


def test_a_secret_is_shown_by_what_makes_it_and_nowhere_else(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    told = json.loads(service("webhooks", "create", URL, "--json").stdout)
    name = told["webhook"]["id"]

    assert told["secret"].startswith("whsec_")
    for words in (("list",), ("show", name), ("deliveries", name), ("disable", name)):
        assert "whsec_" not in service("webhooks", *words, "--json").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("create", "ftp://example.com"),
        ("create", URL, "--event", "job.unheard"),
        ("show", NOBODY),
        ("show", "nonsense"),
        ("rotate", NOBODY),
        ("disable", NOBODY),
        ("delete", NOBODY),
        ("test", NOBODY),
        ("deliveries", NOBODY),
        ("replay", NOBODY, "00000000-0000-7000-8000-000000000000"),
        ("replay", "ENDPOINT", "00000000-0000-7000-8000-000000000000"),
        ("replay", NOBODY, "nonsense"),
    ],
)
def test_a_mistake_with_a_webhook_has_the_same_exit_code(
    shell: Shell, service: ServiceShell, queue: Queue, words: tuple[str, ...]
) -> None:
    endpoint = made(shell)
    words = tuple(word.replace("ENDPOINT", endpoint) for word in words)

    the_same(shell, service, "webhooks", *words)

    assert shell("webhooks", *words).exit_code in (2, 3)
    assert len(shell.lines("webhooks", "list")) == 1


def test_a_tenants_key_manages_the_endpoints_of_its_tenant_alone(
    shell: Shell, service: ServiceShell, queue: Queue
) -> None:
    shell("tenants", "create", "acme")
    theirs = made(shell)
    scopes = ("--scope", "operate", "--scope", "read")
    key = ("--api-key", shell("keys", "create", "--tenant", "acme", *scopes).stdout.strip())

    created = service(*key, "webhooks", "create", URL)
    listed = service(*key, "webhooks", "list", "--json")
    other = service(*key, "webhooks", "show", theirs)

    assert (created.exit_code, other.exit_code) == (0, 3)
    assert [json.loads(line)["tenant"] for line in listed.stdout.splitlines()] == ["acme"]
