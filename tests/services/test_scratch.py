"""The store of a proof is made beside the user's, and gone afterwards."""

import asyncio
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from longshore.engines import open_engine
from longshore.errors import ConfigError, EngineUnavailableError
from longshore_lab.proof.scratch import scratch


async def test_a_file_is_made_beside_the_users_and_removed(tmp_path: Path):
    mine = tmp_path / "jobs.db"
    url = f"sqlite:///{mine}?synchronous=normal"

    async with scratch(url, tmp_path, is_kept=False) as store:
        engine = open_engine(store.url)
        await engine.migrate()
        await engine.close()
        (made,) = tmp_path.iterdir()
        assert (made / "jobs.db").exists()
        assert store.url.endswith("?synchronous=normal")
        assert store.how_to_remove == "", "nobody has to remove what is gone"

    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_kept_says_how_to_remove_it(tmp_path: Path):
    home = tmp_path / "my jobs"
    home.mkdir()

    async with scratch(f"sqlite:///{home}/jobs.db", tmp_path, is_kept=True) as store:
        pass

    (made,) = home.iterdir()
    assert shlex.split(store.how_to_remove) == ["rm", "-r", str(made)]


async def databases(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("select datname from pg_database")
    finally:
        await connection.close()
    return {row["datname"] for row in rows if row["datname"].startswith("longshore_prove_")}


async def test_a_database_is_made_on_the_users_server_and_dropped_whatever_happens(
    postgres_url: str, tmp_path: Path
):
    before = await databases(postgres_url)
    made: set[str] = set()

    async def interrupted() -> None:
        async with scratch(postgres_url, tmp_path, is_kept=False) as store:
            engine = open_engine(store.url)
            await engine.migrate()
            made.update(await databases(postgres_url) - before)
            assert urlsplit(store.url).path.removeprefix("/") in made
            assert store.how_to_remove == ""
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await interrupted()

    assert len(made) == 1
    assert not made & await databases(postgres_url)


async def test_what_a_killed_proof_left_behind_is_dropped_by_the_next(
    postgres_url: str, tmp_path: Path
):
    connection = await asyncpg.connect(postgres_url)
    await connection.execute('create database "longshore_prove_5f000000_abcdef"')
    await connection.close()

    async with scratch(postgres_url, tmp_path, is_kept=False):
        pass

    assert "longshore_prove_5f000000_abcdef" not in await databases(postgres_url)


async def test_a_role_that_may_make_no_database_is_told_what_to_do(
    postgres_url: str, tmp_path: Path
):
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("create role humble login")
    try:
        url = postgres_url.replace("postgres@", "humble@", 1)

        with pytest.raises(ConfigError, match='alter role "humble" createdb'):
            async with scratch(url, tmp_path, is_kept=False):
                pass
    finally:
        await connection.execute("drop role humble")
        await connection.close()


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("https://jobs.example.com", ConfigError),
        ("sqlite://:memory:", ConfigError),
        ("sqlite:////nowhere/at/all/jobs.db", ConfigError),
        ("redis://localhost", ConfigError),
        ("postgresql://localhost/jobs?pgbouncer=on", ConfigError),
        ("postgresql://127.0.0.1:1/jobs", EngineUnavailableError),
    ],
)
async def test_a_store_that_cannot_be_used_is_refused(
    url: str, error: type[Exception], tmp_path: Path
):
    with pytest.raises(error):
        async with scratch(url, tmp_path, is_kept=False):
            pass

    assert list(tmp_path.iterdir()) == []
