"""The chaos supervisor hits server, wire, clocks and processes, and nothing is lost."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from longshore_lab.strokes import ON_A_FILE, ON_A_SERVER, Harm


def tried(*arguments: str) -> tuple[int, dict[str, Any], str]:
    run = subprocess.run(
        [sys.executable, "-m", "longshore_lab.chaos", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout.splitlines()[-1]), run.stderr


def survived(*arguments: str) -> dict[str, Any]:
    code, figures, said = tried(*arguments)
    assert (code, figures.get("examples")) == (0, None), said
    return figures


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "seed"), [("postgresql", "225"), ("sqlite", "182")])
def test_a_few_seconds_of_chaos_break_no_promise(engine: str, seed: str):
    figures = survived("--engine", engine, "--minutes", "0.1", "--seed", seed, "--rate", "50")

    assert figures["accepted"] > 0
    assert figures["faults"]["kill_api"] == 1
    assert figures["faults"].get("fill_disk", 0) == (os.geteuid() == 0)
    assert (figures["untold"], figures["idle"]) == (0, 0)
    assert (figures["lost"], figures["linear"], figures["relayed"]) == (0, 0, 0)


@pytest.mark.prove
@pytest.mark.parametrize(
    ("engine", "harms"), [("postgresql", ON_A_SERVER), ("sqlite", ON_A_FILE)]
)
def test_every_kind_of_chaos_breaks_no_promise(engine: str, harms: Sequence[Harm]):
    figures = survived("--engine", engine, "--minutes", "1", "--seed", "7")

    assert figures["faults"].keys() == names(harms)
    assert sum(figures["faults"].values()) == 20 - (os.geteuid() != 0)
    assert (figures["lost"], figures["linear"], figures["relayed"]) == (0, 0, 0)
    assert (figures["untold"], figures["idle"], figures["slow"]) == (0, 0, 0)
    assert figures["past_lease"] > 0


@pytest.mark.prove
@pytest.mark.parametrize("engine", ["postgresql", "sqlite"])
@pytest.mark.parametrize(
    ("plant", "promises"),
    [("loss", {"lost"}), ("fence", {"stale", "doubles"}), ("effects", {"effects"})],
)
def test_a_planted_fault_is_found_amid_chaos(engine: str, plant: str, promises: set[str]):
    code, figures, _ = tried(
        "--engine", engine, "--minutes", "1", "--seed", "7", "--plant", plant
    )

    assert code == 1
    assert promises & figures["examples"].keys()


def names(harms: Sequence[Harm]) -> set[str]:
    """Only who may mount a disk can fill it."""
    return {one.name.lower() for one in harms if one is not Harm.FILL_DISK or os.geteuid() == 0}
