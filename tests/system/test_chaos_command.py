"""`longshore chaos` hits workers of its own store on this machine, and nothing else."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.cli import chaos_targets
from longshore.contract import SessionView
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
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    try:
        found, reasons = chaos_targets.on_this_machine(
            [
                a_session(f"{here}:{sleeper.pid}"),
                a_session(f"{here}:{sleeper.pid}", opened_at=1_000_000),
                a_session(f"elsewhere:{sleeper.pid}"),
                a_session("mail-worker"),
                a_session(f"{here}:1"),
                a_session(f"{here}:{os.getpid()}"),
                a_session(f"{here}:4194999"),
                a_session(f"{here}:{ended.pid}"),
            ]
        )
    finally:
        sleeper.kill()
        sleeper.wait()
        ended.wait()

    assert [one.pid for one in found] == [sleeper.pid]
    assert [one.rpartition(": ")[2] for one in reasons] == [
        "its process is gone",
        "runs on another machine",
        "has a name of its own, which does not tell its process",
        *["its process is gone"] * 4,
    ]


def test_nobody_to_hit_is_said_with_the_reasons():
    with pytest.raises(NotFoundError, match="mail-worker: has a name of its own"):
        chaos_targets.chosen(*chaos_targets.on_this_machine([a_session("mail-worker")]), None)


COMMAND = [sys.executable, "-m", "longshore", "--url", "sqlite:///jobs.db"]


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, "--json", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def longshore(folder: Path, *words: str) -> list[dict[str, Any]]:
    ended = run(folder, *words)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def two_workers(folder: Path, *, besides: Collection[str] = ()) -> None:
    """Wait until the store lists two, and none of those that are named."""
    found: set[str] = set()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (folder / "jobs.db").exists():
            found = {one["worker"] for one in longshore(folder, "workers", "list")}
            if len(found) == 2 and found.isdisjoint(besides):
                return
    raise AssertionError(f"the store lists {found}")


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[dict[int, "subprocess.Popen[bytes]"]]:
    """Two of them, which the store knows."""
    started = [
        subprocess.Popen([*COMMAND, "worker"], cwd=tmp_path, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    try:
        two_workers(tmp_path)
        yield {one.pid: one for one in started}
    finally:
        for one in started:
            one.kill()
            one.wait()


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Has two workers, which the store knows, and starts another for each that dies."""
    words = [*COMMAND, "worker", "--processes", "2"]
    started = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        two_workers(tmp_path)
        yield started
    finally:
        # Asked, not killed: it takes its workers along.
        started.terminate()
        started.wait(PATIENCE)


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


@pytest.mark.slow
def test_flap_kills_again_and_again_while_a_supervisor_starts_others(
    tmp_path: Path, supervisor: "subprocess.Popen[bytes]"
):
    kills = longshore(tmp_path, "chaos", "flap", "--times", "3", "--every", "100ms", "--yes")

    assert [one["signal"] for one in kills] == ["SIGKILL"] * 3
    killed = {one["worker"] for one in kills}
    assert len(killed) == 3, "of two workers, so one of them was started by the supervisor"
    two_workers(tmp_path, besides=killed)
    assert supervisor.poll() is None


@pytest.mark.slow
def test_flap_gives_up_when_nobody_starts_another_worker(
    tmp_path: Path, workers: dict[int, "subprocess.Popen[bytes]"]
):
    ended = run(
        *(tmp_path, "chaos", "flap", "--times", "2", "--every", "100ms"),
        *("--patience", "400ms", "--yes"),
    )

    assert ended.returncode == 3
    (killed,) = map(json.loads, ended.stdout.splitlines())
    (told,) = map(json.loads, ended.stderr.splitlines())
    assert told["error"] == "not_found"
    assert told["message"].startswith("nobody started another worker within 0.4 s; flap needs")
    assert workers[killed["pid"]].wait(PATIENCE) == -9
    (survivor,) = workers.keys() - {killed["pid"]}
    assert workers[survivor].poll() is None
