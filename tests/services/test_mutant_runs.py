"""The mutation runner kills what tests find, and says so when they find nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longshore_lab.servers import postgres_binaries

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "longshore_lab.mutants", "--json", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def results(report: dict[str, Any]) -> dict[str, str]:
    return {one["mutant"]: one["result"] for one in report["verdicts"]}


def test_planted_faults_and_missing_conditions_are_killed_on_sqlite():
    code, report = run(
        *("--engine", "sqlite", "--statement", "promote", "--statement", "due"),
        *("--tests", "promot or joins_when_it_is_due or takes_no_token"),
    )

    found = results(report)
    assert code == 0
    assert found["promote: a job that is promoted loses its priority"] == "killed"
    assert found["due: where run_at <= :now -> true"] == "killed"
    assert (report["mutants"], report["killed"], report["red"]) == (len(found), len(found), [])
    assert len(found) >= 10


def test_a_mutant_that_no_test_notices_survives_and_the_exit_code_says_so():
    code, report = run(
        *("--engine", "sqlite", "--statement", "due", "--tests", "nothing_scheduled")
    )

    assert code == 1
    assert set(results(report).values()) == {"survived"}


@pytest.mark.skipif(postgres_binaries() is None, reason="PostgreSQL is missing")
def test_planted_faults_are_killed_on_postgres():
    """In Python, and in a function of the database."""
    code, report = run(
        *(
            "--engine",
            "postgres",
            "--statement",
            "settlement_plan.py",
            "--statement",
            "due_from()",
        ),
        *("--mutant", "is looked at only in", "--tests", "wherever_it_stands"),
    )

    (one,) = report["verdicts"]
    assert code == 0
    assert (one["result"], report["red"]) == ("killed", [])
    assert "wherever_it_stands" in one["by"]
