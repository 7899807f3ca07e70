"""`longshore chaos` hits workers of its own store on this machine, and nothing else."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.cli import victims
from longshore.engine import SessionView
from longshore.errors import NotFoundError

PATIENCE = 60.0


def a_session(worker: str, *, opened_at: int | None = None) -> SessionView:
    at = time.time_ns() // 1_000 if opened_at is None else opened_at
    return SessionView(
        token=1,
        worker=worker,
        queues=("default",),
        types=("noop",),
        opened_at=at,
        renewed_at=at,
        expires_at=at,
        holding=3,
    )


def test_only_a_process_of_this_machine_that_is_older_than_its_session_may_be_hit():
    here, sleeper = socket.gethostname(), subprocess.Popen(["sleep", "60"])
    try:
        found, reasons = victims.on_this_machine(
            [
                a_session(f"{here}:{sleeper.pid}"),
                a_session(f"{here}:{sleeper.pid}", opened_at=1_000_000),
                a_session(f"elsewhere:{sleeper.pid}"),
                a_session("mail-worker"),
                a_session(f"{here}:1"),
                a_session(f"{here}:{os.getpid()}"),
                a_session(f"{here}:4194999"),
            ]
        )
    finally:
        sleeper.kill()
        sleeper.wait()

    assert [one.pid for one in found] == [sleeper.pid]
    assert [one.rpartition(": ")[2] for one in reasons] == [
        "its process is gone",
        "runs on another machine",
        "has a name of its own, which does not tell its process",
        "its process is gone",
        "its process is gone",
        "its process is gone",
    ]


def test_nobody_to_hit_is_said_with_the_reasons():
    with pytest.raises(NotFoundError, match="mail-worker: has a name of its own"):
        victims.chosen(*victims.on_this_machine([a_session("mail-worker")]), None)


def longshore(folder: Path, *words: str) -> list[dict[str, Any]]:
    ended = subprocess.run(
        [sys.executable, "-m", "longshore", "--url", "sqlite:///jobs.db", "--json", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[dict[int, "subprocess.Popen[bytes]"]]:
    """Two of them, which the store knows."""
    words = [sys.executable, "-m", "longshore", "--url", "sqlite:///jobs.db", "worker"]
    started = [
        subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL) for _ in range(2)
    ]
    try:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if (tmp_path / "jobs.db").exists() and len(
                longshore(tmp_path, "workers", "list")
            ) == 2:
                break
        yield {one.pid: one for one in started}
    finally:
        for one in started:
            one.kill()
            one.wait()


@pytest.mark.slow
def test_chaos_does_nothing_unless_it_is_meant_and_then_hits_one_worker(
    tmp_path: Path, workers: dict[int, "subprocess.Popen[bytes]"]
):
    (told,) = longshore(tmp_path, "chaos", "kill", "--seed", "1")
    assert told["dry_run"]
    assert told["pid"] in workers
    assert all(one.poll() is None for one in workers.values())

    stopped, resumed = longshore(tmp_path, "chaos", "stop", "--for", "100ms", "--yes")
    assert (stopped["signal"], resumed["signal"]) == ("SIGSTOP", "SIGCONT")
    assert stopped["pid"] == resumed["pid"]

    (killed,) = longshore(tmp_path, "chaos", "kill", "--worker", str(told["pid"]), "--yes")
    assert killed["pid"] == told["pid"]
    assert workers[killed["pid"]].wait(PATIENCE) == -9
    (survivor,) = workers.keys() - {killed["pid"]}
    assert workers[survivor].poll() is None

    (sent,) = longshore(
        tmp_path, "chaos", "poison", "--count", "3", "--max-attempts", "1", "--yes"
    )
    deadline = time.monotonic() + PATIENCE
    dead: list[dict[str, Any]] = []
    while len(dead) < 3 and time.monotonic() < deadline:
        dead = longshore(tmp_path, "dead", "list", "--tag", "chaos")
    assert {one["id"] for one in dead} == set(sent["submitted"])
