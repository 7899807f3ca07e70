"""The simulator: a seed means one world, good engines pass, and bad ones are found."""

import json
import subprocess
import sys
from typing import Any

import pytest

FOUND = [
    "their clocks",
    "not renewed",
    "same delivery",
    "charged at claim",
    "answered early",
    "fired again",
    "events lost",
    "one too many",
    "checked, then stored",
    "answer forgotten",
]
HIDDEN = ["no fence", "released by anyone"]
"""Workers defend themselves against these: they stop before their lease is over."""


def simulated(*arguments: str) -> tuple[int, dict[str, Any], str]:
    run = subprocess.run(
        [sys.executable, "-m", "longshore_lab.sim", *arguments],
        capture_output=True,
        text=True,
        timeout=1_200,
    )
    lines = run.stdout.splitlines()
    assert lines, run.stderr
    return run.returncode, json.loads(lines[-1]), "\n".join(lines[:-1])


def test_a_seed_means_one_world():
    first = simulated("--seeds", "7", "--history")
    again = simulated("--seeds", "7", "--history")

    assert first[2] == again[2]
    assert first[2].count("RunBegan") > 3
    assert first[2] != simulated("--seeds", "8", "--history")[2]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["model", "sqlite"])
def test_no_world_breaks_a_promise(engine: str):
    code, figures, _ = simulated("--seeds", "0:1000", "--seconds", "30", "--engine", engine)

    assert (code, figures["broken"]) == (0, [])
    assert figures["worlds"] > 2


@pytest.mark.slow
@pytest.mark.parametrize("mutant", FOUND)
def test_an_engine_that_is_wrong_is_found(mutant: str):
    code, figures, _ = simulated("--seeds", "0:10", "--mutant", mutant)

    assert (code, len(figures["broken"])) == (1, 1)


@pytest.mark.prove
@pytest.mark.parametrize("mutant", HIDDEN)
def test_an_engine_whose_fault_hardly_shows_is_found_too(mutant: str):
    code, figures, _ = simulated("--seeds", "0:1000", "--mutant", mutant)

    assert (code, len(figures["broken"])) == (1, 1)


@pytest.mark.prove
@pytest.mark.parametrize("engine", ["model", "sqlite"])
def test_ten_thousand_worlds_break_no_promise(engine: str):
    run = subprocess.run(
        [sys.executable, "-m", "longshore_lab.sim", "--seeds", "0:10000", "--engine", engine],
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stderr
