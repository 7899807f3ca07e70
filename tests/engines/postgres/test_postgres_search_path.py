"""What others create in `public` is not run inside Longshore's functions."""

from collections.abc import AsyncIterator

import pytest

from longshore.contract import Engine, JobFilter, Retention
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.core.state import Verb
from longshore.engines.postgres.connection import Connection
from longshore.records import queue_settings
from longshore.testing.factories import DAY, HOUR, a_job, a_settlement
from longshore.testing.manual import a_worker

PINNED = "search_path=pg_catalog, pg_temp"
ELEMENTS = ("bigint", "integer", "smallint", "text", "bytea", "uuid")
TRAPS = {
    "unnest({0}[])": ("setof {0}", "return query select * from pg_catalog.unnest($1);"),
    "cardinality({0}[])": ("integer", "return pg_catalog.cardinality($1);"),
}

# An attacker's function with the exact types beats the general one of pg_catalog. It does what
# that does, and notes from where it was called.
TRAP = """
create function public.{head} returns {kind} language plpgsql as $$
declare
    stack text;
begin
    get diagnostics stack = pg_context;
    insert into public.caught values (stack);
    {body}
end
$$
"""


@pytest.fixture
async def traps(db: Connection) -> AsyncIterator[None]:
    """A user who may create in `public`, and does."""
    await db.execute("create table public.caught (stack text)")
    await db.execute("grant all on public.caught to public")
    await db.execute("create role mallory")
    await db.execute("grant create, usage on schema public to mallory")
    await db.execute("set role mallory")
    heads: list[str] = []
    for element in ELEMENTS:
        for head, (kind, body) in TRAPS.items():
            heads.append(head.format(element))
            made = TRAP.format(head=heads[-1], kind=kind.format(element), body=body)
            await db.execute(made)
    await db.execute("reset role")
    yield
    for head in heads:
        await db.execute(f"drop function public.{head}")
    await db.execute("drop table public.caught")
    await db.execute("revoke all on schema public from mallory")
    await db.execute("drop role mallory")


async def test_every_function_names_its_search_path_or_looks_up_nothing(
    engine: Engine, db: Connection
):
    found = await db.fetch(
        """
        select p.oid::regprocedure::text as name, l.lanname, p.prosecdef,
               p.prosqlbody is not null as is_parsed,
               coalesce(p.proconfig, '{}') as settings
          from pg_proc p join pg_language l on l.oid = p.prolang
         where p.pronamespace = 'longshore'::regnamespace
        """
    )

    loose = [
        one["name"]
        for one in found
        # A function in SQL was parsed when it was made, and can still be inlined.
        if not (one["is_parsed"] if one["lanname"] == "sql" else PINNED in one["settings"])
    ]
    assert len(found) > 100
    assert {one["lanname"] for one in found} == {"sql", "plpgsql"}
    assert loose == []
    assert not any(one["prosecdef"] for one in found)


async def test_functions_of_others_are_not_run_by_those_of_longshore(
    engine: Engine, db: Connection, traps: None
):
    await queue_settings.put(
        engine, "mail", Layer.OVERRIDDEN, QueueSettings(max_running=50, rate=1000.0)
    )
    jobs = [a_job(queue="mail") for _ in range(5)]
    keyed = [a_job(queue="mail", idempotency_key="k"), a_job(queue="mail", ordering_key="anna")]
    await engine.submit([*jobs, *keyed, a_job(queue="mail", delay=HOUR)])
    worker = await a_worker(engine, queues=["mail"])
    claims = (await worker.exchange(want=10)).claims
    await worker.exchange(settlements=[a_settlement(one, Verb.SUCCEED) for one in claims])
    await engine.find(JobFilter(), limit=10)
    await engine.promote(limit=10)
    await engine.prune(Retention(succeeded=DAY), limit=10)
    # Someone who calls by hand, along the usual path.
    await db.fetch("select longshore.mask(array[1, 2], 8)")

    stacks = [row["stack"] for row in await db.fetch("select stack from public.caught")]
    inside = [one for one in stacks if "function longshore." in one]
    assert len(claims) == 7
    assert inside == []
