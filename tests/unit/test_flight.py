"""The flight record, and what becomes of jobs by what it tells."""

import os
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.core import settle
from longshore.core.crash_record import Trace, aftermath
from longshore.core.job import Failure, Settlement
from longshore.core.state import SETTLING, Verb
from longshore.runtime.flight import CELL_BYTES, Entry, FlightRecord, begin, open_memory
from longshore.testing.factories import SECOND, a_claim, a_failure, a_held_job

NEVER = float("inf")
NOW = 1_767_225_600_000_000


class Sides:
    """A worker's record and its keeper's view of the same memory."""

    def __init__(self, capacity: int = 4) -> None:
        self.memory = open_memory(capacity)
        self.worker = FlightRecord(self.memory, capacity)
        self.keeper = FlightRecord(self.memory, capacity)

    def begin(self, handle: int, *, started: float, delivery: int = 1) -> int:
        cell = self.worker.free.pop() if self.worker.free else self.worker.spare()
        begin(self.worker.cells, cell * CELL_BYTES, started, handle, delivery, NEVER)
        return cell

    def close(self) -> None:
        os.close(self.memory)


@pytest.fixture
def sides() -> Iterator[Sides]:
    sides = Sides()
    yield sides
    sides.close()


def a_failed_one(handle: int, *, failure: Failure | None = None) -> Settlement:
    claim = a_claim(handle=handle)
    why = failure or a_failure()
    return settle.failed(claim, why, delay=SECOND, started_at=NOW, finished_at=NOW + 1)


def test_a_fresh_record_tells_of_nothing(sides: Sides):
    assert sides.keeper.entries() == []
    assert (sides.keeper.token, sides.keeper.is_whole) == (0, True)


def test_the_keeper_sees_what_runs_what_succeeded_and_how_the_rest_ended(sides: Sides):
    sides.begin(1, started=10.0)
    succeeded, failed = sides.begin(2, started=11.0), sides.begin(3, started=12.0, delivery=7)
    sides.worker.ends[succeeded] = 11.5
    outcome = settle.snoozed(
        a_claim(handle=3, delivery=7), SECOND, started_at=NOW, finished_at=NOW + 5
    )
    sides.worker.end(failed, 12.5, outcome)

    assert sides.keeper.entries() == [
        Entry(1, 1, 10.0, NEVER, None, None),
        Entry(2, 1, 11.0, NEVER, 11.5, None),
        Entry(3, 7, 12.0, NEVER, 12.5, outcome),
    ]


def test_what_each_side_writes_the_other_reads(sides: Sides):
    sides.worker.token = 2**40 + 7
    sides.worker.beat(5.5)
    sides.keeper.look(6.5)
    sides.keeper.renew(2**40 + 7, 6.0)

    assert (sides.keeper.token, sides.keeper.pulse) == (2**40 + 7, 5.5)
    assert (sides.worker.renewed(2**40 + 7), sides.worker.keeper_pulse) == (6.0, 6.5)
    assert sides.worker.renewed(8) == 0.0


def test_a_cell_that_is_used_again_tells_of_its_last_attempt(sides: Sides):
    cell = sides.begin(1, started=10.0)
    sides.worker.end(cell, 10.5, a_failed_one(1))
    sides.worker.release([cell])

    assert sides.begin(9, started=11.0) == cell

    assert sides.keeper.entries() == [Entry(9, 1, 11.0, NEVER, None, None)]


def test_a_large_record_is_read_to_its_end():
    sides = Sides(capacity=1_000)
    cells = [sides.begin(handle, started=1.0) for handle in range(1_000)]
    sides.worker.ends[cells[999]] = 2.0

    entries = sides.keeper.entries()
    sides.close()

    assert [entry.handle for entry in entries] == list(range(1_000))
    assert [entry.handle for entry in entries if entry.ended] == [999]


def test_an_attempt_without_a_cell_makes_the_record_incomplete_until_it_is_settled(
    sides: Sides,
):
    cells = [sides.begin(handle, started=10.0) for handle in range(1, 6)]
    before = (sides.keeper.is_whole, len(sides.keeper.entries()))
    sides.worker.release(cells[4:])

    assert before == (False, 4)
    assert sides.keeper.is_whole
    assert len(sides.worker.free) == 0


@pytest.mark.parametrize("old_end", [10.5, -10.5])
def test_a_cell_that_was_written_by_halves_never_says_over(sides: Sides, old_end: float):
    """The worker may die between any two words of a cell that it uses again."""
    cell = sides.begin(1, started=10.0)
    if old_end < 0:
        sides.worker.end(cell, 10.5, a_failed_one(1))
    else:
        sides.worker.ends[cell] = old_end
    fresh = struct.pack("dqqd", 11.0, 2, 3, NEVER)
    at = cell * CELL_BYTES

    for words in range(1, 5):
        sides.worker.cells[at : at + words * 8] = fresh[: words * 8]

        (entry,) = sides.keeper.entries()

        assert (entry.ended, entry.settlement) == (None, None)


def test_an_outcome_that_was_written_by_halves_is_not_believed(sides: Sides):
    cell = sides.begin(1, started=10.0)
    sides.worker.end(cell, 10.5, a_failed_one(1))
    at = _outcome_at(cell, capacity=4)
    whole = os.pread(sides.memory, 90, at)

    for place in range(8, 60):
        os.pwrite(sides.memory, bytes([whole[place] ^ 1]), at + place)
        (entry,) = sides.keeper.entries()
        os.pwrite(sides.memory, whole, at)

        assert (entry.ended, entry.settlement) == (None, None)
    assert sides.keeper.entries()[0].settlement == a_failed_one(1)


@given(
    numbers=st.tuples(st.integers(0, 2**62), st.integers(1, 2**31), st.integers(0, 2**53)),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    verb=st.sampled_from(sorted(SETTLING)),
    times=st.tuples(st.none() | st.integers(0, 2**53), st.none() | st.integers(0, 2**53)),
    result=st.none() | st.binary(max_size=100),
    reason=st.none() | st.text(max_size=20),
)
def test_a_small_outcome_is_kept_as_it_is(
    numbers: Any, flags: Any, verb: Verb, times: Any, result: bytes | None, reason: str | None
):
    sides = Sides(capacity=1)
    (handle, delivery, delay), (charge, crash, lapse) = numbers, flags
    settlement = Settlement(
        handle=handle,
        delivery=delivery,
        verb=verb,
        delay=delay,
        charge=charge,
        crash=crash,
        lapse=lapse,
        started_at=times[0],
        finished_at=times[1],
        result=result,
        failure=a_failure() if charge else None,
        reason=reason,
    )

    sides.worker.end(sides.begin(handle, started=1.0, delivery=delivery), 2.0, settlement)
    (entry,) = sides.keeper.entries()
    sides.close()

    assert entry.settlement == settlement


def test_an_outcome_of_another_claim_is_not_believed(sides: Sides):
    cell = sides.begin(1, started=10.0)

    sides.worker.end(cell, 10.5, a_failed_one(2))

    assert sides.keeper.entries() == [Entry(1, 1, 10.0, NEVER, None, None)]


def test_a_result_that_is_too_large_leaves_its_attempt_running(sides: Sides):
    cells = [sides.begin(handle, started=10.0) for handle in (1, 2)]
    for cell, size in zip(cells, (400, 600), strict=True):
        claim = a_claim(handle=cell + 1)
        result = b"x" * size
        outcome = settle.succeeded(claim, started_at=NOW, finished_at=NOW, result=result)
        sides.worker.end(cell, 10.5, outcome)

    small, large = sides.keeper.entries()

    assert small.settlement is not None
    assert small.settlement.result == b"x" * 400
    assert (large.ended, large.settlement) == (None, None)


words = st.text(max_size=3_000)


@given(kind=words, message=words, traceback=words)
def test_a_failure_is_shortened_until_it_fits(kind: str, message: str, traceback: str):
    sides = Sides(capacity=1)
    failure = settle.failure(kind, message, traceback)
    settlement = a_failed_one(1, failure=failure)

    sides.worker.end(sides.begin(1, started=1.0), 2.0, settlement)
    (entry,) = sides.keeper.entries()
    sides.close()

    found = entry.settlement
    assert found is not None
    assert found.failure is not None
    assert (found.verb, found.delay, found.charge) == (Verb.RETRY, SECOND, True)
    assert failure.kind.startswith(found.failure.kind)
    assert failure.message.startswith(found.failure.message)
    assert failure.traceback.endswith(found.failure.traceback)


def test_the_end_of_a_traceback_is_kept(sides: Sides):
    failure = settle.failure(
        "ValueError", "no such user", "above\n" * 300 + "the line at fault"
    )

    cell = sides.begin(1, started=1.0)
    sides.worker.end(cell, 2.0, a_failed_one(1, failure=failure))

    found = sides.keeper.entries()[0].settlement
    assert found is not None
    assert found.failure is not None
    assert found.failure.message == "no such user"
    assert found.failure.traceback.endswith("the line at fault")
    assert len(found.failure.traceback) > 200


# What becomes of the jobs


def decide(held: object, *traces: Trace, is_whole: bool = True) -> Settlement:
    (settlement,) = aftermath(
        [held],  # type: ignore[list-item]
        traces,
        is_whole=is_whole,
        now=NOW,
        delay=lambda job: (job.failures + 1) * SECOND,
    )
    return settlement


def test_a_job_that_had_succeeded_is_settled_as_such():
    job = a_held_job()
    trace = Trace(handle=1, delivery=1, started_at=NOW - 9, finished_at=NOW - 1)

    assert decide(job, trace) == settle.succeeded(job, started_at=NOW - 9, finished_at=NOW - 1)


def test_a_job_whose_end_was_decided_is_settled_that_way():
    job, decided = a_held_job(), a_failed_one(1)
    trace = Trace(handle=1, delivery=1, started_at=NOW, finished_at=NOW + 1, settlement=decided)

    assert decide(job, trace) == decided


def test_a_job_that_ran_is_charged_a_crash_and_nothing_else():
    settlement = decide(a_held_job(), Trace(handle=1, delivery=1, started_at=NOW - 5))

    assert (settlement.verb, settlement.crash, settlement.lapse) == (Verb.RECLAIM, True, False)
    assert (settlement.charge, settlement.started_at) == (False, NOW - 5)


def test_a_start_that_the_engine_knows_of_keeps_its_time():
    job = a_held_job(started_at=NOW - 7)

    settlement = decide(job, Trace(handle=1, delivery=1, started_at=NOW - 5))

    assert settlement.started_at == NOW - 7


def test_a_job_that_had_not_started_is_given_back_uncharged():
    job = a_held_job()
    other = Trace(handle=1, delivery=2, started_at=NOW)

    assert decide(job, other) == settle.released(job)


def test_a_job_that_the_engine_saw_start_ran_whatever_the_record_says():
    settlement = decide(a_held_job(started_at=NOW - 7))

    assert (settlement.crash, settlement.started_at) == (True, NOW - 7)


def test_what_an_incomplete_record_does_not_tell_of_counts_as_running():
    settlement = decide(a_held_job(), is_whole=False)

    assert (settlement.verb, settlement.crash, settlement.started_at) == (
        Verb.RECLAIM,
        True,
        NOW,
    )


def test_a_job_for_which_its_worker_had_to_be_ended_has_timed_out():
    job = a_held_job(failures=1)
    trace = Trace(handle=1, delivery=1, started_at=NOW - 9, timed_out_after=3 * SECOND)

    settlement = decide(job, trace)

    assert (settlement.verb, settlement.charge, settlement.crash) == (Verb.RETRY, True, False)
    assert settlement.delay == 2 * SECOND
    assert settlement.failure is not None
    assert settlement.failure.kind == "timeout"
    assert "3 s" in settlement.failure.message


def test_the_last_timeout_of_a_job_kills_it():
    job = a_held_job(failures=4, max_attempts=5)
    trace = Trace(handle=1, delivery=1, started_at=NOW - 9, timed_out_after=3 * SECOND)

    assert decide(job, trace).verb is Verb.KILL


def test_a_job_that_someone_cancelled_is_not_run_again():
    job = a_held_job(cancel_requested=True)

    assert decide(job, Trace(handle=1, delivery=1, started_at=NOW)).verb is Verb.CANCEL


def _outcome_at(cell: int, *, capacity: int) -> int:
    return 4096 + (capacity + 1) * 40 + cell * 520
