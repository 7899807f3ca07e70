"""The part of the engine contract that is about who may ask: tenants, API keys, buckets."""

from collections.abc import Sequence
from typing import Protocol

from longshore.core.account import Access, ApiKey, NewKey, Tenant
from longshore.core.bucket import Borrowed

__all__ = ["Accounts"]


class Accounts(Protocol):
    """Keeps tenants, the digests of their keys, and the buckets that all processes share."""

    async def put_tenant(self, tenant: Tenant, *, seen: Tenant | None = None) -> bool:
        """Create the tenant, or, with `seen`, replace it if it still stands exactly so.

        True when it stands as wanted now, which it may have done before; else False, and
        nothing is stored. The engine says when it was created. The tenant `default` is always
        there.
        """
        ...

    async def get_tenant(self, name: str) -> Tenant:
        """The tenant, or TenantNotFoundError."""
        ...

    async def tenants(self) -> list[Tenant]:
        """Every tenant, by name."""
        ...

    async def delete_tenant(self, name: str) -> None:
        """Remove it with its keys, or TenantNotFoundError.

        TenantInUseError while any job of it is kept, finished or not, or a schedule: nobody
        who takes its name later shall find them. The tenant `default` stays: ConfigError.
        """
        ...

    async def add_key(self, key: NewKey) -> ApiKey:
        """Store a key. Sent again it is answered as before.

        TenantNotFoundError where its tenant is not there. A ConfigError when the id is taken.
        """
        ...

    async def keys(self, *, tenant: str | None = None) -> list[ApiKey]:
        """Every key, revoked ones too, oldest first. `tenant=None` means any tenant."""
        ...

    async def had_keys(self) -> bool:
        """Whether the store has a key, or ever had one, which may be gone with its tenant."""
        ...

    async def find_access(self, key_id: str) -> Access | None:
        """The key of this id and its tenant, in one look; None when there is no such key.

        Whoever keeps the answer for some seconds lets a revoked key in for as long.
        """
        ...

    async def rotate_key(self, key_id: str, digest: bytes, *, grace: int) -> ApiKey:
        """Give the key a new secret; the one before stays good for `grace` microseconds.

        KeyNotFoundError, or KeyEndedError for a key that was revoked or has expired.
        """
        ...

    async def revoke_key(self, key_id: str) -> ApiKey:
        """End the key for good, or KeyNotFoundError. Harmless when it has ended already."""
        ...

    async def note_use(self, key_ids: Sequence[str]) -> None:
        """Remember that these keys were used. Of a minute's uses of a key, one is written."""
        ...

    async def borrow(self, name: str, *, rate: float, burst: int, want: int) -> Borrowed:
        """Take up to `want` tokens from the bucket of this name, which all processes share.

        It holds `burst` tokens at first, and gets `rate` per second on the engine's clock. What
        was borrowed is not given back. A limit that makes no sense is a ConfigError.
        """
        ...
