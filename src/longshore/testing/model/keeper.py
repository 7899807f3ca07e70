"""The model's answer to keepers."""

from collections.abc import Sequence

from longshore.contract import Renewed
from longshore.core.job import Held, Settlement
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

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        """See `longshore.contract.Keeper`."""
        now, lease = self._store.now(), self._store.leases.get(token)
        is_live = lease is not None and grace is not None and lease.expires_at + grace > now
        if lease is None or is_live:
            return 0
        return self._store.bury(token, settlements)
