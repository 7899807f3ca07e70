"""The view `longshore.jobs`, as someone with psql reads it."""

import pytest

from longshore.contract import Engine
from longshore.core import ids, settle
from longshore.engines.postgres.connection import Connection
from longshore.testing.factories import a_job, an_unchecked_job
from longshore.testing.manual import a_worker

EVERY_BYTE = bytes(range(256))
AS_TEXT = [
    (b"{}", "{}"),
    (b"", ""),
    ('{"name": "Łódź 🚢"}'.encode(), '{"name": "Łódź 🚢"}'),
    (EVERY_BYTE, rf"\x{EVERY_BYTE.hex()}"),
    (b"a\0b", r"\x610062"),
    (b"\xed\xa0\x80", r"\xeda080"),
]
NAMES = ["object", "empty", "unicode", "every byte", "a zero", "half of a pair"]


@pytest.mark.parametrize(("stored", "shown"), AS_TEXT, ids=NAMES)
async def test_whatever_a_job_carries_people_can_read_all_of_them(
    engine: Engine, db: Connection, stored: bytes, shown: str
) -> None:
    other, strange = a_job(), an_unchecked_job(payload=stored)
    await engine.submit([other, strange])

    rows = await db.fetch("select * from longshore.jobs")

    found = {row["id"].bytes: row["payload"] for row in rows}
    assert found == {other.id: "{}", strange.id: shown}


@pytest.mark.parametrize(("stored", "shown"), AS_TEXT, ids=NAMES)
async def test_whatever_a_job_returns_people_can_read_it(
    engine: Engine, db: Connection, stored: bytes, shown: str
) -> None:
    jobs = [a_job(), a_job()]
    await engine.submit(jobs)
    worker = await a_worker(engine)
    now = await engine.now()
    at = {"started_at": now, "finished_at": now}
    claims = await worker.claim(2)
    ends = zip(claims, [stored, None], strict=True)

    await worker.settle(*(settle.succeeded(claim, **at, result=how) for claim, how in ends))

    rows = await db.fetch("select * from longshore.jobs order by id")
    assert [row["result"] for row in rows] == [shown, None]


async def test_text_that_looks_like_bytes_is_shown_as_it_is(
    engine: Engine, db: Connection
) -> None:
    job = an_unchecked_job(payload=rb"\xff")
    await engine.submit([job])

    shown = await db.fetchval(
        "select payload from longshore.jobs where id = $1", ids.text(job.id)
    )

    assert shown == r"\xff"


async def test_the_latest_of_times_and_the_longest_of_spans_are_shown(
    engine: Engine, db: Connection
) -> None:
    last = 2**63 - 1
    await engine.submit(
        [a_job(), an_unchecked_job(run_at=last), an_unchecked_job(timeout=last)]
    )

    rows = await db.fetch(
        "select run_at::text as due, timeout::text from longshore.jobs order by id"
    )

    assert rows[1]["due"].startswith("294247-01-10")
    assert rows[2]["timeout"].startswith("2562047788:00:54")
