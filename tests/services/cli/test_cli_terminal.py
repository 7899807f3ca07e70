"""What a person sees on a terminal, as opposed to a pipe."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from cli_steps import Queue

from longshore.core.state import Verb


def on_a_terminal(folder: Path, *words: str, columns: int = 80) -> str:
    """What the command shows on a terminal."""
    master, slave = pty.openpty()
    environ = {**os.environ, "COLUMNS": f"{columns}", "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "longshore", *words], cwd=folder, env=environ, stdout=slave
    )
    os.close(slave)
    shown = b""
    with process, os.fdopen(master, "rb", buffering=0) as terminal:
        try:
            while chunk := terminal.read(4_096):
                shown += chunk
        except OSError:
            # Linux reports the end of a terminal as an error.
            pass
    assert process.returncode == 0
    return shown.decode()


def test_an_id_stays_whole_and_the_table_within_the_screen(queue: Queue, tmp_path: Path):
    long = "a.very.long.type.name." * 5
    job_id = queue.submit(type=long[:120], queue="some.queue.of.ours")

    shown = on_a_terminal(tmp_path, "jobs", "list")

    assert job_id in shown
    assert "\x1b[1m" in shown
    assert max(len(line) for line in shown.splitlines()[1:]) <= 80


def test_markup_and_escapes_of_a_task_stay_text(queue: Queue, tmp_path: Path):
    job_id = queue.submit()
    queue.settle(job_id, Verb.KILL, reason="\x1b[2J[red]x[/red]\nsecond line")

    shown = on_a_terminal(tmp_path, "dead", "list")

    assert "\x1b[2J" not in shown
    assert "[red]x[/red]" in shown


def test_a_narrow_terminal_gets_whole_ids_and_words(queue: Queue, tmp_path: Path):
    job_id = queue.submit(type="mail.send", queue="some.queue.of.ours")

    shown = on_a_terminal(tmp_path, "jobs", "list", columns=40)

    assert job_id in shown
    assert "mail.send" in shown
    assert "some.queue.of.ours" in shown


def test_no_color_is_heeded(queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    coloured = on_a_terminal(tmp_path, "doctor")
    monkeypatch.setenv("NO_COLOR", "1")

    assert "\x1b[32m" in coloured
    assert "\x1b[" not in on_a_terminal(tmp_path, "doctor")
