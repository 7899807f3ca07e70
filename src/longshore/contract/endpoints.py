"""The part of the contract that keeps webhook endpoints."""

from typing import Protocol

from longshore.core.door import Refusal
from longshore.core.webhook import Endpoint

__all__ = ["Endpoints"]


class Endpoints(Protocol):
    """Keeps endpoints, with their secrets. `tenant=None` means any tenant."""

    async def put_webhook(self, endpoint: Endpoint, *, seen: Endpoint | None = None) -> bool:
        """Create the endpoint, or, with `seen`, replace it if it still stands exactly so.

        True when it stands as wanted now, which it may have done before; else False, and
        nothing is stored. The engine says when it was created. TenantNotFoundError where its
        tenant is not there.
        """
        ...

    async def get_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> Endpoint:
        """The endpoint, or WebhookNotFoundError."""
        ...

    async def webhooks(self, *, tenant: str | None = None) -> list[Endpoint]:
        """Every endpoint, oldest first. Those of a tenant go with it."""
        ...

    async def delete_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> None:
        """Remove it, or WebhookNotFoundError. Deliveries that wait are not made."""
        ...

    async def enter_webhook(
        self, endpoint_id: str, holder: str, *, most: int, lease: int
    ) -> Refusal | None:
        """Let a delivery go to the endpoint, one of at most so many of the whole fleet.

        None: it may; its place is its own until it leaves, at most `lease` microseconds.
        WebhookNotFoundError where the endpoint is gone.
        """
        ...

    async def leave_webhook(
        self, endpoint_id: str, holder: str, *, is_success: bool | None
    ) -> None:
        """Give the place back, and tell the fleet how it went; None: that says nothing."""
        ...
