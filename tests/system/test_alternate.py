"""Two checkouts are compared in turn."""

import json
from pathlib import Path

import pytest

from longshore_lab import alternate

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def test_a_checkout_is_as_fast_as_itself_within_wide_bounds(capsys: pytest.CaptureFixture[str]):
    short = ["--rounds", "1", "--seconds", "0.5", "--within", "900", "--profile", "noop"]

    status = alternate.main([str(ROOT), str(ROOT), "--json", *short])

    rows = {row["figure"]: row for row in json.loads(capsys.readouterr().out)}
    assert status == 0
    assert {"producer", "worker", "server", "jobs"} == set(rows)
    assert rows["worker"]["old"] > 0
    assert rows["worker"]["new"] > 0


def test_more_cpu_time_than_allowed_is_an_exit_status(capsys: pytest.CaptureFixture[str]):
    short = ["--rounds", "1", "--seconds", "0.5", "--profile", "noop"]

    status = alternate.main([str(ROOT), str(ROOT), *short, "--within", "-99.9"])

    assert status == 1
    assert "worker" in capsys.readouterr().out
