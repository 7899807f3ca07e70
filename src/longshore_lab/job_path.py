"""Tell which files, functions and statements of Longshore one job passes, on each engine.

    python -m longshore_lab.job_path
    python -m longshore_lab.job_path --engine sqlite --json

runs a worker in this process and submits jobs to it, one at a time: the worker waits, a job is
submitted, runs, and is settled in the store. What every one of the jobs passed is counted, so
that housekeeping which happens to run beside one is not. A function is a `def` of `longshore`
that was called at least once, in whatever thread; comprehensions and lambdas belong to the
function around them, and what runs while modules are imported is not counted. A statement is
one of an engine's SQL by its name; what a function of PostgreSQL calls inside the server is not
seen. Opening the store, and starting and stopping the worker, are no part of a job.
"""

import argparse
import asyncio
import re
import sqlite3
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any

import asyncpg
import msgspec

import longshore
from longshore import Longshore
from longshore.engines import open_engine
from longshore.engines.postgres.sql import SQL as POSTGRES
from longshore.engines.sqlite.sql import SQL as SQLITE
from longshore_lab.servers import PostgresServer

__all__ = ["JobPath", "main"]

ENGINES = ("sqlite", "postgres")
_ROOT = f"{Path(longshore.__file__).parent}/"
_WARM_UP = 3
_PATIENCE = 30.0
"""Seconds that a job may take."""
_LULL = 0.2
"""Seconds after which the worker has done what a settled job leaves to do, and waits."""
_PARAMETER = re.compile(r"(?<!:):\w+|\?")


class JobPath(msgspec.Struct, frozen=True):
    """What one job passes on an engine."""

    engine: str
    files: int
    """Python files with a function that was called."""
    functions: int
    statements: int
    functions_by_file: dict[str, list[str]]
    statement_names: list[str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the paths; the exit status is 0."""
    options = _options(arguments)
    with ExitStack() as stack:
        paths = [
            asyncio.run(_measured(engine, _store(engine, stack), options.jobs))
            for engine in options.engine or ENGINES
        ]
    if options.json:
        print(msgspec.json.encode(paths).decode())
    else:
        _show(paths)
    return 0


class _Recorder:
    """Notes what runs, in every thread that begins after it was made, while it is on."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.texts: set[str] = set()
        self._is_on = False
        self._opened: dict[int, sqlite3.Connection] = {}
        """By thread, the connection that it is opening."""
        sys.addaudithook(self._audit)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def start(self) -> None:
        self.functions, self.texts, self._is_on = set(), set(), True

    def stop(self) -> None:
        self._is_on = False

    def close(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        if self._opened and (db := self._opened.pop(threading.get_ident(), None)) is not None:
            db.set_trace_callback(self._trace)
        if not self._is_on:
            return
        code = frame.f_code
        if code.co_filename.startswith(_ROOT):
            if not code.co_name.startswith("<"):
                self.functions.add((code.co_filename.removeprefix(_ROOT), code.co_qualname))
        elif "asyncpg" in code.co_filename and "query" in code.co_varnames:
            query = frame.f_locals.get("query")
            if isinstance(query, str):
                self.texts.add(query)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        # Each connection has to be asked to tell what it runs, which it can once it is open.
        if event == "sqlite3.connect/handle":
            self._opened[threading.get_ident()] = arguments[0]

    def _trace(self, text: str) -> None:
        if self._is_on:
            self.texts.add(text)


async def _measured(engine: str, url: str, jobs: int) -> JobPath:
    store = open_engine(url)
    await store.migrate()
    await store.close()
    recorder = _Recorder()
    app = Longshore(url)

    @app.task
    async def noop() -> None:
        pass

    functions: list[set[tuple[str, str]]] = []
    statements: list[set[str]] = []
    settled = _settled_in_sqlite if engine == "sqlite" else _settled_in_postgres
    names = _sqlite_names if engine == "sqlite" else _postgres_names
    async with app:
        working = asyncio.create_task(app.work(concurrency=4))
        for number in range(_WARM_UP + jobs):
            await asyncio.sleep(_LULL)
            recorder.start()
            handle = await noop.submit()
            await _until(lambda id=str(handle.id): settled(url, id), working)
            await asyncio.sleep(_LULL)
            recorder.stop()
            if number >= _WARM_UP:
                functions.append(recorder.functions)
                statements.append(names(recorder.texts))
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
    recorder.close()
    by_file: dict[str, list[str]] = defaultdict(list)
    passed = sorted(set[tuple[str, str]].intersection(*functions))
    for file, name in passed:
        by_file[file].append(name)
    used = sorted(set[str].intersection(*statements))
    return JobPath(engine, len(by_file), len(passed), len(used), by_file, used)


async def _until(is_over: Callable[[], Awaitable[bool]], working: asyncio.Task[None]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not await is_over():
            if working.done():
                await working
            await asyncio.sleep(0.01)


async def _settled_in_sqlite(url: str, job_id: str) -> bool:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db:
        statement = "select state from longshore_jobs where lower(hex(id)) = ?"
        row = db.execute(statement, (job_id.replace("-", ""),)).fetchone()
    return row is not None and row[0] == "succeeded"


async def _settled_in_postgres(url: str, job_id: str) -> bool:
    connection = await asyncpg.connect(url)
    try:
        statement = "select state from longshore.jobs where id = $1"
        return await connection.fetchval(statement, job_id) == "succeeded"
    finally:
        await connection.close()


def _postgres_names(texts: set[str]) -> set[str]:
    return {it.name for it in fields(POSTGRES) if getattr(POSTGRES, it.name) in texts}


def _sqlite_names(texts: set[str]) -> set[str]:
    """Parameters are filled in, rows repeated, and some statements made of several."""
    patterns = {
        it.name: ".*?".join(map(re.escape, _PARAMETER.split(getattr(SQLITE, it.name).strip())))
        for it in fields(SQLITE)
    }
    found: set[str] = set()
    for text in texts:
        whole = [
            name
            for name, pattern in patterns.items()
            if re.fullmatch(pattern, text.strip(), re.DOTALL)
        ]
        if whole:
            # The one that leaves least to its parameters.
            found.add(max(whole, key=lambda name: len(patterns[name])))
        else:
            found |= {
                name
                for name, pattern in patterns.items()
                if re.search(pattern, text, re.DOTALL)
            }
    return found


def _store(engine: str, stack: ExitStack) -> str:
    if engine == "sqlite":
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        return f"sqlite:///{folder}/jobs.db"
    return stack.enter_context(PostgresServer()).create("job_path")


def _show(paths: Sequence[JobPath]) -> None:
    print(f"{'engine':10} {'files':>6} {'functions':>10} {'statements':>11}")
    for path in paths:
        print(f"{path.engine:10} {path.files:6} {path.functions:10} {path.statements:11}")
    print(f"\n{'functions of':44}" + "".join(f" {path.engine:>9}" for path in paths))
    counts = [Counter({k: len(v) for k, v in it.functions_by_file.items()}) for it in paths]
    for file in sorted({file for it in paths for file in it.functions_by_file}):
        print(f"{file:44}" + "".join(f" {count[file] or '':>9}" for count in counts))
    for path in paths:
        print(f"\nstatements on {path.engine}: {' '.join(path.statement_names)}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m longshore_lab.job_path",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--engine", choices=ENGINES, action="append", help="default: both")
    parser.add_argument("--jobs", type=int, default=5, help="what all of them pass is counted")
    parser.add_argument("--json", action="store_true", help="with the names of all functions")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
