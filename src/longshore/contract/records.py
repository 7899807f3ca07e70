"""Records: what people configure, stored by kind and name with a version.

An engine stores, lists and compares versions. What a record means (validation, defaults,
layers, secrets) is Python in `operations/` and `core/`. Claims obey some kinds: for those an
engine has a hook, see `KindRules.claims`.
"""

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from longshore.core import account, limit_settings
from longshore.core.account import Tenant
from longshore.core.audit_record import AuditRecord
from longshore.core.job import JobId
from longshore.core.view import Pause
from longshore.errors import CapReachedError, ConfigError

__all__ = [
    "ANY",
    "KINDS",
    "LONGEST_NAME",
    "AuditRecord",
    "Delete",
    "Found",
    "Kind",
    "KindRules",
    "OnTenantDelete",
    "Order",
    "Put",
    "Record",
    "RecordFilter",
    "RecordPage",
    "Records",
    "Ref",
    "Written",
    "before",
    "cap_reached",
    "check",
    "check_body",
    "check_names",
    "conflict",
    "end_of",
    "is_anothers",
    "sought",
    "stands",
    "turn",
]

_tenant = msgspec.json.Decoder(Tenant)

ANY = -1
"""As an expected version: whatever is there. 0 means that nothing is there yet."""

LONGEST_NAME = 1_000
"""Bytes of a name, and of a tenant: more do not fit into every index."""

_SURROGATES, _BEHIND_SURROGATES = 0xD800, 0xE000


class Kind(StrEnum):
    """The kinds of records. An engine stores a kind that it does not know as it is."""

    TENANT = "tenant"
    """Name: the tenant's. Limits, weight, whether it is disabled. Claims read the weight."""
    KEY = "key"
    """Name: the key's id. Digests, scopes, label, expiry. The owner may be no tenant."""
    KEY_USE = "key_use"
    """Name: the key's id. When it was last used; apart, so that a use is no new version."""
    WEBHOOK = "webhook"
    """Name: the endpoint's id. URL, secrets, filters, failing_since."""
    WEBHOOK_GATE = "webhook_gate"
    """Name: the endpoint's id. Deliveries under way and the circuit breaker's state."""
    SCHEDULE = "schedule"
    """Name: the schedule's, per tenant. The definition; `due` is the next due time."""
    QUEUE = "queue"
    """Name: the queue's. Both layers of its settings (`core.limit_settings.read_queue`), which
    claims obey. State: `core.limit_settings.QueueState`."""
    BREAKER = "breaker"
    """Name: the task type. Both layers of a circuit breaker's settings
    (`core.limit_settings.read_breaker`), which claims obey. State:
    `core.circuit_breaker.Standing`."""
    PAUSE = "pause"
    """Name: queue and type with a space between, `*` for any (`core.view.Pause`). Claims obey
    it."""
    FLAG = "flag"
    """Name: what is so of the whole store. `muted`: progress events are left out, sessions read
    it. `had_keys`: an API key was made once, so the service never opens again by itself."""
    QUARANTINED = "quarantined"
    """Name: consumer and event id. An event that a relay set aside; pruned by retention."""


class OnTenantDelete(StrEnum):
    """What becomes of a tenant's records when the tenant is deleted."""

    DELETE = "delete"
    REFUSE = "refuse"
    """The tenant cannot be deleted while it has one."""


class KindRules(NamedTuple):
    """What an engine has to know of a kind."""

    claims: bool = False
    """Claims obey it: the engine's hook for the kind runs in the same commit."""
    durable: bool = True
    """False: a loss of power may undo a write, which therefore need not wait for the disk."""
    unique: bool = True
    """One record of a name, whoever's it is, so that a Put of the name for another tenant is a
    conflict; False: one per tenant."""
    needs_tenant: bool = False
    """A new record belongs to nobody or to a tenant that exists; else TenantNotFoundError."""
    on_tenant_delete: OnTenantDelete = OnTenantDelete.DELETE


KINDS: Mapping[Kind, KindRules] = {
    Kind.TENANT: KindRules(claims=True),
    Kind.KEY: KindRules(needs_tenant=True),
    Kind.KEY_USE: KindRules(durable=False),
    Kind.WEBHOOK: KindRules(needs_tenant=True),
    Kind.WEBHOOK_GATE: KindRules(durable=False),
    Kind.SCHEDULE: KindRules(unique=False, on_tenant_delete=OnTenantDelete.REFUSE),
    Kind.QUEUE: KindRules(claims=True),
    Kind.BREAKER: KindRules(claims=True),
    Kind.PAUSE: KindRules(claims=True),
    Kind.FLAG: KindRules(),
    Kind.QUARANTINED: KindRules(unique=False),
}


class Ref(NamedTuple):
    """Names a record."""

    kind: Kind
    name: str
    tenant: str | None = ""
    """Whose it is; empty: nobody's. None, where a record is read: whoever's."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it is stored."""

    kind: Kind
    name: str
    tenant: str = ""
    version: int
    """Grows with every write of the body. The first is the time at which the record was made,
    so that those of one that is gone do not come back when another of its name is made."""
    body: bytes
    """A JSON object."""
    created_at: int
    changed_at: int
    due: int | None = None
    """When the scheduler is to look at it. None for a paused schedule and for other kinds."""
    last_due: int | None = None
    """Of a schedule: the last due time that fired. Written by `fire` alone."""
    last_job: JobId | None = None
    """Of a schedule: the last job. Written by `fire` alone."""
    state: bytes = b"{}"
    """What the engine knows of it and no caller writes: the rate limit of a queue, the phase of
    a circuit breaker."""


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """Create a record or replace its body."""

    ref: Ref
    """Its tenant is never None."""
    body: bytes
    expected: int
    """The version that was read; 0 to create; `ANY` to overwrite."""
    due: int | UnsetType | None = UNSET
    """Left as it is unless given: a schedule that fires meanwhile keeps its place."""
    most: int | None = None
    """Refused when the tenant already has so many of the kind."""
    resets: bool = False
    """Forget `state`: a circuit breaker closes, a rate limit is full again."""


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a record. A tenant's go along, or keep it, by `OnTenantDelete`."""

    ref: Ref
    expected: int = ANY


class Found(msgspec.Struct, frozen=True):
    """What was read, at one moment."""

    now: int
    """The engine's clock."""
    records: tuple[Record | None, ...]
    """In the order of the refs."""
    tenants: Mapping[str, Record] = {}
    """Their tenants' records, if they were asked for."""


class Order(StrEnum):
    """How a list is sorted."""

    NAME = "name"
    OLDEST = "oldest"
    NEWEST = "newest"


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records to list. None means any."""

    kind: Kind
    tenant: str | None = None
    prefix: str = ""
    """What the name begins with."""
    order: Order = Order.NAME


class RecordPage(msgspec.Struct, frozen=True):
    """Some records, at one moment, and where the next page begins."""

    now: int
    records: list[Record]
    cursor: str | None


class Written(msgspec.Struct, frozen=True):
    """What came of a write."""

    now: int
    records: list[Record]
    """What was put, as it stands now, in the order of the changes."""
    conflict: Ref | None = None
    """The first record whose version was another one; then nothing was written."""


def check(changes: Sequence[Put | Delete]) -> None:
    """Return if these changes can be one write and their bodies stored, else a ConfigError.

    Pure.
    """
    if any(change.ref.tenant is None for change in changes):
        raise ConfigError("a record that is written belongs to a tenant or to nobody")
    if len({sought(change.ref) for change in changes}) < len(changes):
        raise ConfigError("one write changes each record once")
    for change in changes:
        check_names(change.ref.name, change.ref.tenant)
        if isinstance(change, Put):
            check_body(change)


def check_names(*names: str | None) -> None:
    """Return if a store can have records with these as names or prefixes, else a ConfigError.

    Pure.
    """
    for name in names:
        if name is None:
            continue
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise ConfigError(f"{name!r:.80} is no text") from None
        if "\0" in name or size > LONGEST_NAME:
            raise ConfigError(
                f"{name!r:.80}: names have up to {LONGEST_NAME} bytes, and no null character"
            )


def check_body(put: Put) -> None:
    """Return if the body can be stored, and obeyed by claims, else a ConfigError. Pure."""
    kind, name, _ = put.ref
    if b"\0" in put.body:
        raise ConfigError(f"{kind} {name!r:.80}: its body has a null character")
    try:
        put.body.decode()
        match kind:
            case Kind.QUEUE:
                queue = limit_settings.read_queue(name, put.body)
                limit_settings.validate(name, queue.declared)
                limit_settings.validate(name, queue.overridden)
            case Kind.BREAKER:
                breaker = limit_settings.read_breaker(name, put.body)
                limit_settings.validate(name, breaker.declared)
                limit_settings.validate(name, breaker.overridden)
            case Kind.PAUSE:
                _ = Pause.named(name)
            case Kind.TENANT:
                account.validate_tenant(replace(_tenant.decode(put.body), name=name))
            case _:
                pass
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ConfigError(f"{kind} {name!r:.80}: its body cannot be stored: {error}") from None


def sought(ref: Ref) -> Ref:
    """What to read to see whether a record may be written. Pure.

    Where names are unique that is the name, whoever has it.
    """
    return ref._replace(tenant=None) if KINDS[ref.kind].unique else ref


def before(change: Put | Delete, found: Record | None) -> Record | None:
    """What the change meets, if `found` is what was sought: not another's record. Pure."""
    return None if is_anothers(change, found) else found


def is_anothers(change: Put | Delete, found: Record | None) -> bool:
    """Whether another has the name, if `found` is what was sought. Pure.

    A Delete then has nothing to remove, and claims go on obeying the other's record.
    """
    return found is not None and found.tenant != change.ref.tenant


def turn(change: Put | Delete) -> tuple[int, Ref]:
    """A change's place in the order in which one write makes its changes. Pure.

    First goes what may keep a tenant from being deleted, then tenants, then what needs one or
    counts to a cap. All who make several records make them in the same order, so that no two
    wait for each other.
    """
    is_put, is_tenant = isinstance(change, Put), change.ref.kind is Kind.TENANT
    return (2 if is_put else 0) + (is_put != is_tenant), change.ref


def end_of(prefix: str) -> str | None:
    """The first text behind all that begin so, by their code points; None if there is none.

    Pure.
    """
    stem = prefix.rstrip(chr(sys.maxunicode))
    if not stem:
        return None
    after = ord(stem[-1]) + 1
    return stem[:-1] + chr(_BEHIND_SURROGATES if after == _SURROGATES else after)


def stands(change: Put | Delete, before: Record | None) -> bool:
    """Whether the change was made already: then it is no conflict and no news. Pure."""
    if isinstance(change, Delete):
        return before is None
    if before is None or change.resets:
        return False
    return change.body == before.body and change.due in (UNSET, before.due)


def conflict(changes: Sequence[Put | Delete], found: Sequence[Record | None]) -> Ref | None:
    """The first record that is not as its change expects it. Pure.

    `found` is what was `sought`, in the order of the changes.
    """
    for change, record in zip(changes, found, strict=True):
        standing = before(change, record)
        if standing is None and record is not None and isinstance(change, Put):
            return change.ref  # another has the name
        version = 0 if standing is None else standing.version
        if change.expected not in (ANY, version) and not stands(change, standing):
            return change.ref
    return None


def cap_reached(kind: Kind, most: int) -> CapReachedError:
    """The error for one more than `most` records of a kind."""
    return CapReachedError(f"max_{kind}s", most, f"{kind}s")


class Records(Protocol):
    """Stores records."""

    async def get_records(self, refs: Sequence[Ref], *, with_tenants: bool = False) -> Found:
        """The records that these name, in one read; with their tenants' records if asked.

        A key and its tenant are one read: that is how the API admits a request. A ref whose
        tenant is None finds the record whoever's it is; of several the first by tenant.
        """
        ...

    async def list_records(
        self, which: RecordFilter, *, limit: int, cursor: str | None = None
    ) -> RecordPage:
        """Up to `limit` records. A cursor of another filter is a ConfigError."""
        ...

    async def write_records(
        self, changes: Sequence[Put | Delete], *, audit: AuditRecord | None
    ) -> Written:
        """Apply all changes and store the audit record in one commit, or none of it.

        A Put of what already stands, and a Delete of what is gone, are no conflict and no
        news: the call may be sent again. If nothing in the call is news, no audit record is
        stored. Without changes the audit record alone is stored.
        They are applied by `turn`, in whatever order they are given.
        The same record twice in one call, a name that is refused by `check_names`, and a body
        that is no text or that claims cannot obey, are a ConfigError.
        TenantNotFoundError where the tenant of a new record does not exist; CapReachedError
        past `most`; TenantInUseError for a Delete of a tenant that has jobs or a record that
        refuses; other records of the tenant are deleted with it.
        """
        ...
