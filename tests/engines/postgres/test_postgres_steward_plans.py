"""What the ticks look at, on empty and on freshly filled tables.

A plan that reads a whole table would pass every test but this one. The server tells the plans
of the statements inside its functions as well.
"""

import re
from collections.abc import AsyncIterator

import asyncpg
import pytest
from plans import Plans, forget_statistics, tell_plans, unbounded

from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.sql import SQL

FILL = """
    insert into longshore.segment
    select s, 'q', 't', 'x', 5, 1, null, 1, 10, 10, decode(repeat('00', 160), 'hex'),
           'aaaaaaaaaa', '{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}'
      from generate_series(1, 2000) s;
    insert into longshore.scheduled
        (run_at, segment, lo, hi, size, weight, queue, type, rank)
    select s, s, 0, 10, 10, 1, 'q', 't', 1 from generate_series(1, 2000) s;
    insert into longshore.finished
        (segment, lo, hi, size, state, run_at, delivery, attempt, failures, crashes, lapses,
         finished_at, finished)
    select s, 0, 10, 10, case when s % 2 = 0 then 'dead' else 'succeeded' end, 1, 1, 1, 0, 0,
           0, s, array_fill(s::bigint, array[10])
      from generate_series(1, 2000) s;
    insert into longshore.locator
    select gen_random_uuid(), s, 0 from generate_series(1, 2000) s;
    insert into longshore.outbox (at, body, position)
    select s, 'a', case when s < 1500 then s end from generate_series(1, 2000) s;
    select setval('longshore.outbox_position', 5000);
    insert into longshore.idempotency
    select 'x', s::text, 'a', gen_random_uuid(), s, s from generate_series(1, 2000) s;
    insert into longshore.firing select 'x', 'a', s, null from generate_series(1, 2000) s;
    insert into longshore.bucket select s::text, s, s from generate_series(1, 2000) s;
    insert into longshore.result select s, 0, 'a' from generate_series(1, 2000) s;
    insert into longshore.attempt
    select s, 0, 1, 1, 'failed' from generate_series(1, 2000) s;
    insert into longshore.uniqueness
    select 'x', s::text, gen_random_uuid() from generate_series(1, 2000) s;
"""
IN_ORDER = {"consumer_pkey", "line_opens", "outbox_fresh"}
"""Indexes that hold nothing but what is asked for, or of a table with a handful of rows."""
NOW = 1_900_000_000_000_000


@pytest.fixture(params=["never looked at", "vacuumed"])
async def connection(
    request: pytest.FixtureRequest, empty_postgres_url: str
) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(empty_postgres_url)
    await forget_statistics(connection, then=request.param)
    await tell_plans(connection)
    yield connection
    await connection.close()


@pytest.mark.parametrize(
    ("statement", "arguments", "indexes"),
    [
        (SQL.next_due, [NOW], {"scheduled_due", "line_opens"}),
        (SQL.promote, [NOW, 10], {"scheduled_due", "segment_pkey"}),
        (SQL.expire, ["succeeded", NOW, 10], {"finished_age", "segment_pkey"}),
        (SQL.expire_dead, [NOW, 10, 1 << 20], {"finished_age", "segment_pkey"}),
        (
            SQL.forget,
            [[1, 2], [0, 0], [10, 10], [None, None]],
            {"locator_pkey", "uniqueness_id", "result_pkey", "attempt_pkey", "segment_pkey"}
            | {"finished_segment", "claim_segment", "ready_segment", "scheduled_segment"},
        ),
        (SQL.prune_old, [NOW, NOW, NOW, 10], {"idempotency_age", "outbox_age", "firing_age"}),
        (SQL.bucket_prune, [NOW, 10], {"bucket_age"}),
        (SQL.outbox_after, [0, 10], {"outbox_fresh", "outbox_order"}),
        (SQL.consumer_unread, [NOW, "kafka", 1, 0, 10], set()),
        (SQL.consumers, [NOW], {"outbox_fresh", "outbox_order"}),
    ],
    ids=lambda value: value.split()[1] if isinstance(value, str) else "",
)
async def test_every_tick_reads_its_indexes_and_nothing_else(
    connection: Connection, statement: str, arguments: list[object], indexes: set[str]
) -> None:
    plans = Plans(connection)
    turn = connection.transaction()
    await turn.start()

    empty = await plans.of(statement, *arguments)
    await connection.execute(FILL)
    filled = await plans.of(statement, *arguments)
    await turn.rollback()

    for plan in (empty, filled):
        assert not re.findall(
            r"Seq Scan on (?!consumer|flow|era_row).*|Bitmap .*|Sort  .*", plan
        )
        assert indexes <= set(re.findall(r"Scan using (\w+)", plan))
        assert set(unbounded(plan)) <= IN_ORDER


async def test_what_consumers_passed_is_pruned_in_its_order(connection: Connection) -> None:
    plans = Plans(connection)
    turn = connection.transaction()
    await turn.start()
    await connection.execute(
        "insert into longshore.consumer (name, seen_at, position) values ('kafka', 1, 1000)"
    )
    empty = await plans.of(SQL.prune_old, NOW, NOW, NOW, 10)
    await connection.execute(FILL)
    filled = await plans.of(SQL.prune_old, NOW, NOW, NOW, 10)
    await turn.rollback()

    for plan in (empty, filled):
        assert not re.findall(r"Seq Scan on (?!consumer).*|Bitmap .*|Sort  .*", plan)
        assert "outbox_order" in re.findall(r"Scan using (\w+)", plan)
        assert set(unbounded(plan)) <= {"consumer_pkey"}
