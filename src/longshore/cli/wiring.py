"""The composition root of the command line: settings, application and engine."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from longshore.app import Longshore
from longshore.cli.loading import load_app
from longshore.cli.shared import Shared
from longshore.engine import Engine
from longshore.engines import open_engine
from longshore.errors import EngineUnavailableError
from longshore.runtime.clock import SystemClock
from longshore.settings import Settings, load
from longshore.tasks.builtin import builtins

__all__ = ["CLOCK", "app", "ask", "file_of", "opened", "prepare", "refuse_absent", "settings"]

T = TypeVar("T")

CLOCK = SystemClock()


def settings(shared: Shared, **flags: object) -> Settings:
    """The settings, with what was asked for on the command line on top."""
    asked = {name.replace("__", "."): value for name, value in flags.items()}
    return load({"engine.url": shared.url, "app": shared.app, **asked}, file=shared.config)


def ask(shared: Shared, call: Callable[[Engine], Awaitable[T]], *, creates: bool = False) -> T:
    """What the call returns, on an engine that is open just for it.

    An empty queue is made only where `creates` says so: a mistyped path should be noticed,
    not answered with an empty list.
    """

    async def inside() -> T:
        async with opened(shared) as engine:
            await prepare(engine, creates=creates)
            return await call(engine)

    return asyncio.run(inside())


def app(shared: Shared) -> Longshore:
    """The user's application, or without one an app that has the built-in tasks."""
    known = settings(shared)
    if known.app is not None:
        return load_app(known.app)
    plain = Longshore(known.engine.url, settings=known, clock=CLOCK)
    for task in builtins(http=known.http, smtp=known.smtp).values():
        plain.task(**task.declaration)(task.function)
    return plain


@asynccontextmanager
async def opened(shared: Shared) -> AsyncGenerator[Engine]:
    """The engine that is meant, closed in the end. Its schema is left as it is."""
    engine = open_engine(_url(shared), clock=CLOCK)
    try:
        yield engine
    finally:
        await engine.close()


async def prepare(engine: Engine, *, creates: bool) -> None:
    """Bring a SQLite file's schema up to date; a server's is left to `longshore migrate`."""
    if not creates:
        refuse_absent(engine)
    if file_of(engine) is not None:
        await engine.migrate()


def refuse_absent(engine: Engine) -> None:
    """EngineUnavailableError when there is no SQLite file yet."""
    file = file_of(engine)
    if file is not None and not file.exists():
        raise EngineUnavailableError(
            f"there is no queue at {engine.url} yet: submit a job, or start a worker"
        )


def file_of(engine: Engine) -> Path | None:
    """The SQLite file behind the engine, if there is one."""
    scheme, _, path = engine.url.partition(":///")
    return Path(path) if scheme == "sqlite" else None


def _url(shared: Shared) -> str:
    """`--url`, else what the application says in its code, else what the settings say."""
    known = settings(shared)
    if known.app is None or shared.url is not None:
        return known.engine.url
    return load_app(known.app).url
