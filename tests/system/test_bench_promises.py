"""What measurements of bench/ find has to be what the documentation promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = [pytest.mark.prove, pytest.mark.usefixtures("postgres_server")]


def measured(script: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, BENCH / script, *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_key_that_is_held_for_a_minute_does_not_slow_others_down():
    ended = measured("postgres_held_key.py", "--seconds", "60", "--rounds", "1")

    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert "p99 held / free" in ended.stdout


def test_a_mixed_load_writes_less_than_a_row_for_three_jobs_that_end():
    """0.23 rows of claims, journal and finished jobs, where each job alone would take three."""
    ended = measured("postgres_mixed.py", "--rate", "1000", "--minutes", "0.5")

    assert (ended.returncode, ended.stderr) == (0, "")
    written = json.loads(ended.stdout.splitlines()[-1])["rows_written_per_job_by_relation"]
    assert {"claim", "finished", "journal"} <= written.keys()
    assert sum(written[name] for name in ("claim", "finished", "journal")) < 0.35
