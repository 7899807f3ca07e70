"""What people do with tenants and keys, over any engine."""

from collections.abc import Callable

from longshore.contract import Engine
from longshore.core.account import ApiKey, Grant, NewKey, Tenant
from longshore.errors import ConfigError, EngineBusyError
from longshore.runtime.keys import MintedKey, mint

__all__ = ["change", "create", "make_key", "rotate_key"]

_TRIES = 20


async def create(engine: Engine, tenant: Tenant) -> Tenant:
    """Create the tenant; a ConfigError when there is another of its name."""
    if not await engine.put_tenant(tenant):
        raise ConfigError(f"there is a tenant {tenant.name!r} already; change it instead")
    return await engine.get_tenant(tenant.name)


async def change(engine: Engine, name: str, changes: Callable[[Tenant], Tenant]) -> Tenant:
    """Store what `changes` makes of the tenant, or TenantNotFoundError.

    It is called again when somebody else changed the tenant in the same moment.
    """
    for _ in range(_TRIES):
        seen = await engine.get_tenant(name)
        wanted = changes(seen)
        if await engine.put_tenant(wanted, seen=seen):
            return wanted
    raise EngineBusyError(f"others keep changing the tenant {name!r}; try again")


async def make_key(
    engine: Engine,
    *,
    tenant: str | None,
    grant: Grant,
    label: str = "",
    lifetime: int | None = None,
) -> tuple[MintedKey, ApiKey]:
    """A new key and what is stored of it. Its text is nowhere else."""
    minted = mint()
    new = NewKey(
        id=minted.id,
        digest=minted.digest,
        tenant=tenant,
        **grant._asdict(),
        label=label,
        lifetime=lifetime,
    )
    return minted, await engine.add_key(new)


async def rotate_key(engine: Engine, key_id: str, *, grace: int) -> tuple[MintedKey, ApiKey]:
    """A new secret for the key; the one before stays good for `grace` microseconds."""
    minted = mint(key_id)
    return minted, await engine.rotate_key(key_id, minted.digest, grace=grace)
