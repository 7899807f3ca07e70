"""Webhook endpoints over HTTP."""

from typing import Any

from longshore.core import webhook
from longshore.core.door import Refusal
from longshore.core.webhook import Endpoint

__all__ = ["RemoteEndpoints"]


class RemoteEndpoints:
    """Where tenants want to hear of what happens, as a service keeps it."""

    async def _ask(self, name: str, /, **parameters: object) -> Any: ...

    async def put_webhook(self, endpoint: Endpoint, *, seen: Endpoint | None = None) -> bool:
        """Create an endpoint, or replace what was seen."""
        webhook.validate(endpoint)
        return await self._ask("put_webhook", endpoint=endpoint, seen=seen)

    async def get_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> Endpoint:
        """The endpoint, or WebhookNotFoundError."""
        return await self._ask("get_webhook", endpoint_id=endpoint_id, tenant=tenant)

    async def webhooks(self, *, tenant: str | None = None) -> list[Endpoint]:
        """Every endpoint, oldest first."""
        return await self._ask("webhooks", tenant=tenant)

    async def delete_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> None:
        """Remove an endpoint."""
        await self._ask("delete_webhook", endpoint_id=endpoint_id, tenant=tenant)

    async def enter_webhook(
        self, endpoint_id: str, holder: str, *, most: int, lease: int
    ) -> Refusal | None:
        """Let a delivery go to an endpoint."""
        return await self._ask(
            "enter_webhook", endpoint_id=endpoint_id, holder=holder, most=most, lease=lease
        )

    async def leave_webhook(
        self, endpoint_id: str, holder: str, *, is_success: bool | None
    ) -> None:
        """Give the place back, and tell how it went."""
        await self._ask(
            "leave_webhook", endpoint_id=endpoint_id, holder=holder, is_success=is_success
        )
