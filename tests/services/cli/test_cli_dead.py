"""Dead jobs: list, replay, purge."""

import json

import pytest
from cli_steps import Queue, Shell

from longshore.contract import Engine
from longshore.core import poison
from longshore.core.event import Name, expand
from longshore.core.state import State
from longshore.testing.manual import a_worker


@pytest.fixture
def three(queue: Queue) -> list[str]:
    """Two dead jobs of queue `mail`, and one of queue `web`."""
    return [queue.dead(queue="mail"), queue.dead(queue="mail"), queue.dead(queue="web")]


def test_only_dead_jobs_are_listed_with_the_reason(
    shell: Shell, queue: Queue, three: list[str]
):
    queue.submit()

    listed = shell.lines("dead", "list")
    table = shell("dead", "list").stdout

    assert [one["id"] for one in listed] == three[::-1]
    assert table.count("ValueError: no such user") == 3


def test_replay_by_id_makes_a_job_ready_with_a_clean_slate(
    shell: Shell, queue: Queue, three: list[str]
):
    result = shell("dead", "replay", three[0], "--json")

    assert json.loads(result.stdout) == {"replayed": 1, "missed": 0, "dry_run": False}
    job = queue.get(three[0])
    assert (job.state, job.failures) == (State.READY, 0)
    assert queue.get(three[1]).state is State.DEAD


def test_replay_by_filter_takes_all_that_match_and_no_other(
    shell: Shell, queue: Queue, three: list[str]
):
    result = shell("dead", "replay", "--queue", "mail", "--yes")

    assert result.stdout == "2 jobs replayed\n"
    states = [queue.get(job_id).state for job_id in three]
    assert states == [State.READY, State.READY, State.DEAD]


def test_a_dry_run_counts_and_changes_nothing(shell: Shell, queue: Queue, three: list[str]):
    replay = shell("dead", "replay", "--all", "--dry-run")
    purge = shell("dead", "purge", three[0], "--dry-run", "--json")

    assert replay.stdout == "3 jobs would be replayed\n"
    assert json.loads(purge.stdout) == {"purged": 1, "missed": 0, "dry_run": True}
    assert {queue.get(job_id).state for job_id in three} == {State.DEAD}


def test_replay_at_a_rate_reaches_every_job(shell: Shell, queue: Queue, three: list[str]):
    result = shell("dead", "replay", "--all", "--rate", "1000/s", "--yes")

    assert result.stdout == "3 jobs replayed\n"


@pytest.mark.parametrize("verb", ["replay", "purge"])
@pytest.mark.parametrize("words", [[], ["--all", "--queue", "mail"], ["--queue", "mail", "ID"]])
def test_an_order_must_say_exactly_which_jobs_it_means(
    shell: Shell, three: list[str], verb: str, words: list[str]
):
    named = [three[0] if word == "ID" else word for word in words]

    result = shell("dead", verb, *named)

    assert result.exit_code == 2
    assert "by id, or by a filter, or take --all" in result.stderr


def test_purge_deletes_and_leaves_an_event(shell: Shell, queue: Queue, three: list[str]):
    result = shell("dead", "purge", "--queue", "mail", "--yes")

    assert result.stdout == "2 jobs purged\n"
    assert [one["id"] for one in shell.lines("jobs", "list")] == [three[2]]
    batches = queue.ask(lambda engine: engine.events(after=0, limit=100))
    names = [event.name for batch in batches for event in expand(batch)]
    assert names.count(Name.PURGED) == 2


def test_an_order_to_many_asks_first_and_says_how_many(shell: Shell, three: list[str]):
    refused = shell("dead", "purge", "--all", input="n\n")
    agreed = shell("dead", "purge", "--queue", "web", input="y\n")

    assert refused.exit_code == 1
    assert "3 jobs will be purged; go on?" in refused.stderr
    assert agreed.stdout == "1 job purged\n"
    assert len(shell.lines("dead", "list")) == 2


def test_purge_of_a_job_that_is_not_dead_is_refused(shell: Shell, queue: Queue):
    job_id = queue.submit()
    queue.settle(job_id)

    result = shell("dead", "purge", job_id)

    assert result.exit_code == 4
    assert result.stderr == "error: cannot purge a job that is succeeded\n"
    assert queue.get(job_id).state is State.SUCCEEDED


async def crash_two(engine: Engine) -> None:
    worker = await a_worker(engine, queues=["mail"])
    claims = await worker.claim(2)
    await worker.start(*claims)
    held = await engine.held(worker.session.token) or []
    await engine.end_session(worker.session.token, poison.unreported(held))


def test_a_job_shows_who_died_beside_it(shell: Shell, queue: Queue):
    job_id, other_id = queue.submit(queue="mail"), queue.submit(queue="mail")
    queue.ask(crash_two)

    sheet = shell("jobs", "show", job_id).stdout
    (document,) = shell.lines("dead", "show", job_id)

    assert f"died beside it  {other_id}" in sheet
    assert "the worker that ran it vanished, and 1 other job with it" in sheet
    assert document["victims"] == [other_id]
    (crash,) = document["attempts"]
    assert (crash["outcome"], crash["failure"]["death"]["beside"]) == ("crashed", 1)
