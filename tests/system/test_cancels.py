"""The cancel trial on both engines: a running handler hears of its cancel within a second.

Not one of many, but every one, wherever it runs.
"""

import json

import pytest

from longshore_lab import cancels

pytestmark = pytest.mark.prove


@pytest.mark.parametrize("store", [[], ["--postgres"], ["--postgres", "--deaf"]])
def test_a_cancel_is_heard_within_a_second(
    store: list[str], capsys: pytest.CaptureFixture[str]
):
    assert cancels.main([*store, "--cancels", "10"]) == 0

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["task"] for line in lines] == [*cancels.TASKS]
    assert {line["misplaced"] for line in lines} == {0 if store else None}
    assert all(line["told_ms"]["max"] < 1_000 for line in lines), lines
