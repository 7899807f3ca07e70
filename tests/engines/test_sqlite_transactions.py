"""Submitting inside the caller's own transaction."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from longshore.contract import Engine, JobFilter
from longshore.core.job import CheckedJob, NewJob, Verdict
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.core.state import State
from longshore.engines.sqlite import SqliteEngine
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    JobNotFoundError,
    QueueFullError,
    SchemaError,
)
from longshore.records import queue_settings
from longshore.runtime.ids import IdSource

ids = IdSource()


def a_job(key: str | None = None) -> NewJob:
    return NewJob(id=ids.make(), type="t", idempotency_key=key)


def _submit_on(engine: Engine, connection: object, job: NewJob) -> Verdict:
    assert isinstance(engine, SqliteEngine)
    (answer,) = engine.submit_on(connection, [job])
    return answer.verdict


async def test_a_job_exists_exactly_if_the_callers_transaction_commits(
    engine: Engine, path: Path
) -> None:
    db = sqlite3.connect(path)
    db.execute("create table orders (id integer primary key)")
    kept, dropped = a_job(), a_job()

    db.execute("insert into orders values (1)")
    _submit_on(engine, db, kept)
    db.commit()
    db.execute("insert into orders values (2)")
    _submit_on(engine, db, dropped)
    db.rollback()

    assert (await engine.get(kept.id)).state is State.READY
    with pytest.raises(JobNotFoundError):
        await engine.get(dropped.id)
    assert db.execute("select count(*) from orders").fetchone() == (1,)
    assert len(await engine.events(after=0, limit=10)) == 1
    db.close()


async def test_a_job_sent_twice_in_ones_own_transaction_is_one_job(
    engine: Engine, path: Path
) -> None:
    job = a_job()
    with closing(sqlite3.connect(path)) as db, db:
        first = _submit_on(engine, db, job)
        second = _submit_on(engine, db, job)

    assert (first, second) == (Verdict.ACCEPTED, Verdict.REPEATED)


async def test_a_full_queue_takes_nothing_in_ones_own_transaction(
    engine: Engine, path: Path
) -> None:
    """What the transaction itself put there counts, and a refusal leaves it usable."""
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, QueueSettings(max_depth=2))
    await engine.submit([a_job()])
    kept, refused = a_job("k"), a_job()
    with closing(sqlite3.connect(path)) as db, db:
        _submit_on(engine, db, kept)
        with pytest.raises(QueueFullError) as error:
            _submit_on(engine, db, refused)
        again = _submit_on(engine, db, kept)
        by_key = _submit_on(engine, db, a_job("k"))

    assert 1.0 <= error.value.retry_after <= 30.0  # more than 1 where counting was slow
    assert (again, by_key) == (Verdict.REPEATED, Verdict.REPEATED)
    assert [one.ready for one in await engine.counts()] == [2]


async def test_a_connection_to_another_file_is_refused(engine: Engine, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as db, pytest.raises(ConfigError):
        _submit_on(engine, db, a_job())


async def test_something_that_is_no_connection_is_refused(engine: Engine) -> None:
    with pytest.raises(ConfigError):
        _submit_on(engine, object(), a_job())


async def test_autocommit_would_break_the_promise_and_is_refused(
    engine: Engine, path: Path
) -> None:
    """Without an open transaction the job could exist while the caller's data does not."""
    db = sqlite3.connect(path, isolation_level=None)

    with pytest.raises(ConfigError, match="begin"):
        _submit_on(engine, db, a_job())

    db.close()


def _as_dict(cursor: sqlite3.Cursor, row: tuple[object, ...]) -> dict[str, object]:
    return dict(zip((column[0] for column in cursor.description), row, strict=True))


@pytest.mark.parametrize("rows", [None, sqlite3.Row, _as_dict], ids=["plain", "Row", "dict"])
@pytest.mark.parametrize("text", [str, bytes])
async def test_a_connection_may_read_rows_and_text_as_it_likes(
    engine: Engine, path: Path, rows: Any, text: Any
) -> None:
    """Uniqueness reads rows and text: a key must hold however the caller reads them."""
    db = sqlite3.connect(path)
    db.row_factory, db.text_factory = rows, text
    keyed = [NewJob(id=ids.make(), type="t", unique_key="k") for _ in range(2)]

    verdicts = [_submit_on(engine, db, job) for job in keyed]
    db.commit()

    assert verdicts == [Verdict.ACCEPTED, Verdict.UNIQUE]
    assert (db.row_factory, db.text_factory) == (rows, text)
    assert len(await engine.events(after=0, limit=10)) == 1
    db.close()


@pytest.mark.parametrize("level", ["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
async def test_every_kind_of_transaction_will_do(
    engine: Engine, path: Path, level: Any
) -> None:
    db, job = sqlite3.connect(path, isolation_level=level), a_job()

    _submit_on(engine, db, job)
    db.commit()

    assert (await engine.get(job.id)).state is State.READY
    db.close()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the attribute is new in 3.12")
@pytest.mark.parametrize("autocommit", [True, False])
async def test_a_job_waits_for_no_commit_that_does_nothing(
    engine: Engine, path: Path, autocommit: bool
) -> None:
    connect: Any = sqlite3.connect
    db = connect(path, autocommit=autocommit)
    job = a_job()

    try:
        _submit_on(engine, db, job)
    except ConfigError:
        assert autocommit
    else:
        db.commit()
        assert (await engine.get(job.id)).state is State.READY
    db.close()


async def test_a_savepoint_of_the_callers_own_takes_the_job_back(
    engine: Engine, path: Path
) -> None:
    kept, dropped = a_job(), a_job()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("begin")
    _submit_on(engine, db, kept)
    db.execute("savepoint longshore")
    _submit_on(engine, db, dropped)
    db.execute("rollback to longshore")
    db.execute("commit")

    assert (await engine.get(kept.id)).state is State.READY
    with pytest.raises(JobNotFoundError):
        await engine.get(dropped.id)
    assert len(await engine.events(after=0, limit=10)) == 1
    db.close()


@pytest.mark.parametrize("key", [None, "k"], ids=["plain", "keyed"])
async def test_a_refused_batch_leaves_nothing_in_the_callers_transaction(
    engine: Engine, path: Path, key: str | None
) -> None:
    """Half a batch, and no event of it, would be committed with the caller's data."""
    assert isinstance(engine, SqliteEngine)
    good = NewJob(id=ids.make(), type="t", unique_key=key)
    bad = [CheckedJob(id=ids.make(), type="\ud800") for _ in range(300)]
    db = sqlite3.connect(path)
    db.execute("create table orders (id integer primary key)")
    db.execute("insert into orders values (1)")

    with pytest.raises(ConfigError):
        engine.submit_on(db, [good, *bad])
    db.commit()

    assert (await engine.find(JobFilter(), limit=10)).jobs == []
    assert db.execute("select count(*) from orders").fetchone() == (1,)
    db.close()


async def test_a_held_write_lock_is_said_so(engine: Engine, path: Path) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("begin immediate")
    db = sqlite3.connect(path, timeout=0)

    with pytest.raises(EngineBusyError):
        _submit_on(engine, db, a_job())

    holder.close()
    db.close()


async def test_a_file_without_the_schema_is_said_so(tmp_path: Path) -> None:
    from longshore.engines import open_engine

    path = tmp_path / "bare.db"
    engine = open_engine(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table mine (x)")
        db.execute("insert into mine values (1)")
        with pytest.raises(SchemaError):
            _submit_on(engine, db, a_job())
    await engine.close()
