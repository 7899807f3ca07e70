"""Who may read and write the file of a queue."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from longshore.engines import open_engine
from longshore.engines.sqlite.connection import Store
from longshore.errors import ConfigError
from longshore.runtime.clock import SystemClock
from longshore.testing.factories import a_job


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {
        one.name: stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir() if one.is_file()
    }


@pytest.mark.parametrize(
    ("option", "mode"), [("", 0o600), ("?mode=0660", 0o660), ("?mode=640", 0o640)]
)
async def test_the_files_have_the_mode_that_the_url_says_whatever_the_umask(
    tmp_path: Path, umask: int, option: str, mode: int
):
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db{option}")
    try:
        await engine.migrate()
        await engine.submit([a_job()])
        found = modes(tmp_path)
    finally:
        await engine.close()

    assert found == dict.fromkeys(("jobs.db", "jobs.db-wal", "jobs.db-shm"), mode)


async def test_a_file_that_exists_keeps_its_mode(tmp_path: Path):
    (tmp_path / "jobs.db").touch()
    (tmp_path / "jobs.db").chmod(0o640)
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db?mode=0660")
    try:
        await engine.migrate()
    finally:
        await engine.close()

    assert modes(tmp_path)["jobs.db"] == 0o640


@pytest.mark.parametrize("mode", ["", "0", "777", "0o660", "0460", "00660", "9999", "ro"])
def test_a_mode_that_makes_no_sense_is_refused(mode: str):
    with pytest.raises(ConfigError, match="mode=0660"):
        open_engine(f"sqlite:///jobs.db?mode={mode}")


def test_threads_that_create_a_file_together_do_not_lose_each_others_locks(tmp_path: Path):
    def enter(number: int) -> int:
        store = Store(path=f"{tmp_path}/{number % 20}.db", clock=SystemClock())
        db = store.connect()
        try:
            assert store.begin(db, within=20)
            db.execute("create table if not exists seen (number integer)")
            db.execute("insert into seen values (?)", (number,))
            db.execute("commit")
            return db.execute("pragma quick_check").fetchone()[0] == "ok"
        finally:
            db.close()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(enter, range(80)))
