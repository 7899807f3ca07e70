"""What the experiments that try one promise each make of what their ledgers say."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from longshore_lab import bank, crash_app
from longshore_lab.bank import OPENING, Transfer
from longshore_lab.experiments import crashing, firing, pledges, transfers
from longshore_lab.experiments.crashing import APART, BESIDE, End
from longshore_lab.experiments.findings import Findings
from longshore_lab.firing import FiringVerdict, beaten, blows_for
from longshore_lab.firing import judge as judged_firing
from longshore_lab.records import DueRan, FaultKind

BEATEN = beaten(1)
DUE = firing.Due(faults=2, least_due=2)
ASKED = [
    Transfer(number=0, source=1, target=2, amount=10),
    Transfer(number=1, source=2, target=0, amount=5),
]
BALANCES = {0: OPENING + 5, 1: OPENING - 10, 2: OPENING + 5}
SIZE = transfers.Transfers(kills=1, stops=1)
ONE_ROW = "each accepted transfer has exactly one row"
ONE_BALANCE = "each account has what the accepted transfers leave there"


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


def a_row(
    one: Transfer, *, delivery: int = 1, at: float = 0.0, **changes: int
) -> dict[str, Any]:
    made = {"number": one.number, "source": one.source, "target": one.target}
    return made | {"amount": one.amount, "delivery": delivery, "s": at} | changes


def audited(rows: list[dict[str, Any]], balances: dict[int, int] = BALANCES) -> Findings:
    done = transfers.Blows(kills=1, stops=1)
    return transfers.findings(ASKED, balances, rows, done, SIZE)


def test_transfers_that_were_made_once_each_hold():
    found = audited([a_row(ASKED[0]), a_row(ASKED[1], delivery=2, at=1.5)])

    assert found.holds
    assert found.headline.startswith("0 of 2 transfers made twice and 0 never, over 1 ×")
    assert found.drawings[0].lines[0].points == [(0.0, 1.0), (1.0, 1.0)]


def test_a_transfer_made_twice_is_seen_by_its_rows_and_by_its_accounts():
    rows = [a_row(ASKED[0]), a_row(ASKED[0], delivery=2), a_row(ASKED[1])]
    balances = BALANCES | {1: BALANCES[1] - 10, 2: BALANCES[2] + 10}

    assert broken(audited(rows, balances)) == [ONE_ROW, ONE_BALANCE]


def test_a_transfer_that_is_missing_or_half_made_or_other_than_asked_for_is_seen():
    first, second = a_row(ASKED[0], delivery=2), a_row(ASKED[1])
    half = BALANCES | {1: BALANCES[1] + 10}

    assert broken(audited([first])) == [ONE_ROW]
    assert broken(audited([first, second], half)) == ["money is conserved", ONE_BALANCE]
    assert broken(audited([first, second | {"amount": 6}])) == [
        "no row says anything else than what was asked for"
    ]


def test_faults_that_cut_nothing_off_show_nothing():
    (words,) = broken(audited([a_row(ASKED[0]), a_row(ASKED[1])]))

    assert "or this shows nothing" in words


def test_the_seed_decides_transfers_and_faults():
    plan = transfers.planned(SIZE)

    assert plan == transfers.planned(SIZE)
    assert sorted(is_kill for _, is_kill, _ in plan) == [False, True]
    assert all(0 < when < SIZE.transfers for when, _, _ in plan)
    assert bank.drawn(1, 9, accounts=3) == bank.drawn(1, 9, accounts=3)
    assert bank.drawn(1, 9, accounts=3) != bank.drawn(2, 9, accounts=3)
    assert all(one.source != one.target for one in bank.drawn(1, 99, accounts=3))


CRASHING = crashing.Crashing(poison=10, healthy=5, waves=2, beside=4)
DEATHS = 3
"""Of workers, when one job may crash twice and one three times."""


def guilty(*, runs: int = 2, is_poison: bool = True, failures: int = 0) -> End:
    return End(
        where=BESIDE,
        how="segfault",
        most=2,
        runs=runs,
        ends=0,
        is_poison=is_poison,
        succeeded=False,
        failures=failures,
        crashes=runs,
    )


def innocent(
    where: str = BESIDE,
    *,
    runs: int = 1,
    ends: int = 1,
    succeeded: bool = True,
    failures: int = 0,
) -> End:
    return End(
        where=where,
        how="",
        most=0,
        runs=runs,
        ends=ends,
        is_poison=False,
        succeeded=succeeded,
        failures=failures,
        crashes=runs - 1,
    )


def judged(*ends: End, deaths: int = DEATHS) -> list[str]:
    return broken(crashing.findings(ends, deaths, CRASHING))


def test_killers_that_ran_as_often_as_they_may_beside_unharmed_neighbours_hold():
    ends = [guilty(), innocent(APART), innocent(runs=3)]

    found = crashing.findings(ends, DEATHS, CRASHING)

    assert found.holds
    assert found.headline.startswith("1 of 1 jobs that kill their process dead as `poison`")
    assert list(found.tables[0].rows[0]) == [BESIDE, "segfault", "2", "1", "2", "1"]


def test_a_killer_that_runs_too_often_or_too_seldom_or_ends_otherwise_is_seen():
    exactly = "it ran exactly `max_crashes` times, by the handlers' own book"

    assert judged(guilty(runs=3)) == judged(guilty(runs=1)) == [exactly]
    assert judged(guilty(is_poison=False, failures=1)) == [
        "every job that kills its process is dead, for the reason `poison`",
        "it is charged no failure",
    ]


def test_a_neighbour_that_is_dead_or_charged_or_never_ended_is_seen():
    succeeds = "every healthy job succeeds, and its handler came to its end"

    assert judged(innocent(succeeded=False)) == judged(innocent(ends=0)) == [succeeds]
    assert judged(innocent(failures=1)) == ["no healthy job is charged a failure"]
    (twice,) = judged(innocent(APART, runs=2))
    assert twice.startswith("beside jobs with a process of their own")


def test_killers_that_kill_no_worker_show_nothing():
    (words,) = judged(guilty(), deaths=DEATHS - 1)

    assert "or this shows nothing" in words


def test_the_seed_decides_the_order_of_killers_and_neighbours():
    first, again, other = (crashing.mixed(CRASHING, Random(seed)) for seed in (1, 1, 2))

    assert [one.n for one in first] == [one.n for one in again] != [one.n for one in other]
    assert Counter(one.most for one in first) == {0: 5, **dict.fromkeys(range(1, 6), 2)}
    waves = crashing.waves(CRASHING, Random(1))
    assert [[one.most for one in wave if one.how] for wave in waves] == [[2], [3]]
    numbers = [one.n for wave in waves for one in wave]
    assert len(set(numbers)) == len(numbers) == 10


def test_the_book_of_the_handlers_tells_beginnings_from_ends(tmp_path: Path):
    assert crash_app.read(tmp_path, crash_app.BEGAN) == {}
    (tmp_path / "runs").write_text("began 1\nbegan 2\nended 2\nbegan 1\n")

    assert crash_app.read(tmp_path, crash_app.BEGAN) == {1: 2, 2: 1}
    assert crash_app.read(tmp_path, crash_app.ENDED) == {2: 1}


def test_every_promise_of_the_readme_names_its_figure_and_its_experiment():
    lines = pledges.promised().splitlines()[2:]

    assert len(lines) == len(pledges.PLEDGES)
    for line, one in zip(lines, pledges.PLEDGES, strict=True):
        assert line.startswith(f"| {one.words} | ")
        assert all(f"[`{witness.experiment}`](docs/" in line for witness in one.witnesses)


def test_a_promise_is_kept_no_better_than_its_weakest_witness(tmp_path: Path):
    lines = pledges.promised(tmp_path).splitlines()[2:]

    assert all("| not tried | no run of `" in line for line in lines)
