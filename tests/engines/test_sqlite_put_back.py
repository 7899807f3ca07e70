"""An older copy of a SQLite file is put back: no number is given out twice, no job mixed up."""

import shutil
from pathlib import Path

import pytest

from longshore.contract import Engine
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.errors import ExchangeOrderError
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker, reference


async def opened(path: Path) -> Engine:
    """What a process that is started has."""
    engine = open_engine(f"sqlite:///{path}")
    await engine.migrate()
    return engine


async def give_out(engine: Engine) -> dict[str, set[int]]:
    """Submit, claim, open sessions and read events; the numbers that were given out."""
    worker = await a_worker(engine)
    last = (await engine.span()).last
    await engine.submit([a_job() for _ in range(5)])
    events = await engine.events(after=last, limit=100)
    cursor = await engine.take_cursor("reader", holder="me", lease=SECOND)
    assert cursor is not None
    return {
        "tokens": {worker.session.token},
        "positions": {one.position for one in events},
        "cursors": {cursor.token},
    }


async def test_an_older_file_that_is_put_back_gives_out_no_number_again(tmp_path: Path):
    path, copy = tmp_path / "jobs.db", tmp_path / "copy.db"
    first = await opened(path)
    await give_out(first)
    await first.close()
    shutil.copy(path, copy)
    second = await opened(path)
    lost = await give_out(second)
    await second.close()
    shutil.copy(copy, path)

    third = await opened(path)
    new = await give_out(third)
    await third.close()

    for kind in lost:
        assert lost[kind]
        assert max(lost[kind]) < min(new[kind]), kind


async def test_a_remote_worker_settles_no_other_job_in_an_older_file(tmp_path: Path):
    """Its session is in the copy too, and its job's number is given to another one."""
    path, copy = tmp_path / "jobs.db", tmp_path / "copy.db"
    first = await opened(path)
    token = (await a_worker(first)).session.token
    await first.close()
    shutil.copy(path, copy)
    second = await opened(path)
    await second.submit([a_job()])
    remote = ManualWorker(second, await second.attach_session(token))
    (old,) = await remote.claim(1)
    await second.close()
    shutil.copy(copy, path)
    third = await opened(path)
    await third.submit([a_job()])
    (new,) = await (await a_worker(third)).claim(1)
    remote.session = await third.attach_session(token)

    with pytest.raises(ExchangeOrderError):
        await remote.succeed(old)
    state = (await third.get(new.id)).state
    await third.close()

    assert reference(old) == reference(new)
    assert state is State.RUNNING


async def test_a_file_without_sessions_that_is_put_back_gives_out_no_token_again(
    tmp_path: Path,
):
    path, copy = tmp_path / "jobs.db", tmp_path / "copy.db"
    await (await opened(path)).close()
    shutil.copy(path, copy)
    second = await opened(path)
    lost = (await a_worker(second)).session.token
    await second.close()
    shutil.copy(copy, path)

    third = await opened(path)
    new = (await a_worker(third)).session.token
    await third.close()

    assert lost < new


async def test_consumers_are_behind_by_what_there_is_and_not_by_what_was_left_out(
    tmp_path: Path,
):
    first = await opened(tmp_path / "jobs.db")
    cursor = await first.take_cursor("reader", holder="me", lease=SECOND)
    await first.submit([a_job()])
    await first.close()
    second = await opened(tmp_path / "jobs.db")
    await second.submit([a_job()])
    await second.submit([a_job()])

    (told,) = await second.consumers()
    events = await second.events(after=0, limit=10)
    await second.close()

    assert cursor is not None
    assert told.behind == len(events) == 3
