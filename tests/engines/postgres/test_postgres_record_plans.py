"""What the record store reads of many records: plans with no statistics, and with old ones."""

import re
from collections.abc import AsyncIterator

import asyncpg
import pytest
from plans import Plans, forget_statistics, tell_plans, unbounded

from longshore.contract.records import Order
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.sql import SQL

# As many as a large installation has.
FILL = """
    insert into longshore.record (kind, name, tenant, body, created_at, changed_at, is_unique)
    select 'tenant', 't' || n, '', '{}', n, n, true from generate_series(1, 5000) n;
    insert into longshore.record (kind, name, tenant, body, created_at, changed_at, is_unique)
    select 'key', 'k' || n, 't' || (n % 5000 + 1), '{}', n, n, true
      from generate_series(1, 20000) n;
    insert into longshore.record (kind, name, tenant, body, created_at, changed_at, is_unique)
    select 'schedule', 'daily', 't' || n, '{}', n, n, false from generate_series(1, 5000) n;
"""
TRUNCATE = "truncate longshore.record"
WHOLE = re.compile(r"Seq Scan on record\b.*|Bitmap .*")


@pytest.fixture(params=["never looked at", "vacuumed"])
async def plans(
    request: pytest.FixtureRequest, empty_postgres_url: str
) -> AsyncIterator[Plans]:
    connection = await asyncpg.connect(empty_postgres_url)
    # Pages that others have left empty would say that there are many pages and few rows.
    await connection.execute(TRUNCATE)
    await forget_statistics(connection, then=request.param)
    await connection.execute(FILL)
    await tell_plans(connection)
    yield Plans(connection)
    await connection.execute(TRUNCATE)
    await connection.close()


def used(plan: str) -> list[str]:
    """The indexes that a plan reads, of records."""
    return re.findall(r"Scan(?: Backward)? using (record_\w+)", plan)


async def test_a_key_and_its_tenant_are_two_lookups(plans: Plans) -> None:
    plan = await plans.of(SQL.record_with_tenant, None, "key", "k17")

    assert plan.count("Index Scan using") == 2
    assert used(plan) == ["record_pkey", "record_pkey"]
    assert WHOLE.findall(plan) == unbounded(plan) == []


@pytest.mark.parametrize("tenant", [None, "t3"])
async def test_records_that_are_named_are_looked_up(plans: Plans, tenant: str | None) -> None:
    kinds, names = ["key", "schedule", "queue"], ["k2", "daily", "mail"]

    plan = await plans.of(SQL.records_get, None, kinds, names, [tenant] * 3, True)

    assert set(used(plan)) == {"record_pkey"}
    assert WHOLE.findall(plan) == unbounded(plan) == []


@pytest.mark.parametrize("prefix", ["", "k1"])
@pytest.mark.parametrize("tenant", [None, "", "t3"])
@pytest.mark.parametrize("order", list(Order))
async def test_a_page_begins_where_the_one_before_ended(
    plans: Plans, order: Order, tenant: str | None, prefix: str
) -> None:
    by_name = order is Order.NAME
    index = {
        (True, True): "record_owner",
        (True, False): "record_pkey",
        (False, True): "record_owner_age",
        (False, False): "record_age",
    }[by_name, bool(tenant)]
    bound = r"name >= \$7" if by_name and tenant else r"ROW\((created_at, )?name(, tenant)?\)"
    below = "k2" if prefix else None
    place = (19_000, "k19000", "t4001")

    plan = await plans.of(
        SQL.records_list, None, "key", tenant, prefix, below, order, *place, 51
    )

    assert used(plan) == [index]
    assert re.search(rf"using {index} on record r.*\n *Index Cond: .*{bound}", plan)
    assert WHOLE.findall(plan) == []


async def test_a_write_looks_up_what_it_holds(plans: Plans) -> None:
    one = [["key", "schedule"], ["k5", "daily"], [None, "t3"]]

    plan = await plans.of(SQL.records_hold, *one, ["t3"], ["t4"], ["key"], ["t3"])

    assert set(used(plan)) == {"record_pkey", "record_owner"}
    assert WHOLE.findall(plan) == []


async def test_what_a_tenant_has_is_counted_and_deleted_by_its_name(plans: Plans) -> None:
    counted = await plans.of(SQL.records_count, "t3", ["key"])
    deleted = await plans.of(SQL.records_of_tenant_delete, "t3")

    for plan in (counted, deleted):
        assert "record_owner" in plan
        assert "Seq Scan on record" not in plan


async def test_weights_are_looked_up_by_tenant(plans: Plans, db: Connection) -> None:
    await db.execute(
        "insert into longshore.tenant_weight select 't' || n, 2 from generate_series(1, 5000) n"
    )

    plan = await plans.of(
        "select x.weight from unnest($1::text[]) n left join lateral (select x.weight from"
        " longshore.tenant_weight x where x.tenant = n offset 0) x on true",
        ["t1", "t2"],
    )

    assert "using tenant_weight_pkey" in plan
