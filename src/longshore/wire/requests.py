"""The parameters of calls about counts, lines, webhooks, accounts, audit log and outbox."""

from typing import Annotated

import msgspec
from msgspec import Meta

from longshore.core.account import NewKey, Tenant
from longshore.core.audit import Kind

__all__ = [
    "AddKey",
    "BlockedLines",
    "Counts",
    "EntriesAfter",
    "EntriesBefore",
    "Limit",
    "Micros",
    "OfKey",
    "OfLine",
    "PutTenant",
    "Request",
    "RotateKey",
]

Limit = Annotated[int, Meta(ge=0, le=1_000_000)]
Micros = Annotated[int, Meta(ge=0, lt=2**62)]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a method."""


class Counts(Request, frozen=True):
    """Whose; null: anyone's. And whether what waits may be estimated."""

    tenant: str | None = None
    may_estimate: bool = False


class EntriesAfter(Request, frozen=True):
    """Entries of the audit log, from an old one on."""

    after: int
    limit: Limit


class EntriesBefore(Request, frozen=True):
    """Entries of the audit log, from a new one back."""

    before: int
    limit: Limit
    kind: Kind | None = None


class OfLine(Request, frozen=True):
    """Names a line."""

    queue: str
    key: str
    tenant: str = "default"


class BlockedLines(Request, frozen=True):
    """How many, and whose; null: anyone's."""

    limit: Limit
    tenant: str | None = None


class PutTenant(Request, frozen=True):
    """A tenant, and how it stands."""

    tenant: Tenant
    seen: Tenant | None = None


class AddKey(Request, frozen=True):
    """A key's digest."""

    key: NewKey


class OfKey(Request, frozen=True):
    """Names a key."""

    key_id: str


class RotateKey(Request, frozen=True):
    """A key and the digest of its new secret."""

    key_id: str
    digest: bytes
    grace: Micros
