"""Token buckets that all processes share."""

from functools import partial

from longshore.core import token_bucket
from longshore.core.token_bucket import Borrowed, Limit
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.writer import Writer

__all__ = ["SqliteCounters"]


class SqliteCounters:
    """Lends tokens."""

    _writer: Writer

    async def borrow(self, name: str, *, rate: float, burst: int, want: int) -> Borrowed:
        """Take tokens. A loss of power may give them back, long after they were of use."""
        limit = Limit(rate, burst)
        return await self._writer.call(partial(_borrow, name, limit, want), durable=False)


def _borrow(name: str, limit: Limit, want: int, transaction: Transaction) -> Borrowed:
    db, now = transaction.db, transaction.now
    row = db.execute(SQL.bucket_get, {"name": name}).fetchone()
    empty_at, answer = token_bucket.borrow(row[0] if row else None, limit, want=want, now=now)
    scope = {"name": name, "empty_at": empty_at, "full_at": limit.full_at(empty_at)}
    db.execute(SQL.bucket_put, scope)
    return answer
