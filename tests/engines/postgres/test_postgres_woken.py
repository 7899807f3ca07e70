"""What a session that was woken asks first: `longshore.pick_up`, a claim in few statements."""

import json

import asyncpg
import pytest

from longshore.contract import Engine
from longshore.engines.postgres.connection import Connection
from longshore.testing.factories import a_job
from longshore.testing.manual import ManualWorker, a_worker

PICK_UP = """
    select part, attributes
      from longshore.pick_up($1, $2, $3, '{default}', '{noop}', 10, $4)
"""


@pytest.fixture
async def worker(engine: Engine, db: Connection) -> ManualWorker:
    """Waits, and there is a job by now."""
    worker = await a_worker(engine)
    assert await worker.claim() == []
    await engine.submit([a_job()])
    # The first call of a connection takes long, and who takes long claims in the usual way.
    await db.fetch(PICK_UP, 0, 1, await engine.now(), 0)
    return worker


async def asked(db: Connection, worker: ManualWorker, era: int = 0) -> list[asyncpg.Record]:
    """The answer, and the spans that it brings."""
    now = await worker.engine.now()
    era += await db.fetchval("select number from longshore.era")
    return await db.fetch(PICK_UP, worker.session.token, worker.number + 1, now, era)


async def picked_up(db: Connection, worker: ManualWorker, era: int = 0) -> tuple[str, int]:
    """The answer's status, and how many spans it brings."""
    answer, *spans = await asked(db, worker, era)
    return json.loads(answer["attributes"])["status"], len(spans)


async def test_a_woken_session_that_has_not_heard_of_a_crash_claims_nothing(
    worker: ManualWorker, db: Connection
) -> None:
    assert await picked_up(db, worker, era=8) == ("doubt", 0)
    assert await picked_up(db, worker) == ("applied", 1)


async def test_after_a_crash_a_woken_session_claims_nothing_until_all_are_heard_of(
    worker: ManualWorker, db: Connection
) -> None:
    await db.execute("update longshore.era_row set is_clear = false")

    assert await picked_up(db, worker) == ("idle", 0)


@pytest.mark.parametrize(("waits", "commit"), [(True, "off"), (False, "on")])
async def test_only_the_claim_of_a_session_that_said_that_it_waits_is_not_waited_for(
    engine: Engine, worker: ManualWorker, db: Connection, waits: bool, commit: str
) -> None:
    """A crash takes the claim back, and has to bring back that this session waits."""
    other = await a_worker(engine, name="other")
    await db.execute("insert into longshore.waiting values ($1)", other.session.token)
    if not waits:
        await db.execute("delete from longshore.waiting where token = $1", worker.session.token)

    async with db.transaction():
        answer = await picked_up(db, worker)
        set_to = await db.fetchval("show synchronous_commit")

    left = await db.fetch("select token from longshore.waiting")
    assert answer == ("applied", 1)
    assert set_to == commit
    assert [row["token"] for row in left] == [other.session.token]


async def test_a_woken_session_hears_which_of_its_jobs_to_cancel(
    worker: ManualWorker, db: Connection
) -> None:
    await db.execute(
        "insert into longshore.request values ($1, 4096, 1, 'no use')", worker.session.token
    )

    answer, *spans = await asked(db, worker)

    assert json.loads(answer["attributes"])["cancel"] == [[4096, 1, "no use"]]
    assert len(spans) == 1


async def test_each_session_that_finds_nothing_says_that_it_waits(
    engine: Engine, db: Connection
) -> None:
    workers = [await a_worker(engine, name=name) for name in ("one", "other")]

    found = [await worker.claim() for worker in workers]

    waiting = await db.fetch("select token from longshore.waiting order by token")
    assert found == [[], []]
    assert [row["token"] for row in waiting] == [one.session.token for one in workers]
