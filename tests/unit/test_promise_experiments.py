"""What the experiments that try one promise each make of what their ledgers say."""

from longshore_lab.experiments import firing
from longshore_lab.experiments.findings import Findings
from longshore_lab.firing import FiringVerdict, beaten, blows_for
from longshore_lab.firing import judge as judged_firing
from longshore_lab.records import DueRan, FaultKind

BEATEN = beaten(1)
DUE = firing.Due(faults=2, least_due=2)


def broken(findings: Findings) -> list[str]:
    return [one.words for one in findings.promises if not one.holds]


def a_verdict(*ran: tuple[int, str], kills: int = 1, stops: int = 1) -> FiringVerdict:
    """Of a schedule that was due at 1 and at 2."""
    expected = {("tenth-0", 1), ("tenth-0", 2)}
    verdict = judged_firing(expected, [DueRan(9, "tenth-0", due, job, 1) for due, job in ran])
    verdict.kills, verdict.stops = kills, stops
    return verdict


def test_due_times_that_fired_once_each_hold():
    found = firing.findings(a_verdict((1, "a"), (2, "b")), BEATEN, DUE)

    assert found.holds
    assert found.headline.startswith("0 of 2 due times fired twice and 0 never, over 1 ×")
    assert found.tables[0].rows[0] == ["tenth-0", "0.1 s", "2", "0", "0"]
    assert found.tables[0].rows[1][:2] == ["UTC 1s", "`* * * * * *`"]


def test_a_due_time_that_fired_twice_or_never_or_was_none_breaks_its_promise():
    twice = firing.findings(a_verdict((1, "a"), (1, "b"), (2, "c")), BEATEN, DUE)
    never = firing.findings(a_verdict((1, "a")), BEATEN, DUE)
    strange = firing.findings(a_verdict((1, "a"), (2, "b"), (3, "c")), BEATEN, DUE)

    assert broken(twice) == ["no due time has two jobs"]
    assert broken(never) == ["no due time is missed"]
    assert broken(strange) == ["no job runs for a time that is none"]
    assert twice.tables[0].rows[0][3:] == ["1", "0"]


def test_too_few_due_times_or_faults_show_nothing():
    found = firing.findings(a_verdict((1, "a"), (2, "b"), kills=0), BEATEN, DUE)
    few = firing.findings(a_verdict((1, "a"), (2, "b")), BEATEN, firing.Due(faults=2))

    assert broken(found) == ["every fault of the plan was done"]
    assert broken(few) == ["there were at least 1,000 due times"]


def test_the_seed_decides_who_is_hit_and_kills_and_stops_take_turns():
    blows = blows_for(1, 4, every=3.0)

    assert blows == blows_for(1, 4, every=3.0)
    assert blows != blows_for(2, 4, every=3.0)
    assert [one.kind for one in blows] == [FaultKind.KILL, FaultKind.STOP] * 2
