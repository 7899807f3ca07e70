"""The parameters of calls about counts, lines, webhooks, accounts, audit log and outbox."""

from typing import Annotated

import msgspec
from msgspec import Meta

from longshore.core.account import NewKey, Tenant
from longshore.core.audit import Kind
from longshore.core.consumer import Cursor
from longshore.core.deed import Tally
from longshore.core.webhook import Endpoint

__all__ = [
    "AddKey",
    "BlockedLines",
    "Borrow",
    "Chain",
    "Counts",
    "EnterWebhook",
    "EntriesAfter",
    "EntriesBefore",
    "LeaveWebhook",
    "Limit",
    "Micros",
    "Mute",
    "NoteSubmits",
    "NoteUse",
    "OfKey",
    "OfLine",
    "OfWebhook",
    "PutTenant",
    "PutWebhook",
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


class Mute(Request, frozen=True):
    """Whether progress is left out of the outbox."""

    is_muted: bool


class PutWebhook(Request, frozen=True):
    """An endpoint, and how it stands."""

    endpoint: Endpoint
    seen: Endpoint | None = None


class OfWebhook(Request, frozen=True):
    """Names an endpoint."""

    endpoint_id: str
    tenant: str | None = None


class EnterWebhook(Request, frozen=True):
    """A delivery that asks to be let in, among how many, and for how long."""

    endpoint_id: str
    holder: Annotated[str, Meta(min_length=1, max_length=256)]
    most: Limit
    lease: Annotated[int, Meta(ge=1, lt=2**62)]


class LeaveWebhook(Request, frozen=True):
    """A delivery that has been made, and how it went."""

    endpoint_id: str
    holder: Annotated[str, Meta(min_length=1, max_length=256)]
    is_success: bool | None


class NoteSubmits(Request, frozen=True):
    """What somebody submitted."""

    tally: Tally


class Chain(Request, frozen=True):
    """What is to be chained."""

    limit: Limit
    cursor: Cursor | None = None
    after: int = 0


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


class NoteUse(Request, frozen=True):
    """Keys that were used."""

    key_ids: Annotated[list[str], Meta(max_length=100_000)]


class Borrow(Request, frozen=True):
    """Tokens of a bucket."""

    name: str
    rate: float
    burst: Annotated[int, Meta(lt=2**53)]
    want: Annotated[int, Meta(lt=2**53)]
