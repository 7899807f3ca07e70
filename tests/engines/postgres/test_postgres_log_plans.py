"""What the audit log looks at, when there is nothing and when there is much."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from plans import Plans, forget_statistics, tell_plans, unbounded

from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.sql import SQL

FILL = (
    """insert into longshore.audit
       (number, at, kind, tenant, actor, action, subject, body, hash)
       select n, n, case when n % 100 = 0 then 'action' else 'transitions' end, '', '', '', '',
              decode(repeat('ab', 200), 'hex'), decode(repeat('00', 32), 'hex')
         from generate_series(1, 5000) n""",
)
LOOKS = (
    (SQL.audit_after, 4_000, 100),
    (SQL.audit_before, 4_000, 100),
    (SQL.audit_actions_before, 4_000, 10),
    (SQL.audit_oldest, 0, 100, 1_000),
    (SQL.audit_cut, 0, 100),
)
KEPT_AFTER = 6
"""Calls of a prepared statement after which the server keeps its plan."""


@pytest.fixture(params=["never looked at", "vacuumed"])
async def connection(
    request: pytest.FixtureRequest, empty_postgres_url: str
) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(empty_postgres_url)
    await forget_statistics(connection, then=request.param)
    yield connection
    await connection.close()


async def test_a_look_into_the_log_reads_no_table_whole(
    connection: Connection,
):
    await tell_plans(connection)
    plans = Plans(connection)
    for statement in FILL:
        await connection.execute(statement)

    told = {look: await plans.of(look, *given) for look, *given in LOOKS}

    assert [look for look, plan in told.items() if "Seq Scan" in plan] == []
    assert [look for look, plan in told.items() if unbounded(plan)] == []


async def test_no_plan_that_was_made_for_empty_tables_outlives_their_next_analyze(
    connection: Connection, request: pytest.FixtureRequest
):
    """Where a table was never analyzed, the plan for the empty one does for the full one."""
    await tell_plans(connection)
    plans = Plans(connection)
    kept = [(await connection.prepare(look), given) for look, *given in LOOKS]
    for prepared, given in kept:
        for _ in range(KEPT_AFTER):
            await prepared.fetch(*given)
    for statement in FILL:
        await connection.execute(statement)
    if "vacuumed" in request.node.name:
        await connection.execute("analyze longshore.audit")

    told = [await plans.told_by(prepared, *given) for prepared, given in kept]

    assert [plan for plan in told if "Seq Scan" in plan or unbounded(plan)] == []
