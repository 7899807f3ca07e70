"""What became of faults: told as they were done, done under load, and survived soon."""

from typing import Any

import pytest

from longshore_lab.aftermath import Hit, idle, look_back, slow, untold
from longshore_lab.history import History, gather
from longshore_lab.records import (
    Claimed,
    Entry,
    Fate,
    Fault,
    FaultKind,
    Settled,
    SubmitAcknowledged,
    SubmitCalled,
    SubmitUnknown,
)
from longshore_lab.strokes import Harm, Span

SECOND = 1_000_000


def claimed(second: float, worker: str = "worker-1", *, asked: float | None = None) -> Entry:
    called = second if asked is None else asked
    return Entry(worker, Claimed(at(second), at(called), "a", 1))


def settled(second: float, *, accepted: bool = True) -> Entry:
    return Entry("worker-1", Settled(at(second), at(second), "a", 1, "succeed", accepted))


def submitted(second: float, batch: str = "0.1", *, refused: bool = False) -> list[Entry]:
    call = SubmitCalled(at(second), f"job {batch}", 0, batch, Fate.SUCCEEDED, 3)
    answer = SubmitUnknown(at(second) + 1, batch, "the disk is full")
    return [Entry("producer-1", one) for one in ([call, answer] if refused else [call])]


def at(second: float) -> int:
    return round(second * SECOND)


def hit(harm: Harm, whole: float, *, began: float | None = None) -> Hit:
    return Hit(harm, Span(at(whole if began is None else began), at(whole)))


def told(*entries: Entry) -> History:
    return gather(sorted(entries, key=lambda one: one.record.at))


@pytest.mark.parametrize(
    ("done", "violations"),
    [
        ({"kill_worker": 2, "kill_api": 1, "stop_worker": 1}, 0),
        ({"kill_worker": 3, "kill_api": 1, "stop_worker": 1}, 1),
        ({"kill_worker": 3}, 1),
        ({"kill_worker": 2, "kill_api": 1, "stop_worker": 1, "terminate_worker": 7}, 7),
    ],
)
def test_a_signal_that_is_told_of_must_be_in_the_ledger(done: dict[str, int], violations: int):
    figures: Any = type("Figures", (), {"kills": 3, "stops": 1, "terminations": 0})

    assert untold(done, figures).violations == violations


def test_a_fault_after_the_last_submission_hit_an_idle_fleet():
    history = told(*submitted(10), claimed(20))

    found = idle([hit(Harm.CRASH, 9), hit(Harm.KILL_WORKER, 11)], history)

    assert (found.checked, found.examples) == (2, [str(Harm.KILL_WORKER)])


def test_work_that_does_not_go_on_soon_after_store_or_wire_is_whole_is_found():
    history = told(claimed(1), claimed(12.5), settled(13))

    assert slow([hit(Harm.CRASH, 3)], history).holds
    assert slow([hit(Harm.CRASH, 2)], history).examples == [f"10.5 s: {Harm.CRASH}"]
    assert slow([hit(Harm.KILL_WORKER, 2)], history).checked == 0


def test_only_what_was_asked_for_and_given_after_it_was_whole_is_work_again():
    history = told(claimed(1), claimed(4, asked=2), settled(5, accepted=False), settled(7))

    assert look_back([hit(Harm.RESET, 3)], history).back_longest == 4.0


def test_a_worker_that_never_came_back_is_told_though_others_did():
    still = [claimed(1, "worker-1"), claimed(1, "worker-2")]
    work = [claimed(second, "worker-2") for second in range(3, 60)]

    found = look_back([hit(Harm.HALF_OPEN, 2)], told(*still, *work))

    assert (found.back_longest, found.back_last_worker) == (1.0, 57.0)


def test_a_worker_that_was_hurt_need_not_come_back():
    still = [claimed(1, "worker-1"), claimed(1, "worker-2")]
    work = [claimed(second, "worker-2") for second in range(3, 60)]
    killed = Entry("runner", Fault(at(5), "worker-1", FaultKind.KILL))

    found = look_back([hit(Harm.HALF_OPEN, 2)], told(*still, *work, killed))

    assert found.back_last_worker == 1.0


def test_a_submission_counts_as_accepted_again_only_if_it_was_made_after_the_fault():
    calls = [*submitted(1, "0.1"), *submitted(3, "1.1")]
    answers = [
        Entry(
            "producer-1", SubmitAcknowledged(at(second), f"job {batch}", 0, batch, "a", "new")
        )
        for second, batch in ((2.5, "0.1"), (6, "1.1"))
    ]

    found = look_back([hit(Harm.HALF_OPEN, 2)], told(*calls, *answers))

    assert found.taken_longest == 4.0


def test_submissions_refused_while_the_disk_was_full_are_counted():
    calls = [
        *submitted(1, "0.1", refused=True),
        *submitted(5, "1.1", refused=True),
        *submitted(6, "1.2"),
    ]

    found = look_back([hit(Harm.FILL_DISK, 7, began=4)], told(*calls))

    assert found.refused_when_full == 1
