"""Webhook endpoints from the command line."""

import json

import pytest
from cli_steps import Queue, Shell

URL = "https://example.com/hook"


def test_an_endpoint_is_made_shown_rotated_disabled_and_deleted(shell: Shell, queue: Queue):
    made = json.loads(shell("webhooks", "create", URL, "--event", "job.dead", "--json").stdout)
    name = made["webhook"]["id"]
    listed = shell.lines("webhooks", "list")
    rotated = shell("webhooks", "rotate", name, "--grace", "1h").stdout.strip()
    sheet = shell("webhooks", "show", name).stdout
    disabled = json.loads(shell("webhooks", "disable", name, "--json").stdout)
    enabled = json.loads(shell("webhooks", "enable", name, "--json").stdout)
    begun = shell("webhooks", "test", name).stdout.strip()
    (delivery,) = shell.lines("webhooks", "deliveries", name)
    replayed = shell("webhooks", "replay", name, begun)
    deleted = shell("webhooks", "delete", name)
    gone = shell("webhooks", "show", name)

    assert made["secret"].startswith("whsec_")
    assert [one["events"] for one in listed] == [["job.dead"]]
    assert "secret" not in listed[0]
    assert rotated.startswith("whsec_")
    assert rotated != made["secret"]
    assert URL in sheet
    assert rotated not in sheet
    assert (disabled["is_disabled"], disabled["disabled_reason"]) == (True, "by hand")
    assert (enabled["is_disabled"], enabled["disabled_reason"]) == (False, None)
    assert (delivery["id"], delivery["event"]) == (begun, "webhook.test")
    assert replayed.exit_code == 4
    assert (deleted.exit_code, gone.exit_code) == (0, 3)


def test_a_url_that_leads_inward_is_refused_unless_the_settings_allow_its_network(
    shell: Shell, queue: Queue, monkeypatch: pytest.MonkeyPatch
):
    refused = shell("webhooks", "create", "http://10.1.2.3/hook")
    monkeypatch.setenv("LONGSHORE_WEBHOOKS_ALLOWED_NETWORKS", "10.1.0.0/16")
    allowed = shell("webhooks", "create", "http://10.1.2.3/hook")

    assert refused.exit_code == 2, refused.output
    assert "webhooks.allowed_networks" in refused.stderr
    assert allowed.exit_code == 0
