"""API keys: their documents, and what API and command line do with them."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from longshore.core.account import DEFAULT_TENANT, ApiKey, Grant, Scope
from longshore.core.units import microseconds
from longshore.operations.fields import Name, instant, moment
from longshore.operations.local import EngineOperations
from longshore.records import api_keys
from longshore.runtime.keys import MintedKey

__all__ = [
    "KeyBody",
    "KeyList",
    "KeyOperations",
    "KeyState",
    "KeyView",
    "MintedView",
    "RotateKeyBody",
    "key_view",
]

_DAY_S = 86_400

KeyState = Literal["live", "expired", "revoked"]
TypePattern = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9_.:/@+*-]{1,128}\Z", examples=["email.*"])
]
Label = Annotated[str, Meta(max_length=200, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]


class KeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API key to make."""

    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=len(Scope))]
    tenant: Name | None = DEFAULT_TENANT
    """Null: an operator's key, which stands for every tenant."""
    queues: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """With the scope `work`: the queues whose jobs it may claim; empty: any."""
    types: Annotated[tuple[TypePattern, ...], Meta(max_length=100)] = ()
    """With the scope `work`: the types of jobs that it may claim, `email.*` for all that begin
    so; empty: any."""
    label: Label = ""
    """For people, to know it by."""
    lifetime_seconds: Annotated[float, Meta(ge=1, le=315_360_000)] | None = None
    """Null: until it is revoked."""


class RotateKeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to change the secret of a key."""

    grace_seconds: Annotated[float, Meta(ge=0, le=30 * _DAY_S)] = _DAY_S
    """The secret before stays good for so long."""


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of an API key; its secret is not."""

    id: str
    tenant: str | None
    """Null: an operator's, which stands for every tenant."""
    scopes: tuple[Scope, ...]
    queues: tuple[str, ...]
    """Whose jobs it may claim; empty: any."""
    types: tuple[str, ...]
    """Which types of jobs it may claim; empty: any."""
    label: str
    state: KeyState
    """Whether it is good, for a tenant that is not disabled."""
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """To the minute."""
    previous_until: datetime | None
    """Until when the secret before the last rotation is good."""


class KeyList(msgspec.Struct, frozen=True):
    """API keys, oldest first."""

    keys: list[KeyView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class MintedView(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was made or rotated just now."""

    key: str
    """What to send as `Authorization: Bearer`. It is not shown again."""
    about: KeyView


class KeyOperations(EngineOperations):
    """What is done with API keys on an engine."""

    async def keys(self, *, tenant: str | None = None) -> list[KeyView]:
        """Every key, or those of one tenant, oldest first, revoked ones too."""
        found = await api_keys.every(self._engine, tenant=tenant)
        now = await self._engine.now()
        return [
            key_view(one, now) for one in sorted(found, key=lambda it: (it.created_at, it.id))
        ]

    async def create_key(
        self,
        grant: Grant,
        *,
        tenant: str | None = DEFAULT_TENANT,
        label: str = "",
        lifetime: timedelta | None = None,
    ) -> MintedView:
        """Make a key; None for an operator's, which stands for every tenant.

        What is returned is the only place where its text is.
        """
        minted, key = await api_keys.make(
            self._engine,
            tenant=tenant,
            grant=grant,
            label=label,
            lifetime=None if lifetime is None else microseconds(lifetime),
        )
        return await self._minted(minted, key)

    async def rotate_key(self, key_id: str, *, grace: timedelta) -> MintedView:
        """A new secret for the key; the one before stays good for `grace`.

        KeyNotFoundError, or KeyEndedError for a key that was revoked or has expired.
        """
        minted, key = await api_keys.renew_secret(
            self._engine, key_id, grace=microseconds(grace)
        )
        return await self._minted(minted, key)

    async def revoke_key(self, key_id: str) -> KeyView:
        """End the key for good, or KeyNotFoundError. API processes refuse it in seconds."""
        key = await api_keys.revoke(self._engine, key_id)
        return key_view(key, await self._engine.now())

    async def _minted(self, minted: MintedKey, key: ApiKey) -> MintedView:
        return MintedView(key=minted.text, about=key_view(key, await self._engine.now()))


def key_view(it: ApiKey, now: int) -> KeyView:
    """A key's document, without its secret."""
    return KeyView(
        id=it.id,
        tenant=it.tenant,
        scopes=it.scopes,
        queues=it.queues,
        types=it.types,
        label=it.label,
        state=_state(it, now),
        created_at=instant(it.created_at),
        expires_at=moment(it.expires_at),
        revoked_at=moment(it.revoked_at),
        last_used_at=moment(it.last_used_at),
        previous_until=moment(it.previous_until),
    )


def _state(it: ApiKey, now: int) -> KeyState:
    if it.revoked_at is not None:
        return "revoked"
    return "live" if it.is_live(now) else "expired"
