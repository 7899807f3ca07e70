"""SQLite URLs."""

import re
from urllib.parse import parse_qsl, unquote

from longshore.engines.sqlite.connection import Store, Synchronous
from longshore.engines.sqlite.engine import SqliteEngine
from longshore.errors import ConfigError
from longshore.runtime.clock import Clock, SystemClock

__all__ = ["from_url"]

_LONGEST_BUSY_TIMEOUT = 60.0
_MODE = re.compile(r"0?6[046][046]")
"""Its owner reads and writes; the group and others do both, read, or neither."""


def from_url(url: str, *, clock: Clock | None = None) -> SqliteEngine:
    """The engine for `sqlite:///path?options`, or ConfigError."""
    place, _, query = url.partition("?")
    path = _path(place)
    synchronous, busy_timeout, mode = Synchronous.FULL, 5.0, 0o600
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "synchronous" and value in list(Synchronous):
            synchronous = Synchronous(value)
        elif name == "busy_timeout" and _is_duration(value):
            busy_timeout = float(value)
        elif name == "mode" and _MODE.fullmatch(value):
            mode = int(value, 8)
        else:
            raise ConfigError(
                f"{name}={value} means nothing in a sqlite URL; "
                "use synchronous=full|normal, busy_timeout=<seconds up to 60> or mode=0660"
            )
    store = Store(
        path=path,
        clock=clock or SystemClock(),
        synchronous=synchronous,
        busy_timeout=busy_timeout,
        mode=mode,
    )
    return SqliteEngine(store)


def _path(place: str) -> str:
    rest = place.partition("://")[2]
    if rest in {":memory:", "/:memory:"}:
        return ":memory:"
    path = unquote(rest.removeprefix("/"))
    if not rest.startswith("/") or not path or "\0" in path:
        raise ConfigError(
            f"{place!r} names no file; use sqlite:///relative.db or sqlite:////absolute.db"
        )
    return path


def _is_duration(value: str) -> bool:
    try:
        return 0 <= float(value) <= _LONGEST_BUSY_TIMEOUT
    except ValueError:
        return False
