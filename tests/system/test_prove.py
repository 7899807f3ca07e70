"""`longshore prove`: the verdict is right, a planted fault is found, and nothing is left."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

pytestmark = pytest.mark.slow

PATIENCE = 180


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "longshore", "prove", *arguments]


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command("--seed", "2", *arguments),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "TMPDIR": str(folder)},
    )


def prove(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    ended = run(folder, "--json", *arguments)
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.prove)])
def where(request: pytest.FixtureRequest) -> list[str]:
    if request.param == "sqlite":
        return []
    return ["--url", request.getfixturevalue("postgres_url")]


def test_a_proof_counts_every_job_and_leaves_nothing_behind(where: list[str], tmp_path: Path):
    status, found = prove(tmp_path, *where, "--minutes", "0.1", "--rate", "100")

    assert (found["broken"], found["disagreements"]) == ({}, {})
    assert status == 0
    assert found["accepted"] == found["succeeded"] + found["dead"] == 600
    assert found["lost"] == found["double_effects"] == 0
    assert found["kills"] >= 1
    if where:
        assert found["checked"]["misplaced"] == found["accepted"]
    assert found["kept"] is None
    assert list(tmp_path.iterdir()) == []


def test_a_loss_is_told_to_people_by_its_check_and_by_the_exit_code(tmp_path: Path):
    ended = run(tmp_path, "--minutes", "0.1", "--rate", "100", "--break", "loss")

    assert ended.returncode == 1, ended.stderr
    assert "✗ An accepted job is still there" in ended.stdout
    assert "lost, for example:" in ended.stdout
    assert "The planted fault was found, by" in ended.stdout
    assert list(tmp_path.iterdir()) == []


def test_in_a_closed_loop_so_many_jobs_are_under_way_and_no_more(tmp_path: Path):
    folder = tmp_path / "proof"

    status, found = prove(
        tmp_path, "--minutes", "0.1", "--in-flight", "60", "--keep", str(folder)
    )

    assert (status, found["broken"], found["disagreements"]) == (0, {}, {})
    assert found["in_flight"] == 60
    assert "rate" not in found
    assert found["accepted"] == found["succeeded"] + found["dead"] > 2 * 60
    assert 40 < most_under_way(folder / "evidence.db") <= 60


def most_under_way(evidence: Path) -> int:
    """Jobs that were accepted and had not ended, at the moment when there were most."""
    with closing(sqlite3.connect(evidence)) as store:
        return store.execute(
            "select max(depth) from (select sum(step) over (order by at_s, step) as depth from"
            " (select at_s, 1 as step from accepted"
            " union all select max(ended_s), -1 from runs group by job))"
        ).fetchone()[0]


@pytest.mark.prove
@pytest.mark.parametrize(
    ("plant", "checker"), [("fence", "stale"), ("loss", "lost"), ("effects", "effects")]
)
def test_a_planted_fault_is_found(where: list[str], plant: str, checker: str, tmp_path: Path):
    status, found = prove(tmp_path, *where, "--minutes", "0.6", "--break", plant)

    assert status == 1
    assert not found["holds"]
    assert found["broken"][checker] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_proof_leaves_nothing_behind(
    number: signal.Signals, tmp_path: Path, postgres_url: str
):
    running = subprocess.Popen(
        command("--url", postgres_url),
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    )
    assert running.stdout is not None
    try:
        for line in running.stdout:
            if b"workers, a producer and a scheduler started" in line:
                break
        running.send_signal(number)
        running.stdout.read()
        status = running.wait(PATIENCE)
    finally:
        running.kill()
        running.stdout.close()

    assert status == 130
    assert list(tmp_path.iterdir()) == []
    assert not scratch_databases(postgres_url)


def scratch_databases(url: str) -> list[str]:
    import asyncio

    async def ask() -> list[str]:
        connection = await asyncpg.connect(url)
        try:
            rows = await connection.fetch("select datname from pg_database")
        finally:
            await connection.close()
        return [row["datname"] for row in rows if row["datname"].startswith("longshore_prove")]

    return asyncio.run(ask())


def test_a_proof_without_its_laboratory_says_so(tmp_path: Path):
    program = (
        "import sys; sys.modules['longshore_lab'] = None\n"
        "from longshore.cli.main import main; main(['prove'])"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 2
    assert "longshore_lab" in ended.stderr
    assert "Traceback" not in ended.stderr
