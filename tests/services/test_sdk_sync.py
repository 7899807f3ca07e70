"""The app from code that does not await."""

import asyncio
import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from longshore import ConfigError, IdempotencyError, Longshore, State, WaitTimeoutError
from longshore.task import SyncTask


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Longshore]:
    app = Longshore(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal")
    yield app
    app.sync.close()


@pytest.fixture
def add(app: Longshore) -> SyncTask[[int, int], int]:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    return add


def test_a_plain_function_submits_and_asks(app: Longshore, add: SyncTask[[int, int], int]):
    handle = app.sync.submit(add.spec(1, 2))

    assert app.sync.get(handle).payload == {"a": 1, "b": 2}
    with pytest.raises(WaitTimeoutError):
        app.sync.result(handle, timeout=0)
    assert app.sync.cancel(handle, "no need").reason == "no need"


def test_an_error_is_the_callers_own(app: Longshore, add: SyncTask[[int, int], int]):
    app.sync.submit(add.using(key="k").spec(1, 2))

    with pytest.raises(IdempotencyError):
        app.sync.submit(add.using(key="k").spec(1, 3))


def test_many_threads_share_one_loop(app: Longshore, add: SyncTask[[int, int], int]):
    def submit(n: int) -> str:
        return app.sync.submit(add.spec(n, n)).id

    with ThreadPoolExecutor(16) as pool:
        ids = set(pool.map(submit, range(200)))

    loops = [thread for thread in threading.enumerate() if thread.name == "longshore-sync"]
    assert len(ids) == 200
    assert len(loops) == 1


def test_many_jobs_travel_in_one_call(app: Longshore, add: SyncTask[[int, int], int]):
    handles = app.sync.submit_many(add.spec(n, n) for n in range(50))

    assert [app.sync.get(handles[n]).payload for n in (0, 49)] == [
        {"a": 0, "b": 0},
        {"a": 49, "b": 49},
    ]


def test_it_can_be_closed_and_used_again(app: Longshore, add: SyncTask[[int, int], int]):
    first = app.sync.submit(add.spec(1, 2))
    app.sync.close()
    app.sync.close()

    assert app.sync.get(first).state is State.READY


async def test_a_thread_uses_the_loop_on_which_the_app_is_open(add: SyncTask[[int, int], int]):
    app = Longshore("sqlite://:memory:")
    async with app:
        handle = await asyncio.to_thread(app.sync.submit, app.spec("add", {"a": 1}))

        assert await handle.status() is State.READY
        assert not [t for t in threading.enumerate() if t.name == "longshore-sync"]


async def test_it_does_not_block_the_loop_it_needs(add: SyncTask[[int, int], int]):
    app = Longshore("sqlite://:memory:")
    async with app:
        with pytest.raises(ConfigError, match="await instead"):
            app.sync.submit(app.spec("add"))


async def test_the_app_is_open_on_one_loop_at_a_time(
    app: Longshore, add: SyncTask[[int, int], int]
):
    await asyncio.to_thread(app.sync.submit, add.spec(1, 2))

    with pytest.raises(ConfigError, match=r"app\.sync"):
        await app.__aenter__()
    app.sync.close()
    async with app:
        assert await app.engine.counts()


def test_a_job_can_be_submitted_inside_a_transaction(
    app: Longshore, add: SyncTask[[int, int], int], tmp_path: Path
):
    app.sync.submit(add.spec(0, 0))
    connection = sqlite3.connect(tmp_path / "jobs.db")
    connection.execute("create table orders (id integer)")
    connection.commit()

    connection.execute("insert into orders values (1)")
    undone = app.sync.submit(add.using(connection=connection).spec(1, 1))
    connection.rollback()
    connection.execute("insert into orders values (2)")
    done = app.sync.submit(add.using(connection=connection).spec(2, 2))
    connection.commit()

    assert app.sync.get(done).payload == {"a": 2, "b": 2}
    with pytest.raises(Exception, match="no job has the id"):
        app.sync.get(undone)
    assert connection.execute("select * from orders").fetchall() == [(2,)]
    connection.close()


def test_the_app_is_opened_before_a_transaction_and_not_inside_it(
    app: Longshore, add: SyncTask[[int, int], int], tmp_path: Path
):
    connection = sqlite3.connect(tmp_path / "jobs.db")
    connection.execute("create table orders (id integer)")
    connection.execute("insert into orders values (1)")

    with pytest.raises(ConfigError, match=r"app\.sync\.open\(\)"):
        app.sync.submit(add.using(connection=connection).spec(1, 1))
    connection.commit()
    app.sync.open()
    connection.execute("insert into orders values (2)")
    job = app.sync.submit(add.using(connection=connection).spec(2, 2))
    connection.commit()

    assert app.sync.get(job).state is State.READY
    connection.close()


def _submit_in_child(app: Longshore, pipe: "multiprocessing.connection.Connection") -> None:
    pipe.send(app.sync.submit(app.spec("add", {"a": 1, "b": 2})).id)
    pipe.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own(app: Longshore, add: SyncTask[[int, int], int]):
    app.sync.submit(add.spec(1, 1))
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(
        target=_submit_in_child, args=(app, theirs)
    )
    # Another thread of the parent may be in the middle of a call when the fork happens.
    with app.sync._lock:
        child.start()
    assert ours.poll(30)
    child.join(30)

    assert child.exitcode == 0
    assert app.sync.get(app.job(ours.recv())).payload == {"a": 1, "b": 2}


SCRIPT = """
from longshore import Longshore
app = Longshore("sqlite:///jobs.db")
handle = app.sync.submit(app.spec("add"))
print(handle.id)
"""


@pytest.mark.slow
def test_a_script_ends_without_being_told(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.strip()) == 36
