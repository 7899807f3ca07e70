"""Bad files, full disks and held locks get a clear answer, and nothing is lost."""

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from longshore.contract import Engine
from longshore.core.event import Name, expand
from longshore.core.job import NewJob
from longshore.core.settle import succeeded
from longshore.engines import open_engine
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineError,
    EngineUnavailableError,
    SchemaError,
)
from longshore.records import schedules
from longshore.runtime.ids import IdSource
from longshore_lab.disk import small_disk

ids = IdSource()


def a_batch(count: int = 1, size: int = 2) -> list[NewJob]:
    payload = b'{"x":"' + b"x" * size + b'"}'
    return [NewJob(id=ids.make(), type="t", payload=payload) for _ in range(count)]


@pytest.fixture
def small_place() -> Iterator[Path]:
    """A real file system of one megabyte."""
    with small_disk(2**20) as disk:
        if disk is None:
            if os.environ.get("CI"):
                pytest.fail("cannot mount a small disk here")
            pytest.skip("only root can mount a small disk")
        yield disk.place


async def test_a_full_disk_refuses_new_jobs_and_recovers_when_there_is_room(
    small_place: Path,
) -> None:
    filler = small_place / "filler"
    filler.write_bytes(b"x" * 300_000)
    engine = open_engine(f"sqlite:///{small_place}/jobs.db")
    await engine.migrate()
    accepted = 0
    with pytest.raises(EngineUnavailableError, match="disk is full"):
        for _ in range(100):
            await engine.submit(a_batch(10, size=2_000))
            accepted += 10

    filler.unlink()
    await engine.submit(a_batch(10))

    assert sum(one.ready for one in await engine.counts()) == accepted + 10
    await engine.close()


async def test_an_exchange_that_met_a_full_disk_can_be_sent_again(small_place: Path) -> None:
    """The session's own memory of what it holds goes back with the transaction."""
    engine = open_engine(f"sqlite:///{small_place}/jobs.db")
    await engine.migrate()
    (job,) = a_batch()
    await engine.submit([job])
    session = await engine.open_session(
        worker="w", queues=["default"], types=["t"], lease=60_000_000
    )
    (claim,) = (await session.exchange(1, want=1)).claims
    now, started = await engine.now(), [(claim.handle, claim.delivery)]
    ending = [succeeded(claim, started_at=now, finished_at=now, result=b"1" * 500_000)]
    filler = small_place / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)

    with pytest.raises(EngineUnavailableError, match="disk is full"):
        await session.exchange(2, started=started, settlements=ending)
    filler.unlink()
    answer = await session.exchange(2, started=started, settlements=ending)

    events = [one for batch in await engine.events(after=0, limit=9) for one in expand(batch)]
    assert answer.stale == []
    assert [one.name for one in events] == [Name.SUBMITTED, Name.STARTED, Name.SUCCEEDED]
    await engine.close()


async def test_a_disk_that_became_read_only_is_said_so(small_place: Path) -> None:
    engine = open_engine(f"sqlite:///{small_place}/jobs.db")
    await engine.migrate()
    await engine.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_place)], check=True)
    engine = open_engine(f"sqlite:///{small_place}/jobs.db")

    with pytest.raises(EngineUnavailableError):
        await engine.submit(a_batch())

    await engine.close()


async def test_a_lock_held_for_too_long_is_busy_and_nothing_is_half_done(path: Path) -> None:
    engine = open_engine(f"sqlite:///{path}?busy_timeout=0.1")
    await engine.migrate()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("begin exclusive")

    with pytest.raises(EngineBusyError):
        await engine.submit(a_batch(3))

    holder.execute("rollback")
    await engine.submit(a_batch(2))
    assert [one.ready for one in await engine.counts()] == [2]
    await engine.close()
    holder.close()


async def test_whoever_will_not_wait_for_a_lock_hears_so_though_others_wait_on(
    path: Path,
) -> None:
    engine = open_engine(f"sqlite:///{path}?busy_timeout=60")
    await engine.migrate()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("begin immediate")
    patient = asyncio.create_task(engine.submit(a_batch(2)))
    await asyncio.sleep(0)

    async with asyncio.timeout(20):
        with pytest.raises(EngineBusyError):
            await engine.submit(a_batch(3), max_wait=0.1)
        # By now the writer has waited for a while; who comes late is not forgotten behind it.
        with pytest.raises(EngineBusyError):
            await engine.submit(a_batch(3), max_wait=0)
    assert not patient.done()
    holder.execute("rollback")
    await patient

    assert [one.ready for one in await engine.counts()] == [2]
    await engine.close()
    holder.close()


async def test_a_file_that_is_no_database_is_said_so(path: Path) -> None:
    path.write_bytes(b"this is not a database, but it is long enough to look like one" * 20)
    engine = open_engine(f"sqlite:///{path}")

    with pytest.raises(EngineError, match="not a SQLite database"):
        await engine.migrate()

    await engine.close()


async def test_a_file_without_a_schema_asks_for_migration(path: Path) -> None:
    engine = open_engine(f"sqlite:///{path}")

    with pytest.raises(SchemaError, match="longshore migrate"):
        await engine.submit(a_batch())

    await engine.close()


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    engine = open_engine(f"sqlite:///{tmp_path}/file/jobs.db")

    with pytest.raises(EngineUnavailableError):
        await engine.migrate()

    await engine.close()


async def test_a_migration_that_was_edited_after_it_ran_is_refused(
    engine: Engine, path: Path
) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update longshore_migration set checksum = 'other'")

    with pytest.raises(SchemaError, match="was changed after it was applied"):
        await engine.migrate()


async def test_a_schema_of_a_newer_version_is_refused(engine: Engine, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("insert into longshore_migration values (99, '0099_later', 'x', 99, 0, 0)")

    with pytest.raises(SchemaError, match="upgrade longshore"):
        await engine.ping()


async def test_one_bad_call_in_a_group_commit_leaves_the_others_alone(engine: Engine) -> None:
    """Both calls are queued before the writer wakes, so that they share a commit."""
    import asyncio

    good = asyncio.create_task(engine.submit(a_batch()))
    bad = asyncio.create_task(schedules.delete(engine, "nobody"))
    also_good = asyncio.create_task(engine.submit(a_batch()))

    results = await asyncio.gather(good, bad, also_good, return_exceptions=True)

    assert [type(one).__name__ for one in results] == ["list", "ScheduleNotFoundError", "list"]
    assert [one.ready for one in await engine.counts()] == [2]


async def test_a_closed_engine_answers_instead_of_hanging(path: Path) -> None:
    engine = open_engine(f"sqlite:///{path}")
    await engine.migrate()
    await engine.close()
    await engine.close()

    with pytest.raises(EngineUnavailableError):
        await engine.submit(a_batch())
    with pytest.raises(EngineUnavailableError):
        await engine.counts()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/x.db",
        "sqlite:///x.db?synchronous=off",
        "sqlite:///x.db?busy_timeout=never",
        "sqlite:///x.db?busy_timeout=nan",
        "sqlite:///x.db?bussy_timeout=1",
        "mysql://x",
        "redis://x",
        "jobs.db",
        "",
    ],
)
def test_a_url_that_makes_no_sense_is_a_config_error(url: str) -> None:
    with pytest.raises(ConfigError):
        open_engine(url)


async def test_what_is_shipped_is_on_the_disk_first(engine: Engine, path: Path) -> None:
    """A start is no durable commit; a relay that has seen it must not see it undone."""
    await engine.submit(a_batch())
    session = await engine.open_session(
        worker="w", queues=["default"], types=["t"], lease=60_000_000
    )
    (claim,) = (await session.exchange(1, want=1)).claims
    await session.renew(started=[(claim.handle, claim.delivery)])
    cursor = await engine.take_cursor("kafka", holder="a", lease=60_000_000)
    assert cursor is not None
    before = _frames(path)

    seen = await engine.events(after=0, limit=10, cursor=cursor)
    after = _frames(path)
    await engine.advance(cursor, position=seen[-1].position)
    last = _frames(path)
    await engine.events(after=seen[-1].position, limit=10, cursor=cursor)

    assert [one.name for batch in seen for one in expand(batch)][-1] is Name.STARTED
    assert after > before  # a commit of its own, behind all that was read
    assert _frames(path) == last  # and none where there is nothing to ship


def _frames(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size
