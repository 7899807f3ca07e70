"""Token buckets that all processes share."""

from functools import partial

from longshore.core import token_bucket
from longshore.core.token_bucket import Borrowed, Limit
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.sql import SQL

__all__ = ["PostgresCounters"]


class PostgresCounters:
    """Lends tokens."""

    @property
    def _open(self) -> Database: ...

    async def borrow(self, name: str, *, rate: float, burst: int, want: int) -> Borrowed:
        """Take tokens."""
        limit = Limit(rate, burst)
        token_bucket.check(limit, want)
        database = self._open
        return await database.transact(partial(_borrow, database.now(), name, limit, want))


async def _borrow(
    clock: int | None, name: str, limit: Limit, want: int, connection: Connection
) -> Borrowed:
    row = await connection.fetchrow(SQL.bucket_hold, name, clock)
    assert row is not None
    empty_at, answer = token_bucket.borrow(row["empty_at"], limit, want=want, now=row["now"])
    await connection.execute(SQL.bucket_put, name, empty_at, limit.full_at(empty_at))
    return answer
