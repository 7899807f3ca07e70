"""A proof counts twice, and both counts catch what they are there for."""

import io
import shlex
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from story import MAX_ATTEMPTS, Story

from longshore.core.state import State, Verb
from longshore.errors import ConfigError
from longshore_lab.effects import Cell
from longshore_lab.history import gather
from longshore_lab.proof import evidence, report
from longshore_lab.proof.evidence import QUESTIONS
from longshore_lab.proof.plan import Plan
from longshore_lab.proof.scratch import Scratch
from longshore_lab.proof.times import Spread, percentile, times
from longshore_lab.proof.verdict import Proof
from longshore_lab.records import Fate, FaultKind, Outcome
from longshore_lab.trial import Trial
from longshore_lab.verdict import Case, decide

TRIAL = Trial(url="sqlite://:memory:", folder="nowhere", rate=10.0, batch=1)


@pytest.fixture
def story() -> Story:
    """Three jobs: one succeeds, one dies as it should, one is run again after a kill."""
    story = Story()
    story.submitted("job-1", "job-2")
    story.submitted("job-3", batch="two", fate=Fate.DEAD)
    story.ran("job-1", 1, "worker-1")
    story.shows("job-1")
    story.claimed("job-2", 1, "worker-1")
    story.began("job-2", 1, "worker-1")
    story.hurt("worker-1", FaultKind.KILL)
    story.ran("job-2", 2, "worker-2")
    story.shows("job-2", attempt=2, crashes=1)
    story.ran("job-3", 1, "worker-2", Outcome.RAISED, Verb.RETRY)
    story.ran("job-3", 2, "worker-2", Outcome.RAISED, Verb.KILL)
    story.shows("job-3", State.DEAD, attempt=2, failures=MAX_ATTEMPTS, reason="exhausted")
    return story


def proof_of(story: Story, folder: Path) -> Proof:
    case = Case(gather(story.entries), story.survey, [])
    path = folder / "evidence.db"
    evidence.write(path, case)
    return Proof(
        plan=Plan(),
        store=Scratch("", "a story", ""),
        verdict=decide(TRIAL, case),
        counts=evidence.count(path),
        times=times(TRIAL, case.history),
    )


def test_sql_and_the_checkers_count_the_same(story: Story, tmp_path: Path):
    proof = proof_of(story, tmp_path)

    assert proof.disagreements == {}
    assert proof.forbidden == {}
    assert proof.counts["accepted"] == 3
    assert (proof.counts["succeeded"], proof.counts["dead"]) == (2, 1)
    assert (proof.counts["re-deliveries"], proof.counts["retries"]) == (1, 1)


def lose(story: Story) -> None:
    del story.survey.jobs["job-1"]


def leave_running(story: Story) -> None:
    story.shows("job-1", State.RUNNING)


def apply_twice(story: Story) -> None:
    story.survey.cells[1] = Cell(2, 2)


def apply_never(story: Story) -> None:
    story.survey.cells[1] = Cell(0, 0)


def die_early(story: Story) -> None:
    story.shows("job-3", State.DEAD, attempt=1, failures=1, reason="exhausted")


@pytest.mark.parametrize(
    ("harm", "count"),
    [
        (lose, "lost"),
        (leave_running, "unfinished"),
        (apply_twice, "double effects"),
        (apply_never, "missing effects"),
        (die_early, "wrongly dead"),
    ],
)
def test_each_count_that_has_to_be_none_catches_its_violation(
    harm, count: str, story: Story, tmp_path: Path
):
    harm(story)

    proof = proof_of(story, tmp_path)

    assert proof.forbidden == {count: 1}
    assert not proof.holds
    assert proof.document()["broken"]


def test_every_forbidden_count_has_such_a_test():
    caught = {"lost", "unfinished", "double effects", "missing effects", "wrongly dead"}

    assert {one.name for one in QUESTIONS if one.is_forbidden} == caught


def told(proof: Proof) -> str:
    """What people read, with every run of blanks as one."""
    paper = io.StringIO()
    report.show(Console(file=paper, width=80), proof)
    return " ".join(paper.getvalue().split())


@pytest.mark.parametrize("one", QUESTIONS, ids=lambda one: one.name)
def test_people_read_each_count_what_it_means_and_the_query_behind_it(
    one: evidence.Question, story: Story, tmp_path: Path
):
    proof = proof_of(story, tmp_path)

    text = told(proof)

    assert f"{one.name} {proof.counts[one.name]} {one.means}" in text
    assert f"{one.name} {one.sql}" in text


def test_people_read_how_long_the_jobs_of_a_killed_worker_waited(story: Story, tmp_path: Path):
    proof = proof_of(story, tmp_path)
    found = msgspec.structs.replace(proof.times, after_kill=Spread(3, 4.5, 61.2, 1_234.0))

    text = told(msgspec.structs.replace(proof, times=found))

    assert "kill -9 → its job runs elsewhere 3 4.5 ms 61 ms 1,234 ms" in text


def test_counts_that_do_not_agree_prove_nothing(story: Story, tmp_path: Path):
    proof = proof_of(story, tmp_path)
    other = msgspec.structs.replace(proof, counts={**proof.counts, "accepted": 4})

    text = told(other)

    assert not other.holds
    assert "SQL counts 4 for accepted, the checkers 3." in text
    assert "The two counts do not agree, so this proves nothing." in text


@pytest.mark.parametrize("order", ["", "drop database longshore_prove_1"])
def test_only_a_store_that_is_still_there_has_to_be_removed(
    order: str, story: Story, tmp_path: Path
):
    proof = proof_of(story, tmp_path).kept_in(Path("my proof"))

    text = told(msgspec.structs.replace(proof, store=Scratch("", "a story", order)))

    assert f"Count again: sqlite3 {shlex.quote('my proof/evidence.db')}" in text
    assert ("The store is removed with:" in text) == bool(order)
    assert text.endswith(order)


def test_the_time_from_a_kill_to_the_next_run_is_that_of_the_jobs_that_were_held(
    story: Story, tmp_path: Path
):
    proof = proof_of(story, tmp_path)

    history = gather(story.entries)
    (kill,) = history.faults["worker-1"]
    began = history.runs["job-2"][1].began
    assert proof.times.after_kill.count == 1
    assert proof.times.after_kill.max_ms == (began - kill.at) / 1_000
    assert proof.times.after_stop.count == 0


def test_a_wait_counts_from_the_moment_the_job_was_meant_to_arrive(story: Story):
    """However late the call: a stalled generator hides nothing."""
    trial = Trial(url="", folder="", rate=1_000_000.0, batch=1, begins=-1_000)

    found = times(trial, gather(story.entries))

    assert found.wait.count == 3
    assert found.wait.max_ms > found.submit.max_ms >= 1.0


def test_a_percentile_is_one_of_the_values():
    assert percentile([1, 2, 3, 4], 50) == 2
    assert percentile(list(range(1, 101)), 99) == 99
    assert percentile([7], 99) == 7


def test_the_faults_of_a_seed_are_always_the_same_and_of_every_kind():
    once, again, other = (Plan(seed=seed).blows() for seed in (3, 3, 4))

    assert once == again != other
    assert {blow.kind for blow in once[:3]} == {
        FaultKind.KILL,
        FaultKind.STOP,
        FaultKind.TERMINATE,
    }
    assert all(blow.role == "worker" for blow in once[:3])


@pytest.mark.parametrize(
    "asked",
    [
        {"minutes": 0.0},
        {"workers": 1},
        {"rate": 0.0},
        {"rate": 1e9},
        {"in_flight": 1},
        {"every": 0.1},
        {"sabotage": "everything"},
    ],
)
def test_a_proof_that_makes_no_sense_is_refused(asked: dict[str, object]):
    with pytest.raises(ConfigError, match="--"):
        Plan(**asked)
