"""A store for one proof, beside the user's and of the same making, removed in the end.

On SQLite a file in a folder of its own, on the same disk and with the same options; on
PostgreSQL a database of its own, on the same server. The user's jobs, events and settings are
neither read nor written.
"""

import secrets
import shlex
import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import msgspec

from longshore.engines.sqlite.notify import wake_folder
from longshore.errors import ConfigError, EngineUnavailableError

__all__ = ["Scratch", "scratch"]

_PREFIX = "longshore_prove_"
_ABANDONED = 3_600
"""Seconds after which nobody can be on the way to a database that has no connections."""
_CONNECT_SECONDS = 10.0
_LEFT_OVER = """
select datname from pg_database d
 where datname like 'longshore\\_prove\\_%'
   and not exists (select from pg_stat_activity a where a.datname = d.datname)
"""


class Scratch(msgspec.Struct, frozen=True):
    """Where a proof has its queue."""

    url: str
    words: str
    """What it is, for people; without a password."""
    how_to_remove: str
    """What removes it; empty if it is gone when the proof is."""


@asynccontextmanager
async def scratch(url: str | None, folder: Path, *, is_kept: bool) -> AsyncGenerator[Scratch]:
    """A store that is removed at the end of the block, unless it is kept."""
    scheme = (url or "sqlite").partition(":")[0].lower()
    if url is None or scheme == "sqlite":
        async with _file(url, folder, is_kept=is_kept) as found:
            yield found
    elif scheme in {"postgresql", "postgres"}:
        async with _database(url, is_kept=is_kept) as found:
            yield found
    elif scheme in {"http", "https"}:
        raise ConfigError(
            "a proof needs the store itself, not a service in front of it; "
            "give --url sqlite:///… or postgresql://…"
        )
    else:
        raise ConfigError(f"a proof knows sqlite:/// and postgresql://, not {scheme}://")


@asynccontextmanager
async def _file(url: str | None, folder: Path, *, is_kept: bool) -> AsyncGenerator[Scratch]:
    options = "" if url is None else url.partition("?")[2]
    home = folder if url is None else _beside(url)
    path = home / "jobs.db"
    words = "a SQLite file" + (f" ({options})" if options else "")
    query = f"?{options}" if options else ""
    is_left = is_kept or home == folder
    try:
        address = f"sqlite:///{quote(str(path))}{query}"
        yield Scratch(address, words, f"rm -r {shlex.quote(str(home))}" if is_left else "")
    finally:
        # A process that was killed leaves the socket behind by which it was woken.
        shutil.rmtree(wake_folder(str(path)), ignore_errors=True)
        if not is_left:
            shutil.rmtree(home, ignore_errors=True)


def _beside(url: str) -> Path:
    """A new folder beside the file that the URL names."""
    place = url.partition("?")[0]
    path = Path(unquote(place.partition(":///")[2]))
    if ":memory:" in place or not path.name:
        raise ConfigError(
            "a queue in memory cannot be shared by processes; name a file: sqlite:///jobs.db"
        )
    folder = path.absolute().parent / f".longshore-prove-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
    except OSError as error:
        raise ConfigError(f"no folder can be made beside {path}: {error.strerror}") from error
    return folder


@asynccontextmanager
async def _database(url: str, *, is_kept: bool) -> AsyncGenerator[Scratch]:
    # Named by the hour of its making, so that a later proof knows what was left behind.
    name = f"{_PREFIX}{int(time.time()):x}_{secrets.token_hex(3)}"
    version = await _asked(url, f'create database "{name}"')
    server = f"a database of its own on PostgreSQL {version.split()[0]}"
    try:
        order = f'drop database "{name}" with (force)'
        yield Scratch(_named(url, name), server, order if is_kept else "")
    finally:
        if not is_kept:
            await _asked(url, f'drop database if exists "{name}" with (force)')


async def _asked(url: str, order: str) -> str:
    """Carry it out in the user's own database, and sweep; the server's version."""
    try:
        import asyncpg  # optional, as the engine is

        from longshore.engines.postgres.address import parse
    except ModuleNotFoundError as error:
        raise ConfigError(
            "PostgreSQL needs a driver; run `pip install 'longshore[postgres]'`"
        ) from error
    address = parse(url)
    if address.is_pooled:
        raise ConfigError("a proof makes a database, which PgBouncer cannot; name the server")
    try:
        connection = await asyncpg.connect(address.dsn, timeout=_CONNECT_SECONDS)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise EngineUnavailableError(f"the server does not answer: {error}") from error
    try:
        await _sweep(connection)
        await connection.execute(order)
        return await connection.fetchval("show server_version")
    except asyncpg.InsufficientPrivilegeError as error:
        user = await connection.fetchval("select current_user")
        raise ConfigError(
            f"a proof runs in a database of its own, and {user!r} may make none; "
            f'run `alter role "{user}" createdb`, or give the URL of a role that may'
        ) from error
    finally:
        await connection.close()


async def _sweep(connection: Any) -> None:
    """Drop what a proof that was killed has left on this server."""
    for row in await connection.fetch(_LEFT_OVER):
        name: str = row["datname"]
        made = name.removeprefix(_PREFIX).partition("_")[0]
        if int(made, 16) < time.time() - _ABANDONED:
            # Without force: whoever is connected after all still needs it.
            await connection.execute(f'drop database if exists "{name}"')


def _named(url: str, database: str) -> str:
    parts = urlsplit(url)
    options = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if name not in {"database", "dbname"}
    ]
    query = urlencode(options, safe="/")
    return urlunsplit(parts._replace(path=f"/{database}", query=query))
