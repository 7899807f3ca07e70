"""The simulator: a seed means one world, good engines pass, and bad ones are found."""

import json
import re
import shlex
import subprocess
import sys
import time
from typing import Any

import pytest
from msgspec.structs import replace

from longshore_lab.experiments.experiment import Stage
from longshore_lab.experiments.worlds import EXPERIMENT as WORLDS
from longshore_lab.experiments.worlds import Worlds
from longshore_lab.sim.mutants import MUTANTS
from longshore_lab.sim.sometimes import COMMON

ENOUGH = 60
"""In so many worlds everything common has happened, whatever the machine is busy with."""
SECONDS = 30

CLASSICS = {
    "no token check",
    "status only",
    "their clocks",
    "same delivery",
    "charged at claim",
    "answered early",
    "fired again",
    "late batches",
    "revived",
    "released by anyone",
    "one too many",
    "checked, then stored",
}
HIDDEN = {"no token check", "status only", "released by anyone", "cancelled later"}
"""Workers defend themselves against these, or it takes two calls that cross."""
FOUND = sorted(MUTANTS.keys() - HIDDEN)


def ran(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "longshore_lab.sim", *arguments],
        capture_output=True,
        text=True,
        timeout=6 * 3_600,
    )


def untimed(told: str) -> str:
    """All that was told, but for how long it took."""
    return re.sub(r'"(seconds|per_second)":[0-9.]+', "", told)


def simulated(*arguments: str) -> tuple[int, dict[str, Any], str]:
    run = ran(*arguments)
    lines = run.stdout.splitlines()
    assert lines, run.stderr
    return run.returncode, json.loads(lines[-1]), "\n".join(lines[:-1])


@pytest.mark.parametrize("engine", ["model", "sqlite"])
def test_a_seed_means_one_world(engine: str):
    first = simulated("--seeds", "7", "--history", "--engine", engine)
    again = simulated("--seeds", "7", "--history", "--engine", engine)

    assert first[2] == again[2]
    assert first[2].count(" begins delivery ") > 3
    assert first[2] != simulated("--seeds", "8", "--history", "--engine", engine)[2]


def test_worlds_of_several_processes_are_told_as_those_of_one():
    words = ("--seeds", "0:6", "--history", "--mutant", "their clocks", "--processes")

    together = ran(*words, "3")

    alone = ran(*words, "1")
    assert together.returncode == alone.returncode
    assert together.stderr == alone.stderr
    assert untimed(together.stdout) == untimed(alone.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["model", "sqlite"])
def test_no_world_breaks_a_promise(engine: str):
    began = time.monotonic()
    code, figures, _ = simulated("--seeds", f"0:{ENOUGH}", "--engine", engine)
    left = max(SECONDS - (time.monotonic() - began), 1)

    more = simulated("--seeds", f"{ENOUGH}:1000", "--seconds", f"{left}", "--engine", engine)

    assert (code, figures["broken"], figures["worlds"]) == (0, [], ENOUGH)
    assert not set(COMMON).intersection(figures["unseen"])
    assert (more[0], more[1]["broken"]) == (0, [])


def test_a_run_that_is_ended_says_which_seeds_are_left():
    process = subprocess.Popen(
        [sys.executable, "-m", "longshore_lab.sim", "--seeds", "5:100000", "--history"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        process.stdout.readline()  # the first world has been played
        process.terminate()
        figures = json.loads(process.stdout.read().splitlines()[-1])

    assert process.returncode == 0
    assert figures["worlds"] >= 1
    assert figures["left"] == f"{5 + figures['worlds']}:100000"


def test_the_twelve_classic_faults_have_their_mutants():
    assert len(CLASSICS) == 12
    assert set(MUTANTS) >= CLASSICS


def found(mutant: str, seeds: str) -> None:
    code, figures, _ = simulated("--seeds", seeds, "--mutant", mutant)

    assert code == 1
    assert MUTANTS[mutant].finders & figures["found"].keys()
    assert "faults" not in figures["found"], "the mutant itself fell over"


@pytest.mark.slow
@pytest.mark.parametrize("mutant", FOUND)
def test_an_engine_that_is_wrong_is_found_by_the_checker_for_that(mutant: str):
    found(mutant, "0:60")


@pytest.mark.prove
@pytest.mark.parametrize("mutant", sorted(HIDDEN))
def test_an_engine_whose_fault_hardly_shows_is_found_too(mutant: str):
    found(mutant, "0:1000")


def test_a_broken_promise_comes_with_the_story_of_its_job_and_the_way_back_to_it():
    run = ran("--seeds", "0:30", "--mutant", "one too many")

    told = run.stderr
    job = re.findall(r"the story of ([0-9a-f-]{36}):", told)[0]
    assert f"attempts: {job} " in told
    story = told[told.index(f"the story of {job}") :]
    for sentence in ("submits", "claims delivery 1 of", "begins delivery 1 of", "hears that"):
        assert f"{sentence} " in story
    (command,) = re.findall(r"again, with all that happened: python (.+)", told)[:1]
    again = subprocess.run(
        [sys.executable, *shlex.split(command)], capture_output=True, text=True
    )
    assert again.stderr == told
    assert job in again.stdout


@pytest.mark.slow
def test_worlds_that_are_played_in_parts_are_the_same_worlds():
    asked = Worlds(worlds=4, mutants=(), has_all=False)
    told: list[str] = []
    with Stage(say=told.append) as stage:
        whole = WORLDS.run(stage, asked).results["worlds"]
        parts = WORLDS.run(stage, replace(asked, part=3)).results["worlds"]

    for engine in ("model", "sqlite"):
        facts = ("worlds", "broken", "found", "seen", "unseen")
        assert [parts[engine][one] for one in facts] == [whole[engine][one] for one in facts]
    assert told.count("4 of 4") == 2
