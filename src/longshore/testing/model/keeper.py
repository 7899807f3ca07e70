"""The model's answer to keepers."""

from longshore.contract import Renewed
from longshore.core.job import Held
from longshore.errors import LeaseLostError
from longshore.testing.model.store import Store

__all__ = ["ModelKeeper"]


class ModelKeeper:
    """Guards sessions by their tokens."""

    _store: Store

    async def renew(self, token: int) -> Renewed:
        """See `longshore.contract.Keeper`."""
        now, lease = self._store.now(), self._store.leases.get(token)
        if lease is None or lease.expires_at <= now:
            raise LeaseLostError(token)
        lease.renewed_at = now
        lease.expires_at = max(lease.expires_at, now + lease.length)
        return Renewed(now, lease.expires_at, is_quiet=lease.is_quiet)

    async def held(self, token: int) -> list[Held] | None:
        """See `longshore.contract.Keeper`."""
        self._store.now()
        return self._store.listed(token) if token in self._store.leases else None
