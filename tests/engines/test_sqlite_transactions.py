"""Submitting inside the caller's own transaction."""

import sqlite3
from pathlib import Path

import pytest

from longshore.core.job import NewJob, Verdict
from longshore.core.state import State
from longshore.engine import Engine
from longshore.engines.sqlite import SqliteEngine
from longshore.errors import ConfigError, JobNotFoundError, SchemaError
from longshore.runtime.ids import IdSource

ids = IdSource()


def a_job() -> NewJob:
    return NewJob(id=ids.make(), type="t")


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
    with sqlite3.connect(path) as db:
        first = _submit_on(engine, db, job)
        second = _submit_on(engine, db, job)

    assert (first, second) == (Verdict.ACCEPTED, Verdict.REPEATED)


async def test_a_connection_to_another_file_is_refused(engine: Engine, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as db, pytest.raises(ConfigError):
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


async def test_a_file_without_the_schema_is_said_so(tmp_path: Path) -> None:
    from longshore.engines import open_engine

    path = tmp_path / "bare.db"
    engine = open_engine(f"sqlite:///{path}")
    with sqlite3.connect(path) as db:
        db.execute("create table mine (x)")
        db.execute("insert into mine values (1)")
        with pytest.raises(SchemaError):
            _submit_on(engine, db, a_job())
    await engine.close()
