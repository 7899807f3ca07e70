"""No mistake of a user ends in a traceback; each is one line and an exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_steps import Queue, Shell

from longshore import errors
from longshore.cli import exit_status
from longshore.cli.main import COMMANDS
from longshore.testing.factories import a_job
from longshore.worker.lookout import EXIT_STUCK
from longshore.worker.supervise import EXIT_CONFIG, EXIT_WORN_OUT

UNKNOWN = "01900000-0000-7000-8000-000000000000"
LONGSHORE = [sys.executable, "-m", "longshore"]

MISTAKES = {
    "no command": (["jbos"], 2, "did you mean 'jobs'?"),
    "no subcommand": (["jobs", "lst"], 2, "did you mean 'list'?"),
    "no option": (["jobs", "list", "--nope"], 2, "--nope"),
    "malformed id": (["jobs", "show", "abc"], 2, "not a job id: 'abc'"),
    "id of another version": (["jobs", "show", UNKNOWN.replace("-7", "-4")], 2, "not a job id"),
    "unknown id": (["jobs", "show", UNKNOWN], 3, f"no job has the id {UNKNOWN}"),
    "cancel of an unknown id": (["jobs", "cancel", UNKNOWN], 3, "no job has"),
    "retry of an unknown id": (["jobs", "retry", UNKNOWN], 3, "no job has"),
    "wait for an unknown id": (["jobs", "wait", UNKNOWN], 3, "no job has"),
    "replay of an unknown id": (["dead", "replay", UNKNOWN], 3, "no job has"),
    "purge of an unknown id": (["dead", "purge", UNKNOWN], 3, "no job has"),
    "no ids": (["jobs", "cancel"], 2, "ID"),
    "state that is none": (["jobs", "list", "--state", "asleep"], 2, "asleep"),
    "limit of nothing": (["jobs", "list", "--limit", "0"], 2, "--limit"),
    "broken JSON": (["submit", "t", '{"a": '], 2, "payload"),
    "JSON that is no object": (["submit", "t", "[1]"], 2, "not a JSON object"),
    "NaN": (["submit", "t", '{"a": NaN}'], 2, "payload"),
    "a key twice": (["submit", "t", '{"a": 1, "a": 2}'], 2, "twice"),
    "a word twice": (["submit", "t", "a=1", "a=2"], 2, "twice"),
    "a word without value": (["submit", "t", "a"], 2, "key=value"),
    "lone surrogate": (["submit", "t", "a=\udcff"], 2, "payload"),
    "lone surrogate in JSON": (["submit", "t", '{"a": "\udcff"}'], 2, "payload"),
    "too deep": (["submit", "t", '{"a":' * 40 + "1" + "}" * 40], 2, "deep"),
    "far too deep": (["submit", "t", "a=" + "[" * 50_000], 0, ""),
    "payload file missing": (["submit", "t", "@nope.json"], 2, "cannot read nope.json"),
    "payload file a folder": (["submit", "t", "@."], 2, "cannot read"),
    "type with a space": (["submit", "a b"], 2, "type"),
    "queue with a comma": (["submit", "t", "--queue", "a,b"], 2, "queue"),
    "priority out of range": (["submit", "t", "--priority", "12"], 2, "priority"),
    "no attempts": (["submit", "t", "--max-attempts", "0"], 2, "max_attempts"),
    "delay without unit": (["submit", "t", "--delay", "5"], 2, "forget the unit"),
    "endless delay": (["submit", "t", "--delay", "99999d"], 2, "delay"),
    "time without offset": (["submit", "t", "--run-at", "2030-01-01T00:00"], 2, "no offset"),
    "no time": (["submit", "t", "--run-at", "tomorrow"], 2, "tomorrow"),
    "time and delay": (
        ["submit", "t", "--run-at", "2030-01-01T00:00Z", "--delay", "1s"],
        2,
        "not both",
    ),
    "URL without scheme": (["queues", "list", "--url", "jobs.db"], 2, "no engine for"),
    "URL of nothing": (["queues", "list", "--url", "sqlite://"], 2, "names no file"),
    "URL of another engine": (
        ["queues", "list", "--url", "redis://h"],
        2,
        "no engine for redis",
    ),
    "URL with an odd option": (["queues", "list", "--url", "sqlite:///x?y=1"], 2, "y=1"),
    "store that ends with us": (["submit", "t", "--url", "sqlite://:memory:"], 2, "dev"),
    "store that is not there": (["jobs", "list", "--url", "sqlite:///no.db"], 7, "no queue at"),
    "store in a file": (["submit", "t", "--url", "sqlite:///a-file/x.db"], 7, "a-file"),
    "store that is a folder": (["jobs", "list", "--url", "sqlite:///."], 7, ""),
    "store that is no database": (["jobs", "list", "--url", "sqlite:///a-file"], 7, "a-file"),
    "app that is no place": (["submit", "t", "--app", "no-place"], 2, "shop.jobs:app"),
    "app without module": (["submit", "t", "--app", "nowhere:app"], 2, "no module 'nowhere'"),
    "app without submodule": (["submit", "t", "--app", "json.x:app"], 2, "json.x"),
    "app without attribute": (["submit", "t", "--app", "json:app"], 2, "'app'"),
    "app that is none": (["submit", "t", "--app", "json:dumps"], 2, "no Longshore app"),
    "app that raises": (["submit", "t", "--app", "raises:app"], 2, "ZeroDivisionError"),
    "app with a typing error": (["submit", "t", "--app", "typo:app"], 2, "SyntaxError"),
    "app that needs a module": (["submit", "t", "--app", "needs:app"], 2, "'absent_thing'"),
    "app with a near name": (["submit", "t", "--app", "good:ap"], 2, "did you mean good:app?"),
    "settings file missing": (["jobs", "list", "--config", "no.toml"], 2, "no.toml"),
    "settings file broken": (["jobs", "list", "--config", "a-file"], 2, "not valid TOML"),
    "settings file a folder": (["jobs", "list", "--config", "."], 2, ""),
    "pause of nothing": (["queues", "pause"], 2, "name a queue"),
    "worker that is not there": (["workers", "drain", "5"], 3, "session 5"),
    "rate of nothing": (["dead", "replay", "--all", "--rate", "0"], 2, "--rate"),
}


@pytest.fixture
def surroundings(tmp_path: Path, queue: Queue) -> Path:
    (tmp_path / "a-file").write_text("this is no database and no settings file" * 30)
    (tmp_path / "raises.py").write_text("1 / 0\n")
    (tmp_path / "typo.py").write_text("app = = 1\n")
    (tmp_path / "needs.py").write_text("import absent_thing\n")
    (tmp_path / "good.py").write_text("from longshore import Longshore\napp = Longshore()\n")
    return tmp_path


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_with_a_line_and_a_code(
    shell: Shell, surroundings: Path, name: str
):
    words, code, complaint = MISTAKES[name]

    result = shell(*words)

    assert result.exit_code == code, result.output
    assert complaint in result.stderr


@pytest.mark.parametrize("words", [["jobs", "show", UNKNOWN], ["submit", "t", "[1]"]])
def test_an_error_is_one_line_of_json_for_programs(
    shell: Shell, queue: Queue, words: list[str]
):
    result = shell("--json", *words)

    document = json.loads(result.stderr)
    assert document["message"]
    assert document["error"] in {"job_not_found", "payload"}
    assert result.stdout == ""


def test_an_error_is_one_line_even_if_its_message_has_several(shell: Shell, queue: Queue):
    result = shell("submit", "t", "--app", "json:\n\n")

    assert len(result.stderr.splitlines()) == 1


def test_debug_shows_where_an_error_came_from(surroundings: Path):
    shown = subprocess.run(
        [*LONGSHORE, "--debug", "submit", "t", "--app", "raises:app"],
        cwd=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "ZeroDivisionError" in shown.stderr
    assert "Traceback" in shown.stderr


def test_wrong_settings_in_the_environment_are_a_line(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LONGSHORE_WORKER_CONCURENCY", "4")

    result = shell("jobs", "list")

    assert result.exit_code == 2
    assert "did you mean LONGSHORE_WORKER_CONCURRENCY?" in result.stderr


def test_a_reader_that_leaves_early_is_no_error(queue: Queue, tmp_path: Path):
    queue.ask(lambda engine: engine.submit([a_job() for _ in range(2_000)]))
    command = f"{sys.executable} -m longshore jobs list --limit 2000 --json | head -n 1"

    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_a_line(shell: Shell, tmp_path: Path):
    tmp_path.chmod(0o500)

    assert shell("submit", "t").exit_code == 7


def test_every_error_class_has_an_exit_code():
    found = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    classes = [kind for kind in found if issubclass(kind, errors.LongshoreError)]

    assert len(classes) > 15
    for kind in classes:
        code = exit_status.exit_code(kind.__new__(kind))
        assert code not in (exit_status.Exit.DONE, exit_status.Exit.INTERRUPTED)


def test_a_worn_out_worker_leaves_with_the_code_its_supervisor_waits_for():
    assert exit_status.Exit.WORN_OUT == EXIT_WORN_OUT
    assert exit_status.Exit.USAGE == EXIT_CONFIG
    assert exit_status.Exit.STUCK == EXIT_STUCK


def test_every_exit_code_is_explained():
    assert set(exit_status.MEANINGS) == set(exit_status.Exit)


@pytest.mark.parametrize("name", [*COMMANDS, "jobs list", "dead replay", "schedules add"])
def test_every_command_explains_itself(shell: Shell, name: str):
    result = shell(*name.split(), "--help")

    assert result.exit_code == 0
    assert "Usage: " in result.stdout
