"""How a measurement ends."""

import json

import pytest

from longshore_lab.bounds import Bound, conclude

FAST = Bound("jobs/s", 900, 800, is_least=True)
LATE = Bound("lag p99", 1.5, 1, " s")


def test_what_is_out_of_bounds_is_told_and_shows_in_the_exit_code(
    capsys: pytest.CaptureFixture[str],
):
    code = conclude({"rate": 900}, FAST, LATE)

    figures, words = capsys.readouterr().out.splitlines()
    assert code == 1
    assert json.loads(figures) == {"rate": 900, "bounds": "broken"}
    assert words == "broken: lag p99 1.5 s (at most 1 s)"


def test_what_holds_is_told_with_its_bound(capsys: pytest.CaptureFixture[str]):
    code = conclude({}, FAST)

    assert code == 0
    assert capsys.readouterr().out.endswith("holds: jobs/s 900 (at least 800)\n")


def test_without_bounds_there_is_no_verdict(capsys: pytest.CaptureFixture[str]):
    code = conclude({})

    assert (code, capsys.readouterr().out) == (0, '{"bounds": null}\n')
