"""API keys: the digests of their secrets, and what each may be used for."""

from collections.abc import Callable, Sequence

import msgspec

from longshore.contract.records import (
    ANY,
    Found,
    Kind,
    Order,
    Put,
    Record,
    Records,
    Ref,
)
from longshore.core import account, audit_record
from longshore.core.account import Access, ApiKey, Grant, NewKey, Scope
from longshore.core.audit_record import AuditRecord
from longshore.core.view import BrokenRecord
from longshore.errors import KeyNotFoundError
from longshore.records import access, tenants
from longshore.records.access import Change
from longshore.runtime.keys import MintedKey, mint

__all__ = [
    "add",
    "every",
    "find_access",
    "had_keys",
    "make",
    "note_uses",
    "renew_secret",
    "revoke",
    "rotate",
]

_encode = msgspec.json.Encoder().encode
_HAD_KEYS = Ref(Kind.FLAG, "had_keys")


class _Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    digest: bytes
    scopes: list[str]
    label: str = ""
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    lifetime: int | None = None
    revoked_at: int | None = None
    previous: bytes | None = None
    previous_until: int | None = None


class _Use(msgspec.Struct, frozen=True):
    at: int


_decoder = msgspec.json.Decoder(_Body)
_use_decoder = msgspec.json.Decoder(_Use)


async def make(
    records: Records,
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
    return minted, await add(records, new)


async def renew_secret(
    records: Records, key_id: str, *, grace: int
) -> tuple[MintedKey, ApiKey]:
    """A new secret for the key; the one before stays good for `grace` microseconds."""
    minted = mint(key_id)
    return minted, await rotate(records, key_id, minted.digest, grace=grace)


async def add(records: Records, new: NewKey) -> ApiKey:
    """Store a key. Sent again it is answered as before.

    TenantNotFoundError where its tenant does not exist; a ConfigError when the id is taken.
    """
    account.validate_key(new)
    ref = Ref(Kind.KEY, new.id, new.tenant or "")
    body = _Body(
        digest=new.digest,
        scopes=[scope for scope in Scope if scope in new.scopes],
        label=new.label,
        queues=new.queues,
        types=new.types,
        lifetime=new.lifetime,
    )

    def decide(found: Found) -> Change:
        (record,) = found.records
        if record is not None:
            account.known(new, access.read(record, _decode))
            return Change([])
        key = Put(ref=ref, body=_encode(body), expected=0)
        # The service never opens again by itself, even when the last key is gone.
        had = Put(ref=_HAD_KEYS, body=b"{}", expected=ANY)
        return Change([key, had], audit_record.key_created(new))

    await access.change(records, [_anyones(new.id)], decide, f"the key {new.id!r}")
    return await _get(records, new.id)


async def every(
    records: Records, *, tenant: str | None = None, broken: list[BrokenRecord] | None = None
) -> list[ApiKey]:
    """Every key, revoked ones too, oldest first. `tenant=None` means any tenant."""
    found = await access.every(
        records, Kind.KEY, _decode, tenant=tenant, order=Order.OLDEST, broken=broken
    )
    uses = await access.listed(records, Kind.KEY_USE, tenant=tenant)
    used = {one.name: access.read_or_none(one, _used_at) for one in uses.records}
    return [msgspec.structs.replace(key, last_used_at=used.get(key.id)) for key in found]


async def had_keys(records: Records) -> bool:
    """Whether the store has a key, or ever had one, which may be gone with its tenant."""
    (flag,) = (await records.get_records([_HAD_KEYS])).records
    return flag is not None


async def find_access(records: Records, key_id: str) -> Access | None:
    """The key of this id and its tenant, in one read; None when there is no such key.

    When it was last used is left out. Whoever keeps the answer for some seconds lets a revoked
    key in for as long.
    """
    found = await records.get_records([_anyones(key_id)], with_tenants=True)
    (record,) = found.records
    if record is None:
        return None
    tenant = found.tenants.get(record.tenant)
    return Access(
        access.read(record, _decode),
        None if tenant is None else access.read(tenant, tenants.decode),
    )


async def rotate(records: Records, key_id: str, digest: bytes, *, grace: int) -> ApiKey:
    """Give the key a new secret; the one before stays good for `grace` microseconds.

    KeyNotFoundError, or KeyEndedError for a key that was revoked or has expired.
    """
    return await _change(
        records,
        key_id,
        lambda key, now: account.rotated(key, digest, grace=grace, now=now),
        audit_record.key_rotated(key_id, grace),
    )


async def revoke(records: Records, key_id: str) -> ApiKey:
    """End the key for good, or KeyNotFoundError. Harmless when it has ended already."""
    return await _change(
        records,
        key_id,
        lambda key, now: account.revoked(key, now=now),
        audit_record.key_revoked(key_id),
    )


async def note_uses(records: Records, key_ids: Sequence[str]) -> None:
    """Remember that these keys were used. Of a minute's uses of a key, one is written."""
    ids = list(dict.fromkeys(key_ids))
    uses = [Ref(Kind.KEY_USE, key_id, None) for key_id in ids]
    found = await records.get_records([*map(_anyones, ids), *uses])
    changes: list[Put] = []
    for key, use in zip(found.records[: len(ids)], found.records[len(ids) :], strict=True):
        last = access.read_or_none(use, _used_at)
        is_noted = last is not None and found.now - account.USE_NOTED_US < last <= found.now
        if key is not None and not is_noted:
            ref = Ref(Kind.KEY_USE, key.name, key.tenant)
            changes.append(Put(ref=ref, body=_encode(_Use(found.now)), expected=ANY))
    if changes:
        await access.write(records, *changes)


async def _get(records: Records, key_id: str) -> ApiKey:
    (record,) = (await records.get_records([_anyones(key_id)])).records
    if record is None:
        raise KeyNotFoundError(key_id)
    return access.read(record, _decode)


async def _change(
    records: Records, key_id: str, changes: Callable[[ApiKey, int], ApiKey], audit: AuditRecord
) -> ApiKey:
    refs = [_anyones(key_id), Ref(Kind.KEY_USE, key_id, None)]

    def decide(found: Found) -> Change:
        record, _ = found.records
        if record is None:
            raise KeyNotFoundError(key_id)
        key = access.read(record, _decode)
        wanted = changes(key, found.now)
        if wanted == key:
            return Change([])
        before = _decoder.decode(record.body)
        body = msgspec.structs.replace(
            before,
            digest=wanted.digest,
            previous=wanted.previous,
            previous_until=wanted.previous_until,
            revoked_at=wanted.revoked_at,
        )
        ref = Ref(Kind.KEY, key_id, record.tenant)
        return Change([Put(ref=ref, body=_encode(body), expected=record.version)], audit)

    _, use = (await access.change(records, refs, decide, f"the key {key_id!r}")).records
    last_used_at = access.read_or_none(use, _used_at)
    return msgspec.structs.replace(await _get(records, key_id), last_used_at=last_used_at)


def _anyones(key_id: str) -> Ref:
    return Ref(Kind.KEY, key_id, None)


def _used_at(record: Record) -> int:
    return _use_decoder.decode(record.body).at


def _decode(record: Record) -> ApiKey:
    it = _decoder.decode(record.body)
    return ApiKey(
        id=record.name,
        digest=it.digest,
        tenant=record.tenant or None,
        # A scope of a later version is nothing.
        scopes=tuple(scope for scope in Scope if scope in it.scopes),
        label=it.label,
        created_at=record.created_at,
        queues=it.queues,
        types=it.types,
        expires_at=None if it.lifetime is None else record.created_at + it.lifetime,
        revoked_at=it.revoked_at,
        previous=it.previous,
        previous_until=it.previous_until,
    )
