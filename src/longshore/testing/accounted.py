"""The state machine of engines and model, with tenants, keys and buckets in play."""

from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core.account import NewKey, Scope, Tenant
from longshore.records import api_keys, tenants
from longshore.testing.factories import HOUR, MINUTE, a_key
from longshore.testing.kept import KeptMachine
from longshore.testing.strategies import TENANTS

__all__ = ["AccountedMachine"]

_NAMES = (*TENANTS, "default", "acme")
_BUCKETS = ("submit:a", "submit:b")

has_keys = precondition(lambda self: bool(self.keys))
some_tenant = st.builds(
    Tenant,
    name=st.sampled_from(_NAMES),
    is_disabled=st.booleans(),
    rate=st.sampled_from([None, 0.5]),
)


class AccountedMachine(KeptMachine):
    """As its parent, and an administrator is at work."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.keys: list[NewKey] = []

    @invariant()
    def both_know_the_same_accounts(self) -> None:
        """Every tenant and every key."""
        self.pair.ask(_accounts)

    @rule(tenant=some_tenant)
    def create_tenant(self, tenant: Tenant) -> None:
        """Make a tenant, unless there is another of its name."""
        self._may_fail(lambda: self.pair.ask(lambda engine: tenants.create(engine, tenant)))

    @rule(tenant=some_tenant)
    def change_tenant(self, tenant: Tenant) -> None:
        """Change the one that stands, if one does."""

        def changed(seen: Tenant) -> Tenant:
            return replace(tenant, created_at=seen.created_at)

        self._may_fail(
            lambda: self.pair.ask(lambda engine: tenants.change(engine, tenant.name, changed))
        )

    @rule(name=st.sampled_from(_NAMES))
    def delete_tenant(self, name: str) -> None:
        """Whether or not there is one, and whatever it has."""
        self._may_fail(lambda: self.pair.ask(lambda engine: tenants.delete(engine, name)))

    @rule(tenant=st.none() | st.sampled_from(_NAMES), lifetime=st.sampled_from([None, HOUR]))
    def add_key(self, tenant: str | None, lifetime: int | None) -> None:
        """A key for someone who may not be there."""
        scopes = (Scope.READ, Scope.ADMIN) if tenant is None else (Scope.READ,)
        key = a_key(tenant=tenant, scopes=scopes, lifetime=lifetime)
        self._may_fail(lambda: self.pair.ask(lambda engine: api_keys.add(engine, key)))
        self.keys.append(key)

    @has_keys
    @rule(data=st.data(), verb=st.sampled_from(["rotate", "revoke", "use", "add"]))
    def change_key(self, data: st.DataObject, verb: str) -> None:
        """Rotate, revoke, use, or send again a key that may be gone."""
        key = data.draw(st.sampled_from(self.keys))
        digest, grace = a_key().digest, data.draw(st.sampled_from([0, MINUTE]))
        calls: dict[str, Callable[[Engine], Awaitable[object]]] = {
            "rotate": lambda engine: api_keys.rotate(engine, key.id, digest, grace=grace),
            "revoke": lambda engine: api_keys.revoke(engine, key.id),
            "use": lambda engine: api_keys.note_uses(engine, [key.id]),
            "add": lambda engine: api_keys.add(engine, key),
        }
        self._may_fail(lambda: self.pair.ask(calls[verb]))
        self.pair.ask(lambda engine: api_keys.find_access(engine, key.id))

    @rule(
        name=st.sampled_from(_BUCKETS),
        rate=st.sampled_from([0.01, 3.0]),
        want=st.integers(0, 12),
    )
    def borrow(self, name: str, rate: float, want: int) -> None:
        """Tokens of a bucket, which may have had another limit before."""
        self.pair.ask(lambda engine: engine.borrow(name, rate=rate, burst=10, want=want))


async def _accounts(engine: Engine) -> tuple[object, ...]:
    return await tenants.every(engine), await api_keys.every(engine)
