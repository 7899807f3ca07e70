"""The composition root of the command line: settings, application and engine."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from longshore import tracing
from longshore.app import Longshore
from longshore.cli import logs
from longshore.cli.loading import load_app
from longshore.cli.shared import Shared
from longshore.engine import Engine
from longshore.engines import open_engine
from longshore.errors import ConfigError, EngineUnavailableError, NotOverHttpError
from longshore.runtime.acting import acting, person
from longshore.runtime.beat import Tick
from longshore.runtime.clock import SystemClock
from longshore.scheduler.promote import Promoter
from longshore.scheduler.reclaim import Reclaimer
from longshore.settings import LogFormat, Settings, load
from longshore.wire.address import is_service, keyed
from longshore.worker.self_signals import auditing_all_signals
from longshore.worker.signals import leave_at_once_on_signals

__all__ = [
    "CLOCK",
    "address",
    "app",
    "ask",
    "file_of",
    "opened",
    "prepare",
    "recovery",
    "refuse_absent",
    "refuse_private",
    "refuse_remote",
    "service",
    "settings",
]

T = TypeVar("T")

CLOCK = SystemClock()
"""This machine's. What is due and whose lease is over, the engine decides by its own."""


def settings(shared: Shared, flags: Mapping[str, object] | None = None) -> Settings:
    """The settings, read once, with what was asked for on the command line on top."""
    if shared.settings is None:
        asked = {
            "engine.url": shared.url,
            "key": shared.api_key,
            "app": shared.app,
            **(flags or {}),
        }
        shared.settings = load(asked, file=shared.config)
    return shared.settings


def ask(shared: Shared, call: Callable[[Engine], Awaitable[T]], *, creates: bool = False) -> T:
    """What the call returns, on an engine that is open just for it.

    An empty queue is made only where `creates` says so: a mistyped path should be noticed,
    not answered with an empty list.
    """

    async def inside() -> T:
        async with opened(shared) as engine:
            await prepare(engine, creates=creates)
            with acting(f"cli {person()}"):
                return await call(engine)

    return asyncio.run(inside())


def address(shared: Shared) -> str | None:
    """What --url says, with the key that belongs to it."""
    if shared.url is None or not is_service(shared.url):
        return shared.url
    mine = settings(shared)
    return keyed(shared.url, mine.key, plain_http=mine.plain_http)


@contextmanager
def app(shared: Shared) -> Generator[Longshore]:
    """The user's application, or without one an app that has but the built-in tasks.

    What it says in its code counts, unless --url says otherwise; what it leaves open, the
    settings decide.
    """
    known = settings(shared)
    application = Longshore() if known.app is None else load_app(known.app)
    with application.at(address(shared), settings=known):
        yield application


@contextmanager
def service(
    shared: Shared, flags: Mapping[str, object] | None = None
) -> Generator[tuple[Longshore, Settings]]:
    """The application on its engine, and the settings, for a process that stays.

    From here on a signal ends the process with exit code 0, until there is something to drain.
    """
    leave_at_once_on_signals()
    format_flag = LogFormat.JSON if shared.as_json else None
    known = settings(shared, {"log.format": format_flag, **(flags or {})})
    logs.configure(known.log)
    with (
        auditing_all_signals(),
        app(shared) as application,
        tracing.exporting(known.tracing),
    ):
        yield application, replace(known, worker=application.with_queues(known.worker))


@asynccontextmanager
async def opened(shared: Shared) -> AsyncGenerator[Engine]:
    """The engine that is meant, closed in the end. Its schema is left as it is."""
    engine = open_engine(_url(shared))
    try:
        yield engine
    finally:
        await engine.close()


async def prepare(engine: Engine, *, creates: bool) -> None:
    """Bring a SQLite file's schema up to date; a server's is left to `longshore migrate`."""
    refuse_private(engine)
    if not creates:
        refuse_absent(engine)
    if file_of(engine) is not None:
        await engine.migrate(patience=0)


def refuse_private(engine: Engine) -> None:
    """ConfigError when no other process can put anything in, or see it."""
    if not engine.traits.shared_between_processes:
        raise ConfigError(
            f"{engine.url} ends with this command; only `longshore dev` can use it"
        )


def refuse_remote(engine: Engine, what: str) -> None:
    """NotOverHttpError for a command that needs the store itself."""
    if not engine.traits.maintenance:
        raise NotOverHttpError(
            f"{what} needs the store itself, and {engine.url} is a service in front of one; "
            f"run it where the store can be reached, with its URL"
        )


def refuse_absent(engine: Engine) -> None:
    """EngineUnavailableError when there is no SQLite file yet."""
    file = file_of(engine)
    if file is not None and not file.exists():
        raise EngineUnavailableError(
            f"there is no queue at {engine.url} yet: submit a job, or start a worker"
        )


def recovery(
    engine: Engine, *, lease: int, on_ready: Callable[[int], None] | None = None
) -> list[tuple[str, Tick]]:
    """The ticks that retry and recover jobs: harmless in any number of processes."""
    promoter = Promoter(engine, on_promoted=on_ready)
    reclaimer = Reclaimer(engine, lease=lease, clock=CLOCK, on_reclaimed=on_ready)
    return [("promote", promoter.tick), ("reclaim", reclaimer.tick)]


def file_of(engine: Engine) -> Path | None:
    """The SQLite file behind the engine, if there is one."""
    scheme, _, path = engine.url.partition(":///")
    return Path(path) if scheme == "sqlite" else None


def _url(shared: Shared) -> str:
    # With --url there is no need to import the user's code.
    given = address(shared)
    if given is not None:
        return given
    with app(shared) as application:
        return application.url
