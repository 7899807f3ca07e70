"""The chaos supervisor hits server, wire, clocks and processes, and nothing is lost."""

import json
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
def test_a_few_seconds_of_chaos_break_no_promise():
    figures = survived("--minutes", "0.2", "--seed", "3", "--rate", "50")

    assert figures["accepted"] > 0
    assert (figures["lost"], figures["linear"], figures["misplaced"]) == (0, 0, 0)


@pytest.mark.prove
def test_every_kind_of_chaos_breaks_no_promise():
    figures = survived("--minutes", "1", "--seed", "7")

    assert {"stop_worker", "kill_worker", "crash"} <= figures["faults"].keys()
    assert (figures["lost"], figures["linear"], figures["misplaced"]) == (0, 0, 0)
