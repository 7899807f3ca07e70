"""What a claim looks at. A plan that scans the queue would pass every test but this one."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from longshore.contract import Engine, Retention
from longshore.core.job import NewJob
from longshore.core.settle import failure, killed
from longshore.engines import open_engine
from longshore.engines.sqlite.claims import _merged, claim  # pyright: ignore[reportPrivateUsage]
from longshore.engines.sqlite.fair_claims import merged
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.runtime.ids import IdSource

ids = IdSource()


def _plan(path: Path, statement: str, parameters: object) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [row[3] for row in db.execute(f"explain query plan {statement}", parameters)]


@pytest.mark.parametrize("types", [1, 2, 7])
async def test_a_claim_merges_the_heads_of_its_types_without_sorting(
    engine: Engine, path: Path, types: int
) -> None:
    plan = _plan(path, _merged(types), ["q", "t"] * types + [10])

    assert not [step for step in plan if "TEMP B-TREE" in step or "SCAN longshore_" in step]
    front = "longshore_ready USING PRIMARY KEY (queue=? AND type=?)"
    assert sum(front in step for step in plan) == types


async def test_a_lane_is_read_from_its_front_without_sorting(
    engine: Engine, path: Path
) -> None:
    plan = _plan(path, merged(2), ["q", "l", "t"] * 2 + [10])
    names = _plan(path, SQL.lanes, {"queue": "q"})

    assert not [step for step in plan if "TEMP B-TREE" in step or "SCAN longshore_" in step]
    assert sum("longshore_ready_lane (queue=? AND lane=? AND type=?)" in s for s in plan) == 2
    assert not [step for step in names if "SCAN longshore_" in step]
    assert any("longshore_ready_lane (queue=? AND lane>?)" in step for step in names)
    for statement in (SQL.claim_places, SQL.leave_ready, SQL.lane_put):
        scope = {"token": 1, "number": 1, "queue": "q", "jobs": "[]", "seqs": "[]"}
        steps = " ".join(_plan(path, statement, scope))
        assert "USING PRIMARY KEY (queue=? AND type=? AND rank=? AND seq=?)" in steps, steps


@pytest.mark.parametrize("statement", [SQL.claim, SQL.claim_ready])
async def test_what_is_claimed_is_taken_from_the_front_of_each_type(
    engine: Engine, path: Path, statement: str
) -> None:
    place = {"queue": "q", "types": '["t"]', "rank": 1, "seq": 1}
    plan = _plan(path, statement, {"token": 1, "number": 1, **place})

    front = "longshore_ready USING PRIMARY KEY (queue=? AND type=? AND (rank,seq)<(?,?))"
    assert any(front in step for step in plan), plan


@pytest.mark.parametrize(
    ("statement", "parameters", "index"),
    [
        (SQL.due, {"now": 1, "limit": 1}, "longshore_scheduled_due"),
        (SQL.next_due, {}, "longshore_scheduled_due"),
        (SQL.lapsed, {"before": 1, "limit": 1}, "longshore_session_live"),
        (SQL.held, {"token": 1}, "SEARCH h USING PRIMARY KEY (token=?)"),
        (SQL.handed_out, {"token": 1, "number": 1}, "SEARCH h USING PRIMARY KEY (token=?)"),
        (SQL.unwanted, {"token": 1}, "longshore_held_unwanted"),
        (
            SQL.schedule_due,
            {"now": 1, "limit": 1},
            "longshore_record_due (kind=? AND due>? AND due<?)",
        ),
        (
            SQL.quarantine_prune,
            {"before": 1, "limit": 1},
            "longshore_record_age (kind=? AND cr",
        ),
        (SQL.is_muted, {}, "longshore_record USING PRIMARY KEY (kind=? AND name=? AND"),
        (SQL.delete_unique, {"seqs": "[]"}, "longshore_unique USING PRIMARY KEY"),
        (SQL.prune_outbox, {"before": 1, "limit": 1}, "longshore_outbox_age (at<?)"),
        (
            SQL.prune_passed,
            {"before": 1, "limit": 1, "floor": 1},
            "longshore_outbox USING INTEGER PRIMARY KEY (rowid<?)",
        ),
        (SQL.consumers, {"now": 1}, "SEARCH f USING INTEGER PRIMARY KEY (rowid=?)"),
        (SQL.prune_sessions, {"before": 1, "limit": 1}, "longshore_session_ended (closed_at"),
        (SQL.firing_prune, {"before": 1, "limit": 1}, "longshore_firing_age (due<?)"),
        (
            SQL.expired,
            {"state": "dead", "before": 1, "limit": 1, "weight": 1},
            "longshore_finished_age (state=? AND finished_at<?)",
        ),
    ],
)
async def test_every_tick_reads_its_index_and_nothing_else(
    engine: Engine, path: Path, statement: str, parameters: dict[str, object], index: str
) -> None:
    plan = _plan(path, statement, parameters)

    assert any(index in step for step in plan), plan
    assert not [
        step
        for step in plan
        if step.startswith("SCAN longshore_")
        and "INDEX" not in step
        and "longshore_count" not in step
    ], plan


@pytest.mark.parametrize(
    "statement", [SQL.settle_succeeded, SQL.settle, SQL.settled_history, SQL.start]
)
async def test_settling_and_starting_go_claim_by_claim(
    engine: Engine, path: Path, statement: str
) -> None:
    plan = _plan(path, statement, [None] * statement.count("?"))

    assert any("SEARCH h USING PRIMARY KEY (token=? AND seq=?)" in step for step in plan), plan


@pytest.mark.parametrize(
    ("statement", "keys"),
    [
        (SQL.job_times, ["SEARCH j USING INDEX sqlite_autoindex_longshore_job_1 (id=?)"]),
        (SQL.idempotency_get, ["SEARCH i USING PRIMARY KEY (tenant=? AND key=?)"]),
        (SQL.unique_holder, ["SEARCH u USING PRIMARY KEY (tenant=? AND key=?)", "(id=?)"]),
    ],
)
async def test_what_new_jobs_meet_is_looked_up_by_key(
    engine: Engine, path: Path, statement: str, keys: list[str]
) -> None:
    plan = _plan(path, statement, [None] * statement.count("?"))

    assert all(any(key in step for step in plan) for key in keys), plan
    assert not [step for step in plan if step.startswith(("SCAN u", "SCAN i", "SCAN j"))], plan


@pytest.mark.parametrize(
    ("states", "index"),
    [
        (SQL.in_any, "SEARCH j USING INTEGER PRIMARY KEY (rowid<?)"),
        (SQL.in_ready, "SEARCH j USING INTEGER PRIMARY KEY (rowid<?)"),
        (SQL.in_succeeded, "SEARCH j USING INTEGER PRIMARY KEY (rowid<?)"),
        (SQL.in_scheduled, "USING ROWID SEARCH ON TABLE longshore_scheduled"),
        (SQL.in_held, "SCAN longshore_held"),
        (SQL.in_finished, "longshore_finished_age (state=?)"),
    ],
)
async def test_a_page_of_jobs_is_read_in_order_and_each_where_it_stands(
    engine: Engine, path: Path, states: str, index: str
) -> None:
    which = {"tenant": None, "queue": None, "type": None, "tag": None, "state": "dead"}
    statement = SQL.job_columns + states + SQL.job_find
    plan = _plan(path, statement, {**which, "before": 9, "limit": 1})

    assert any(index in step for step in plan), plan
    assert not [step for step in plan if "TEMP B-TREE" in step or step == "SCAN j"], plan
    for place in ("SEARCH r USING PRIMARY KEY", "SEARCH h USING PRIMARY KEY (token=? AND seq"):
        assert any(place in step for step in plan), plan


@pytest.mark.parametrize("statement", [SQL.settle_ready, SQL.settle_scheduled, SQL.let_go])
async def test_jobs_leave_their_holder_one_by_one(
    engine: Engine, path: Path, statement: str
) -> None:
    plan = _plan(path, statement, {"token": 1, "seqs": "[]"})

    assert any("USING PRIMARY KEY (token=? AND seq=?)" in step for step in plan), plan
    assert not [step for step in plan if step.startswith("SCAN longshore_")], plan


async def test_what_was_claimed_is_read_job_by_job(engine: Engine, path: Path) -> None:
    plan = _plan(path, SQL.claimed, {"seqs": "[]"})

    assert any("SEARCH j USING INTEGER PRIMARY KEY" in step for step in plan), plan


async def test_a_claim_costs_the_same_behind_many_jobs_it_may_not_take(
    engine: Engine, path: Path
) -> None:
    """Steps of SQLite's virtual machine, not seconds: the same on any machine."""
    await engine.submit([NewJob(id=ids.make(), type="wanted") for _ in range(5)])
    before = _steps_of_a_claim(path)
    for _ in range(10):
        await engine.submit(
            [NewJob(id=ids.make(), type="excluded", priority=1) for _ in range(1_000)]
        )

    after = _steps_of_a_claim(path)

    assert after < before * 2


async def test_a_claim_does_not_look_at_what_is_parked(engine: Engine, path: Path) -> None:
    await engine.submit([NewJob(id=ids.make(), type="wanted") for _ in range(6)])
    before = _steps_of_a_claim(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "insert into longshore_line (queue, tenant, key, inside, tail)"
            " values ('default', 't', 'k', 1, 200000)"
        )
        db.execute(
            "with recursive n (i) as (select 1 union all select i + 1 from n where i < 200000) "
            "insert into longshore_parked "
            "select 'default', 't', 'k', i, 1000 + i, 0, 0, 0 from n"
        )
        db.commit()

    assert _steps_of_a_claim(path) < before + 10, "that there are lines is asked"


@pytest.mark.parametrize(
    ("statement", "parameters", "keys"),
    [
        (
            SQL.parked_first,
            {"lines": "[]"},
            [
                "SEARCH p USING PRIMARY KEY (queue=? AND tenant=? AND key=? AND place=?)",
                "SEARCH x USING PRIMARY KEY (queue=? AND tenant=? AND key=?)",
            ],
        ),
        (
            SQL.parked_next,
            {"queue": "q", "tenant": "t", "key": "k", "limit": 1, "number": 0},
            ["SEARCH longshore_parked USING PRIMARY KEY (queue=? AND tenant=? AND key=?)"],
        ),
        (SQL.lines, {"names": "[]"}, ["SEARCH l USING PRIMARY KEY (queue=? AND tenant=? AND"]),
        (SQL.keyed, {"seqs": "[]"}, ["SEARCH j USING INTEGER PRIMARY KEY"]),
        (SQL.leave_parked, {"seqs": "[]"}, ["SEARCH longshore_parked USING COVERING INDEX"]),
        (SQL.lines_blocked, {"tenant": None, "limit": 1}, ["longshore_line_blocked"]),
    ],
)
async def test_the_next_of_a_line_is_found_at_its_front(
    engine: Engine, path: Path, statement: str, parameters: dict[str, object], keys: list[str]
) -> None:
    plan = _plan(path, statement, parameters)

    assert all(any(key in step for step in plan) for key in keys), plan
    assert not [step for step in plan if "TEMP B-TREE" in step], plan


def _steps_of_a_claim(path: Path) -> int:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    db = sqlite3.connect(path, isolation_level=None)
    db.set_progress_handler(count, 1)
    db.execute("begin immediate")
    taken, _, _ = claim(
        Transaction(db, 1), (1, 1), 5, queues=["default"], types=frozenset({"wanted"})
    )
    db.execute("rollback")
    db.close()
    assert len(taken) == 5
    return steps


async def test_large_payloads_are_handed_out_and_pruned_in_parts() -> None:
    """Read as one text they would pass SQLite's limit, and whoever asked ask for ever."""
    engine = open_engine("sqlite://:memory:")
    await engine.migrate()
    large = b'{"x":"' + b"x" * (1_000_000) + b'"}'
    jobs = [NewJob(id=ids.make(), type="t", payload=large) for _ in range(70)]
    small = [NewJob(id=ids.make(), type="unserved") for _ in range(10)]
    await engine.submit([*small, *jobs])
    session = await engine.open_session(
        worker="w", queues=["default"], types=["t"], lease=60_000_000
    )

    first, second = [(await session.exchange(number, want=1_000)).claims for number in (1, 2)]
    why, now = failure("ValueError", "too large"), await engine.now()
    ends = [
        killed(claim, why, "no use", started_at=now, finished_at=now)
        for claim in [*first, *second]
    ]
    await session.exchange(3, settlements=ends)
    pruned = [await engine.prune(Retention(dead=0), limit=1_000) for _ in range(2)]

    assert [claim.id for claim in [*first, *second]] == [job.id for job in jobs]
    assert sum(len(claim.payload) for claim in first) < 64 << 20
    assert (sum(pruned), min(pruned) > 0) == (70, True)
    (counts,) = await engine.counts()
    assert (counts.ready, counts.running, counts.dead) == (10, 0, 0)
    await engine.close()
