"""`longshore prove`: the verdict is right, a planted fault is found, and nothing is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest

pytestmark = pytest.mark.slow

PATIENCE = 180


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "longshore", "prove", *arguments]


def prove(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    ended = subprocess.run(
        command("--json", "--seed", "2", *arguments),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "TMPDIR": str(folder)},
    )
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
    assert found["kept"] is None
    assert list(tmp_path.iterdir()) == []


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
