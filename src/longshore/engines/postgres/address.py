"""What the URL of a PostgreSQL database says, and how it is shown."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from longshore.errors import ConfigError

__all__ = ["Address", "parse", "without_password"]

_LARGEST_POOL = 1_000
_SWITCHES = {"on": True, "off": False}
# What the driver understands. It would send anything else to the server, as a setting.
_DRIVERS = {
    "database", "dbname", "gsslib", "host", "krbsrvname", "passfile", "password", "port",
    "service", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert", "sslcrl",
    "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert",
    "target_session_attrs", "user",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What a URL says."""

    dsn: str
    """The driver's part of it."""
    pool: int = 8
    """Connections per process, besides those of its workers and its listener."""
    listens: bool = True
    is_pooled: bool = False
    """PgBouncer stands in front, and gives each transaction any session."""


def parse(url: str) -> Address:
    """The parts of a URL, or ConfigError."""
    place, _, query = url.partition("?")
    scheme, _, rest = place.partition("://")
    if scheme.lower() not in {"postgresql", "postgres"} or "\0" in url:
        raise ConfigError(f"{without_password(url)!r} is no URL of a PostgreSQL database")
    ours: dict[str, str] = {}
    drivers: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _DRIVERS:
            drivers.append((name, value))
        else:
            ours[name] = value
    is_pooled = _switch("pgbouncer", ours.pop("pgbouncer", "off"))
    listens = _switch("listen", ours.pop("listen", "off" if is_pooled else "on"))
    if is_pooled and listens:
        raise ConfigError("listen=on cannot work with pgbouncer=on; leave one of them out")
    pool = _size(ours.pop("pool", "8"))
    if ours:
        raise _meaningless(*ours.popitem())
    options = f"?{urlencode(drivers)}" if drivers else ""
    return Address(
        dsn=f"postgresql://{rest}{options}", pool=pool, listens=listens, is_pooled=is_pooled
    )


def without_password(url: str) -> str:
    """The same URL, fit to be shown."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    place = f"{user.partition(':')[0]}@{host}" if user else host
    options = urlencode(
        [
            (name, value)
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
            if name not in {"password", "sslpassword"}
        ],
        safe="/",
    )
    return f"{parts.scheme}://{place}{parts.path}" + (f"?{options}" if options else "")


def _switch(name: str, value: str) -> bool:
    if value not in _SWITCHES:
        raise _meaningless(name, value)
    return _SWITCHES[value]


def _size(value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= _LARGEST_POOL:
        raise _meaningless("pool", value)
    return int(value)


def _meaningless(name: str, value: str) -> ConfigError:
    return ConfigError(
        f"{name}={value} means nothing in a postgresql URL; use pool=<1 to 1000>, "
        "listen=on|off, pgbouncer=on|off, or where and how to connect as libpq names it"
    )
