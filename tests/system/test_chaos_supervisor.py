"""The chaos supervisor hits server, wire, clocks and processes, and nothing is lost."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest


def survived(*arguments: str) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-m", "longshore_lab.chaos", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.stdout, run.stderr
    figures = json.loads(run.stdout.splitlines()[-1])
    assert (run.returncode, figures.get("examples")) == (0, None), run.stderr
    return figures


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "seed"), [("postgresql", "225"), ("sqlite", "182")])
def test_a_few_seconds_of_chaos_break_no_promise(engine: str, seed: str):
    figures = survived("--engine", engine, "--minutes", "0.1", "--seed", seed, "--rate", "50")

    assert figures["accepted"] > 0
    assert figures["faults"]["kill_api"] == 1
    assert figures["faults"]["fill_disk"] == (os.geteuid() == 0)
    assert (figures["lost"], figures["linear"], figures["relayed"]) == (0, 0, 0)


@pytest.mark.prove
@pytest.mark.parametrize(
    ("engine", "harms"),
    [
        ("postgresql", {"stop_worker", "kill_worker", "kill_api", "kill_relay", "crash"}),
        ("sqlite", {"stop_worker", "kill_worker", "kill_api", "kill_relay", "hold_lock"}),
    ],
)
def test_every_kind_of_chaos_breaks_no_promise(engine: str, harms: set[str]):
    figures = survived("--engine", engine, "--minutes", "1", "--seed", "7")

    assert harms <= {name for name, times in figures["faults"].items() if times}
    assert (figures["lost"], figures["linear"], figures["relayed"]) == (0, 0, 0)
