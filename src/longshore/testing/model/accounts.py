"""The model's answer to those who ask who someone is."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from longshore.core import account, bucket
from longshore.core.account import Access, ApiKey, NewKey, Tenant
from longshore.core.bucket import Borrowed, Limit
from longshore.errors import KeyNotFoundError, TenantInUseError, TenantNotFoundError
from longshore.testing.model.lines import Bucket
from longshore.testing.model.store import Store

__all__ = ["ModelAccounts"]


class ModelAccounts:
    """Keeps tenants, keys and buckets."""

    _store: Store

    async def put_tenant(self, tenant: Tenant, *, seen: Tenant | None = None) -> bool:
        """See `longshore.contract.accounts.Accounts`."""
        now, standing = self._store.now(), self._standing(tenant.name)
        wanted = account.put(tenant, standing=standing, seen=seen, now=now)
        if wanted is None:
            return False
        self._store.tenants[tenant.name] = wanted
        return True

    async def get_tenant(self, name: str) -> Tenant:
        """See `longshore.contract.accounts.Accounts`."""
        self._store.now()
        return self._existing(name)

    async def tenants(self) -> list[Tenant]:
        """See `longshore.contract.accounts.Accounts`."""
        self._store.now()
        return account.with_default(list(self._store.tenants.values()))

    async def delete_tenant(self, name: str) -> None:
        """See `longshore.contract.accounts.Accounts`."""
        self._store.now()
        account.check_deletable(self._existing(name))
        jobs = sum(row.job.tenant == name for row in self._store.rows.values())
        schedules = sum(tenant == name for tenant, _ in self._store.schedules)
        if jobs or schedules:
            raise TenantInUseError(name, jobs, schedules)
        del self._store.tenants[name]
        self._store.endpoints = {
            one.id: one for one in self._store.endpoints.values() if one.tenant != name
        }
        self._store.api_keys = {
            key_id: key for key_id, key in self._store.api_keys.items() if key.tenant != name
        }

    async def add_key(self, key: NewKey) -> ApiKey:
        """See `longshore.contract.accounts.Accounts`."""
        now = self._store.now()
        account.validate_key(key)
        if key.tenant is not None:
            self._existing(key.tenant)
        standing = self._store.api_keys.get(key.id)
        if standing is not None:
            return account.known(key, standing)
        self._store.had_keys = True
        self._store.api_keys[key.id] = account.stored(key, now=now)
        return self._store.api_keys[key.id]

    async def keys(self, *, tenant: str | None = None) -> list[ApiKey]:
        """See `longshore.contract.accounts.Accounts`."""
        self._store.now()
        found = [key for key in self._store.api_keys.values() if tenant in (None, key.tenant)]
        return sorted(found, key=lambda key: (key.created_at, key.id))

    async def had_keys(self) -> bool:
        """See `longshore.contract.accounts.Accounts`."""
        self._store.now()
        return self._store.had_keys

    async def find_access(self, key_id: str) -> Access | None:
        """See `longshore.contract.accounts.Accounts`."""
        self._store.now()
        key = self._store.api_keys.get(key_id)
        if key is None:
            return None
        return Access(key, None if key.tenant is None else self._standing(key.tenant))

    async def rotate_key(self, key_id: str, digest: bytes, *, grace: int) -> ApiKey:
        """See `longshore.contract.accounts.Accounts`."""
        now = self._store.now()
        return self._change(
            key_id, lambda key: account.rotated(key, digest, grace=grace, now=now)
        )

    async def revoke_key(self, key_id: str) -> ApiKey:
        """See `longshore.contract.accounts.Accounts`."""
        now = self._store.now()
        return self._change(key_id, lambda key: account.revoked(key, now=now))

    async def note_use(self, key_ids: Sequence[str]) -> None:
        """See `longshore.contract.accounts.Accounts`."""
        now = self._store.now()
        for key_id in key_ids:
            key = self._store.api_keys.get(key_id)
            if key is None:
                continue
            last = key.last_used_at
            if last is None or not now - account.USE_NOTED_US < last <= now:
                self._store.api_keys[key_id] = replace(key, last_used_at=now)

    async def borrow(self, name: str, *, rate: float, burst: int, want: int) -> Borrowed:
        """See `longshore.contract.accounts.Accounts`."""
        now, stored = self._store.now(), self._store.buckets.get(name)
        empty_at, limit = None if stored is None else stored.empty_at, Limit(rate, burst)
        empty_at, answer = bucket.borrow(empty_at, limit, want=want, now=now)
        self._store.buckets[name] = Bucket(empty_at, limit.full_at(empty_at))
        return answer

    def _standing(self, name: str) -> Tenant | None:
        return self._store.tenants.get(name) or account.unstored(name)

    def _existing(self, name: str) -> Tenant:
        standing = self._standing(name)
        if standing is None:
            raise TenantNotFoundError(name)
        return standing

    def _change(self, key_id: str, change: Callable[[ApiKey], ApiKey]) -> ApiKey:
        key = self._store.api_keys.get(key_id)
        if key is None:
            raise KeyNotFoundError(key_id)
        self._store.api_keys[key_id] = change(key)
        return self._store.api_keys[key_id]
