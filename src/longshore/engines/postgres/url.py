"""PostgreSQL URLs."""

from longshore.engines.postgres.address import parse, without_password
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.engine import PostgresEngine
from longshore.runtime.clock import Clock

__all__ = ["from_url"]


def from_url(url: str, *, clock: Clock | None = None) -> PostgresEngine:
    """The engine for `postgresql://user@host/database?options`, or ConfigError."""
    address = parse(url)
    database = Database(
        address.dsn,
        clock=clock,
        size=address.pool,
        listens=address.listens,
        statement_cache=not address.is_pooled,
    )
    return PostgresEngine(database, without_password(url))
