"""Engines, chosen by URL."""

from longshore.engine import Engine
from longshore.errors import ConfigError
from longshore.runtime.clock import Clock

__all__ = ["open_engine"]

_SOON = {"postgresql", "postgres", "redis", "rediss", "redis+cluster"}


def open_engine(url: str, *, clock: Clock | None = None) -> Engine:
    """The engine that the URL names. Nothing is touched before the first call.

    `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://:memory:`; options follow a
    question mark: `synchronous=full|normal`, `busy_timeout=<seconds>`.
    """
    scheme = url.partition(":")[0].lower()
    if scheme == "sqlite":
        from longshore.engines.sqlite.url import from_url  # engines load lazily

        return from_url(url, clock=clock)
    if scheme in _SOON:
        raise ConfigError(f"this version has no engine for {scheme}:// yet; use sqlite:///path")
    raise ConfigError(f"no engine for {url.partition('?')[0]!r}; use sqlite:///path")
