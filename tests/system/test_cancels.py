"""The cancel trial on both engines: a running handler hears of its cancel within a second."""

import json

import pytest

from longshore_lab import cancels

pytestmark = pytest.mark.prove


@pytest.mark.parametrize("store", [[], ["--postgres"], ["--postgres", "--deaf"]])
def test_a_cancel_is_heard_within_a_second(
    store: list[str], capsys: pytest.CaptureFixture[str]
):
    # The first seconds of children are their imports; their cancels are in the lab's figures.
    tasks = ["--tasks", "on_the_loop", "in_a_thread"]

    assert cancels.main([*store, "--cancels", "10", *tasks]) == 0

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["task"] for line in lines] == ["on_the_loop", "in_a_thread"]
    assert all(line["told_ms"]["p50"] < 1_000 for line in lines), lines
