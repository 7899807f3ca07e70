"""Commands given the URL of a service: what needs the store itself is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_steps import Queue, Shell
from service_steps import serving

from longshore.contract import Engine
from longshore.core.account import NewKey, Scope
from longshore.records import api_keys
from longshore.runtime.keys import mint
from longshore_lab.experiments import __main__ as experiments

SERVICE = "http://localhost:9"


@pytest.mark.parametrize("command", ["migrate", "scheduler", "relay", "dev", "api"])
def test_a_command_that_needs_the_store_itself_refuses_a_service(command: str, tmp_path: Path):
    words = [sys.executable, "-m", "longshore", "--url", SERVICE]
    words += ["--api-key", "lsk_secret", command]
    ports = {"LONGSHORE_API_PORT": "0", "LONGSHORE_METRICS_PORT": "0"}
    refused = subprocess.run(
        words, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=os.environ | ports
    )

    (line,) = refused.stderr.splitlines()
    assert refused.returncode == 2
    assert "needs the store itself" in line
    assert "lsk_secret" not in refused.stdout + refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["bench"],
        ["prove"],
        ["chaos", "kill", "--yes"],
        ["chaos", "stop", "--yes"],
        ["chaos", "flap", "--yes"],
        ["chaos", "poison", "--yes"],
    ],
    ids=" ".join,
)
def test_a_trial_of_a_store_refuses_a_service_before_it_touches_anything(
    words: list[str], shell: Shell, tmp_path: Path
):
    refused = shell("--url", "http://lsk_secret@localhost:9", "--json", *words)

    (line,) = refused.stderr.splitlines()
    assert refused.exit_code == 2
    assert json.loads(line)["error"] == "not_over_http"
    assert "needs the store itself, and http://localhost:9 is a service" in line
    assert refused.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_refuses_a_service_before_it_touches_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out"

    code = experiments.main(["loss", "--quick", "--url", SERVICE, "--out", str(out)])

    assert code == 2
    assert "an experiment needs the store itself" in capsys.readouterr().err
    assert not out.exists()


def test_a_key_for_workers_is_narrowed_and_needs_no_tenant(shell: Shell, queue: Queue):
    made = shell(
        "keys", "create", "--scope", "work", "--queue", "mail", "--type", "email.*", "--json"
    )
    refused = shell("keys", "create", "--queue", "mail")

    (key,) = queue.ask(lambda engine: api_keys.every(engine))
    assert json.loads(made.stdout)["about"]["queues"] == ["mail"]
    assert (key.tenant, key.queues, key.types) == (None, ("mail",), ("email.*",))
    assert refused.exit_code == 2


def test_a_key_that_is_missing_or_lacks_a_scope_is_said_in_one_line(
    queue: Queue, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, all_tenants = mint(), mint()

    async def prepare(engine: Engine) -> None:
        await api_keys.add(engine, NewKey(id=own.id, digest=own.digest, scopes=(Scope.SUBMIT,)))
        await api_keys.add(
            engine,
            NewKey(
                id=all_tenants.id, digest=all_tenants.digest, tenant=None, scopes=(Scope.READ,)
            ),
        )

    with serving(queue.url) as url:
        queue.ask(prepare)
        keyless = shell("--url", url, "queues", "list")
        monkeypatch.setenv("LONGSHORE_KEY", own.text)
        narrow = shell("--url", url, "queues", "list")
        monkeypatch.setenv("LONGSHORE_KEY", all_tenants.text)
        unknown = shell("--url", url, "queues", "list", "--tenant", "nobody")
        astray = shell("--url", f"{url}/prefix", "queues", "list")

    assert (keyless.exit_code, narrow.exit_code) == (2, 2)
    assert "set LONGSHORE_KEY" in keyless.stderr
    assert "Bearer" not in keyless.stderr
    assert "the service has no such route" in astray.stderr
    assert narrow.stderr == "error: the key lacks the scope read\n"
    assert unknown.stderr == "error: no tenant has this name; create it first\n"


def test_a_worker_whose_key_may_not_declare_is_told_what_was_not_stored(
    queue: Queue, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = mint()
    (tmp_path / "declaring.py").write_text(
        "from longshore import Longshore\n\n"
        "app = Longshore()\n"
        'app.queue("mail", max_running=5)\n'
    )

    async def prepare(engine: Engine) -> None:
        await api_keys.add(
            engine, NewKey(id=own.id, digest=own.digest, tenant=None, scopes=(Scope.WORK,))
        )

    monkeypatch.setenv("LONGSHORE_KEY", own.text)
    with serving(queue.url) as url:
        queue.ask(prepare)
        words = [sys.executable, "-m", "longshore", "--url", url, "--app", "declaring:app"]
        refused = subprocess.run(
            [*words, "worker"],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env=os.environ | {"LONGSHORE_METRICS_PORT": "0"},
        )

    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "what the code declares (queues, breakers, schedules) was not stored" in line
    assert "the key lacks the scope declare" in line
