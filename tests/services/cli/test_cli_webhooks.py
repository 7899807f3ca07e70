"""Webhook endpoints from the command line."""

import json

from cli_steps import Queue, Shell

URL = "https://example.com/hook"


def test_an_endpoint_is_made_shown_rotated_disabled_and_deleted(shell: Shell, queue: Queue):
    made = json.loads(shell("webhooks", "create", URL, "--event", "job.dead", "--json").stdout)
    name = made["id"]
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
    assert (disabled["disabled"], enabled["disabled"]) == ("by hand", None)
    assert (delivery["id"], delivery["event"]) == (begun, "webhook.test")
    assert replayed.exit_code == 4
    assert (deleted.exit_code, gone.exit_code) == (0, 3)
