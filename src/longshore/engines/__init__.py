"""Engines, chosen by URL."""

from longshore.contract import Engine, JobStore
from longshore.errors import ConfigError, NotOverHttpError
from longshore.runtime.clock import Clock
from longshore.wire.address import is_service

__all__ = ["open_engine", "open_store"]

_USE = "use sqlite:///path, postgresql://user@host/database or https://key@host"
_SOON = {"redis", "rediss", "redis+cluster"}


def open_engine(url: str, *, clock: Clock | None = None) -> Engine:
    """The engine that the URL names. Nothing is touched before the first call.

    `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://:memory:`; options follow a
    question mark: `synchronous=full|normal`, `busy_timeout=<seconds>`.
    `postgresql://user@host/database`, with `pool=<connections>`, `listen=on|off` and
    `pgbouncer=on|off` as options beside the driver's own.
    """
    scheme = url.partition(":")[0].lower()
    if scheme == "sqlite":
        from longshore.engines.sqlite.url import from_url  # engines load lazily

        return from_url(url, clock=clock)
    if scheme in {"postgresql", "postgres"}:
        return _postgres(url, clock)
    if is_service(url):
        raise NotOverHttpError(
            "this needs the store itself, and the URL is of a service in front of one; "
            "run it where the store can be reached, with its URL"
        )
    if scheme in _SOON:
        raise ConfigError(f"this version has no engine for {scheme}:// yet; {_USE}")
    raise ConfigError(f"no engine for {scheme!r}; {_USE}")


def _postgres(url: str, clock: Clock | None) -> Engine:
    try:
        from longshore.engines.postgres.url import from_url  # its driver is optional
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise ConfigError(
            "PostgreSQL needs a driver; run `pip install 'longshore[postgres]'`"
        ) from error
    return from_url(url, clock=clock)


def open_store(url: str, *, clock: Clock | None = None) -> JobStore:
    """The engine that the URL names, or the store behind a service, for jobs alone.

    `https://key@host[:port][/prefix]` names a service. Nothing is touched yet.
    """
    if not is_service(url):
        return open_engine(url, clock=clock)
    try:
        from longshore.client.remote_store import open_service  # its httpx is optional
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise ConfigError(
            "a service is asked with httpx; run `pip install 'longshore[http]'`"
        ) from error
    return open_service(url)
