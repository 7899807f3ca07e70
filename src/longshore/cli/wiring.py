"""The composition root of the command line: settings, application and engine."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from longshore import tracing
from longshore.app import Longshore
from longshore.cli import logs
from longshore.cli.global_options import Shared
from longshore.cli.loading import load_app
from longshore.contract import Engine, JobStore
from longshore.engines import open_engine
from longshore.errors import ConfigError
from longshore.operations import deliveries, sqlite_checks
from longshore.operations.backend import Backend, EngineBackend
from longshore.runtime.actor import acting, person
from longshore.runtime.clock import SystemClock
from longshore.runtime.ticker import Tick
from longshore.scheduler.promote import Promoter
from longshore.scheduler.reclaim import Reclaimer
from longshore.settings import LogFormat, Settings, load
from longshore.wire.address import is_service, keyed, read_address, refuse_service
from longshore.worker.self_signals import auditing_all_signals
from longshore.worker.signals import leave_at_once_on_signals

if TYPE_CHECKING:
    from longshore.client import Client

__all__ = [
    "CLOCK",
    "address",
    "address_of",
    "app",
    "ask_store",
    "backend",
    "client",
    "file_of",
    "opened",
    "prepare",
    "recovery",
    "refuse_absent",
    "refuse_private",
    "refuse_remote",
    "run",
    "service",
    "settings",
]

T = TypeVar("T")

CLOCK = SystemClock()
"""This machine's. What is due and whose lease is over, the engine decides by its own."""
_FIRST_CONTACT_SECONDS = 3.0
"""Whoever mistyped a URL hears soon; a service that has answered may be away for longer."""


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


def ask_store(shared: Shared, what: str, call: Callable[[Engine], Awaitable[T]]) -> T:
    """What the call returns, on the store itself; NotOverHttpError for the URL of a service."""

    async def inside() -> T:
        async with opened(shared, what) as engine:
            await prepare(engine, creates=False)
            with acting(f"cli {person()}"):
                return await call(engine)

    return asyncio.run(inside())


def run(
    shared: Shared,
    call: Callable[[Backend], Awaitable[T]],
    *,
    tenant: str | None = None,
    creates: bool = False,
    max_wait: float = 30.0,
) -> T:
    """What the call returns, asked of the store itself or of a service in front of it.

    `tenant` is the only one that the call concerns; None: everyone that the caller may see.
    Each request to a service ends within `max_wait` seconds, its retries included.
    """

    async def inside() -> T:
        chosen = backend(shared, tenant=tenant, creates=creates, max_wait=max_wait)
        async with chosen as it:
            with acting(f"cli {person()}"):
                return await call(it)

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
async def opened(shared: Shared, what: str) -> AsyncGenerator[Engine]:
    """The engine that is meant, closed in the end. Its schema is left as it is.

    NotOverHttpError, which names `what` needs it, for the URL of a service.
    """
    url = address_of(shared)
    refuse_service(url, what)
    engine = open_engine(url)
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def backend(
    shared: Shared,
    *,
    tenant: str | None = None,
    creates: bool = False,
    max_wait: float = 30.0,
) -> AsyncGenerator[Backend]:
    """The engine that is meant, with its schema up to date, or a client of the service."""
    url = address_of(shared)
    if is_service(url):
        async with client(url, tenant=tenant, timeout=max_wait) as it:
            yield it
        return
    async with opened(shared, "this command") as engine:
        await prepare(engine, creates=creates)
        found = EngineBackend(engine, tenant=tenant)
        found.webhook_guard = deliveries.guard_of(settings(shared).webhooks)
        yield found


def client(url: str, *, tenant: str | None = None, timeout: float = 30.0) -> "Client":
    """A client of the service with this URL."""
    try:
        from longshore.client import Client  # its httpx is optional, and slow to load
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise ConfigError(
            "a service is asked with httpx; run `pip install 'longshore[http]'`"
        ) from error
    base, key, plain_http = read_address(url)
    it = Client(base, key=key or None, tenant=tenant, timeout=timeout, plain_http=plain_http)
    it.first_contact = _FIRST_CONTACT_SECONDS
    return it


async def prepare(engine: Engine, *, creates: bool) -> None:
    """Bring a SQLite file's schema up to date; a server's is left to `longshore migrate`."""
    refuse_private(engine)
    if not creates:
        refuse_absent(engine)
    if file_of(engine) is not None:
        await engine.migrate(max_wait=0)


def refuse_private(engine: JobStore) -> None:
    """ConfigError when no other process can put anything in, or see it."""
    if not engine.traits.shared_between_processes:
        raise ConfigError(
            f"{engine.url} ends with this command; only `longshore dev` can use it"
        )


def refuse_remote(app: Longshore, what: str) -> None:
    """NotOverHttpError for a command that needs the store itself, before it opens anything."""
    refuse_service(app.url, what)


def refuse_absent(engine: Engine) -> None:
    """EngineUnavailableError when there is no SQLite file yet."""
    sqlite_checks.refuse_absent(engine.url)


def recovery(
    engine: Engine, *, lease: int, on_ready: Callable[[int], None] | None = None
) -> list[tuple[str, Tick]]:
    """The ticks that retry and recover jobs: harmless in any number of processes."""
    promoter = Promoter(engine, on_promoted=on_ready)
    reclaimer = Reclaimer(engine, lease=lease, clock=CLOCK, on_reclaimed=on_ready)
    return [("promote", promoter.tick), ("reclaim", reclaimer.tick)]


def file_of(engine: Engine) -> Path | None:
    """The SQLite file behind the engine, if there is one."""
    return sqlite_checks.file_of(engine.url)


def address_of(shared: Shared) -> str:
    """The URL that is meant, of a store or of a service: what --url or the app says."""
    # With --url there is no need to import the user's code.
    given = address(shared)
    if given is not None:
        return given
    with app(shared) as application:
        return application.url
