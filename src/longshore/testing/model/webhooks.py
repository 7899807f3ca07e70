"""The model's webhook endpoints."""

from longshore.core import account, door, webhook
from longshore.core.door import Door, Refusal
from longshore.core.webhook import Endpoint
from longshore.errors import TenantNotFoundError, WebhookNotFoundError
from longshore.testing.model.store import Store

__all__ = ["ModelEndpoints"]


class ModelEndpoints:
    """Keeps endpoints."""

    _store: Store

    async def put_webhook(self, endpoint: Endpoint, *, seen: Endpoint | None = None) -> bool:
        """See `longshore.contract.endpoints.Endpoints`."""
        now = self._store.now()
        webhook.validate(endpoint)
        is_there = account.unstored(endpoint.tenant) or endpoint.tenant in self._store.tenants
        if not is_there:
            raise TenantNotFoundError(endpoint.tenant)
        standing = self._store.endpoints.get(endpoint.id)
        wanted = webhook.put(endpoint, standing=standing, seen=seen, now=now)
        if wanted is None:
            return False
        if standing is None:
            self._store.doors[endpoint.id] = Door()
        self._store.endpoints[endpoint.id] = wanted
        return True

    async def get_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> Endpoint:
        """See `longshore.contract.endpoints.Endpoints`."""
        self._store.now()
        found = self._store.endpoints.get(endpoint_id)
        if found is None or tenant not in (None, found.tenant):
            raise WebhookNotFoundError(endpoint_id)
        return found

    async def webhooks(self, *, tenant: str | None = None) -> list[Endpoint]:
        """See `longshore.contract.endpoints.Endpoints`."""
        self._store.now()
        found = [e for e in self._store.endpoints.values() if tenant in (None, e.tenant)]
        return sorted(found, key=lambda one: (one.created_at, one.id))

    async def delete_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> None:
        """See `longshore.contract.endpoints.Endpoints`."""
        await self.get_webhook(endpoint_id, tenant=tenant)
        del self._store.endpoints[endpoint_id]

    async def enter_webhook(
        self, endpoint_id: str, holder: str, *, most: int, lease: int
    ) -> Refusal | None:
        """See `longshore.contract.endpoints.Endpoints`."""
        await self.get_webhook(endpoint_id)
        doors, now = self._store.doors, self._store.now()
        doors[endpoint_id], refusal = door.enter(
            doors[endpoint_id], holder, most=most, lease=lease, now=now
        )
        return refusal

    async def leave_webhook(
        self, endpoint_id: str, holder: str, *, is_success: bool | None
    ) -> None:
        """See `longshore.contract.endpoints.Endpoints`."""
        doors, now = self._store.doors, self._store.now()
        if endpoint_id in doors:
            doors[endpoint_id] = door.leave(
                doors[endpoint_id], holder, is_success=is_success, now=now
            )
