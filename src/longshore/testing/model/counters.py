"""The model's token buckets."""

from longshore.core import token_bucket
from longshore.core.token_bucket import Borrowed, Limit
from longshore.testing.model.lines import Bucket
from longshore.testing.model.store import Store

__all__ = ["ModelCounters"]


class ModelCounters:
    """See `longshore.contract.counters.Counters`."""

    _store: Store

    async def borrow(self, name: str, *, rate: float, burst: int, want: int) -> Borrowed:
        """See `longshore.contract.counters.Counters`."""
        now, stored = self._store.now(), self._store.buckets.get(name)
        empty_at, limit = None if stored is None else stored.empty_at, Limit(rate, burst)
        empty_at, answer = token_bucket.borrow(empty_at, limit, want=want, now=now)
        self._store.buckets[name] = Bucket(empty_at, limit.full_at(empty_at))
        return answer
