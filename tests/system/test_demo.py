"""`make demo`: the verdict is green when all is well, and red when a fault is planted."""

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def demo(*arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "longshore_lab.demo", "--json", "--jobs", "4000"]
    ended = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=90, check=False
    )
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


@pytest.mark.prove  # CI runs the demo as a stage of its own
def test_the_demo_kills_and_freezes_workers_and_every_promise_holds():
    status, figures = demo()

    assert "examples" not in figures
    assert status == 0
    assert figures["accepted"] == figures["succeeded"] + figures["dead"] == 4_000
    assert figures["lost"] == 0
    assert figures["effects_once"] == figures["effects_applied"] == figures["succeeded"]
    assert figures["kills"] == figures["stops"] == 1
    assert 0 < figures["redelivered"] <= figures["in_flight"]
    assert figures["stale_refused"] > 0


@pytest.mark.parametrize(
    ("plant", "checker"),
    [
        pytest.param("loss", "lost", marks=pytest.mark.prove),
        # CI runs the demo without its fence as a stage of its own.
        pytest.param("fence", "stale", marks=pytest.mark.prove),
        pytest.param("effects", "effects", marks=pytest.mark.prove),
    ],
)
def test_a_planted_fault_is_found(plant: str, checker: str):
    status, figures = demo("--break", plant, *(["--jobs", "6000"] if plant == "loss" else []))

    assert status == 1
    assert figures[checker] > 0
