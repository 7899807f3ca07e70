"""Commands given the URL of a service: what needs the store itself is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_steps import Queue, Shell

SERVICE = "http://localhost:9"


@pytest.mark.parametrize("command", ["migrate", "scheduler", "dev", "api"])
def test_a_command_that_needs_the_store_itself_refuses_a_service(command: str, tmp_path: Path):
    words = [sys.executable, "-m", "longshore", "--url", SERVICE, command]
    ports = {"LONGSHORE_API_PORT": "0", "LONGSHORE_METRICS_PORT": "0"}
    refused = subprocess.run(
        words, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=os.environ | ports
    )

    assert refused.returncode == 2
    assert "needs the store itself" in refused.stderr


def test_webhooks_are_not_managed_over_the_contract(shell: Shell):
    refused = shell("--url", SERVICE, "--json", "webhooks", "list")

    assert refused.exit_code == 2
    assert json.loads(refused.stderr.splitlines()[-1])["error"] == "not_over_http"


def test_a_key_for_workers_is_narrowed_and_needs_no_tenant(shell: Shell, queue: Queue):
    made = shell(
        "keys", "create", "--scope", "work", "--queue", "mail", "--type", "email.*", "--json"
    )
    refused = shell("keys", "create", "--queue", "mail")

    (key,) = queue.ask(lambda engine: engine.keys())
    assert json.loads(made.stdout)["queues"] == ["mail"]
    assert (key.tenant, key.queues, key.types) == (None, ("mail",), ("email.*",))
    assert refused.exit_code == 2
