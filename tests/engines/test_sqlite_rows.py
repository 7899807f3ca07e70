"""Jobs go in and come out in blocks: alike or not, whatever their bytes."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from longshore.contract import Engine
from longshore.core.job import CheckedJob, Claim, NewJob, Verdict
from longshore.engines import open_engine
from longshore.errors import SchemaError
from longshore.runtime.ids import IdSource

ids = IdSource()


async def _claims(engine: Engine) -> list[Claim]:
    session = await engine.open_session(
        worker="w", queues=["default"], types=["a", "b"], lease=60_000_000
    )
    return (await session.exchange(1, want=1_000)).claims


@pytest.mark.parametrize("run", [1, 3, 20, 300])
async def test_jobs_in_runs_of_any_length_keep_their_order_and_their_attributes(
    engine: Engine, run: int
) -> None:
    """Runs of jobs that are alike and single ones are stored by different statements."""
    jobs = [
        NewJob(
            id=ids.make(),
            type="ab"[number // run % 2],
            timeout=None if number // run % 2 else 5,
            trace=f"00-{number // run + 1:032x}-{1:016x}-01",
            tags=("x",) if number // run % 3 else (),
        )
        for number in range(601)
    ]

    answers = await engine.submit(jobs)

    claims = await _claims(engine)
    assert {answer.verdict for answer in answers} == {Verdict.ACCEPTED}
    assert [one.id for one in claims] == [job.id for job in jobs]
    assert [(one.type, one.timeout, one.trace, one.tags) for one in claims] == [
        (job.type, job.timeout, job.trace, job.tags) for job in jobs
    ]


async def test_a_batch_larger_than_any_block_is_answered_job_by_job(engine: Engine) -> None:
    """Ids and keys are looked up in blocks, and those in front stand in the way as well."""
    jobs = [
        NewJob(id=ids.make(), type="a", idempotency_key=f"k{number}", fingerprint=b"1")
        for number in range(300)
    ]
    await engine.submit(jobs[:2])
    other = NewJob(id=ids.make(), type="a", idempotency_key="k299", fingerprint=b"2")

    answers = await engine.submit([*jobs, jobs[7], other])

    assert [one.verdict for one in answers] == [
        *[Verdict.REPEATED] * 2,
        *[Verdict.ACCEPTED] * 298,
        Verdict.REPEATED,
        Verdict.CONFLICT,
    ]
    assert [one.id for one in answers] == [*(job.id for job in jobs), jobs[7].id, jobs[299].id]
    assert [one.id for one in await _claims(engine)] == [job.id for job in jobs]


async def test_jobs_without_keys_that_are_sent_again_are_stored_once(engine: Engine) -> None:
    jobs = [NewJob(id=ids.make(), type="a") for _ in range(600)]
    await engine.submit(jobs[::2])

    answers = await engine.submit([*jobs, jobs[1]])

    expected = [Verdict.REPEATED, Verdict.ACCEPTED] * 300 + [Verdict.REPEATED]
    assert [one.verdict for one in answers] == expected
    assert {one.id for one in await _claims(engine)} == {job.id for job in jobs}


async def test_a_payload_of_any_bytes_comes_back_as_it_went_in(engine: Engine) -> None:
    """They travel strung together, as if they were texts."""
    payloads = [b"", b"\x00", b"\xff\xfe\x00a", b"{}", bytes(range(256)) * 40, b"", b"\xc3"]
    await engine.submit([CheckedJob(id=ids.make(), type="a", payload=one) for one in payloads])

    claims = await _claims(engine)

    assert [one.payload for one in claims] == payloads


async def test_a_file_with_texts_in_utf_16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma encoding = 'UTF-16'")
        db.execute("create table theirs (x)")
    engine = open_engine(f"sqlite:///{path}")

    with pytest.raises(SchemaError, match="UTF-16"):
        await engine.migrate()

    await engine.close()
