"""Tenants and API keys: who may ask, and for what.

The text of a key is `ls_<id>_<secret>_<check>`, always 56 characters of one shape, so that
scanners find a key that leaked. The id finds it; of the secret only a digest is stored. The
secret is random, 190 bits, so one round of SHA-256 keeps it as well as any slow hash would.
"""

import hashlib
import hmac
import math
import re
import zlib
from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from longshore.core.fair_queueing import HEAVIEST
from longshore.core.submission import MOST_TAGS, fault_of_name
from longshore.core.token_bucket import Limit
from longshore.errors import ConfigError, KeyEndedError

__all__ = [
    "ALPHABET",
    "CAPS",
    "DEFAULT_TENANT",
    "ID_LENGTH",
    "KEY_PATTERN",
    "SECRET_LENGTH",
    "USE_NOTED_US",
    "Access",
    "ApiKey",
    "Credential",
    "Grant",
    "NewKey",
    "Scope",
    "Tenant",
    "admits",
    "check_deletable",
    "compose",
    "digest",
    "known",
    "parse",
    "revoked",
    "rotated",
    "validate_key",
    "validate_tenant",
]

DEFAULT_TENANT = "default"
"""Whose jobs are those that name no tenant. It is always there."""

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_LENGTH, SECRET_LENGTH, _CHECK_LENGTH = 12, 32, 6
KEY_PATTERN = (
    rf"ls_[0-9A-Za-z]{{{ID_LENGTH}}}_[0-9A-Za-z]{{{SECRET_LENGTH}}}"
    rf"_[0-9A-Za-z]{{{_CHECK_LENGTH}}}"
)
"""For whoever looks for keys in logs and repositories."""

USE_NOTED_US = 60_000_000
"""Of the uses of a key, one in so long is noted."""

CAPS = {
    "max_queues": 1_000_000,
    "max_schedules": 1_000_000,
    "max_schedule_rate": 1_000_000,
    "max_webhooks": 100_000,
    "max_keys": 100_000,
    "max_tags": MOST_TAGS,
    "max_streams": 1_000_000,
}
"""The caps of a tenant, and the largest that each of them may be."""

_LONGEST_LABEL = 200
_MOST_NAMES = 100
_SHAPE = re.compile(KEY_PATTERN)
_NOBODY = bytes(32)
"""What a secret is compared with when there is nothing: no text has this digest."""


class Scope(StrEnum):
    """What a key may be used for."""

    SUBMIT = "submit"
    """Submit jobs."""
    READ = "read"
    """Look at jobs, attempts, queues, schedules and workers."""
    OPERATE = "operate"
    """Cancel, retry, replay and purge jobs; change schedules, and pause queues."""
    DECLARE = "declare"
    """Store what an app's code declares: settings of queues and breakers, and schedules."""
    WORK = "work"
    """Hold a session: claim jobs of any tenant, and settle them."""
    ADMIN = "admin"
    """Change tenants and keys."""


_BEYOND_TENANTS = frozenset((Scope.DECLARE, Scope.WORK, Scope.ADMIN))


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One of those who share a store, and what the API asks of it."""

    name: str
    is_disabled: bool = False
    """Its keys are refused. Its jobs go on."""
    requires_idempotency_key: bool = False
    rate: float | None = None
    """Jobs per second that it may submit; None: as many as it likes."""
    burst: int | None = None
    """Jobs that it may submit at once; None: what its rate brings in a second."""
    weight: int = 1
    """Its share of fair queues, against those of others."""
    max_queues: int = 1_000
    """Queues in which it may have jobs."""
    max_schedules: int = 1_000
    max_schedule_rate: float | None = None
    """Jobs per second that its schedules may fire, all together; None: as its rate has it."""
    max_webhooks: int = 100
    max_keys: int = 100
    """Keys that are good: those that ended do not count."""
    max_tags: int = MOST_TAGS
    """Tags of one job."""
    max_streams: int | None = None
    """Streams of events that one API process keeps open for it; None: as the setting
    `api.max_tenant_streams` has it, which is never exceeded."""
    created_at: int = 0
    """0 for the tenant `default`, which was always there."""

    @property
    def limit(self) -> Limit | None:
        """Its bucket for submits, if it has one."""
        if self.rate is None:
            return None
        usual = max(math.ceil(self.rate), 1)
        return Limit(self.rate, usual if self.burst is None else self.burst)

    @property
    def most_fired(self) -> float | None:
        """Jobs per second that its schedules may fire; None: as many as they like."""
        return self.rate if self.max_schedule_rate is None else self.max_schedule_rate


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as whoever made it sends it; sending it twice is harmless."""

    id: str
    digest: bytes
    tenant: str | None = DEFAULT_TENANT
    """None: it is an operator's, and stands for every tenant."""
    scopes: tuple[Scope, ...]
    queues: tuple[str, ...] = ()
    """Of a key with the scope `work`: the queues whose jobs it may claim; none: any."""
    types: tuple[str, ...] = ()
    """The same for types of jobs; `email.*` stands for all that begin so."""
    label: str = ""
    lifetime: int | None = None
    """Microseconds from when it is stored; None: until it is revoked."""


class Grant(NamedTuple):
    """What a key may be used for."""

    scopes: tuple[Scope, ...]
    queues: tuple[str, ...] = ()
    """With the scope `work`: the queues whose jobs it may claim; none: any."""
    types: tuple[str, ...] = ()
    """With the scope `work`: the types of jobs that it may claim; none: any."""


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """All that is stored of a key."""

    id: str
    digest: bytes
    tenant: str | None
    scopes: tuple[Scope, ...]
    label: str
    created_at: int
    queues: tuple[str, ...] = ()
    """Whose jobs it may claim; none: any."""
    types: tuple[str, ...] = ()
    """Which types of jobs it may claim, `*` for any letters; none: any."""
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None
    """To the minute."""
    previous: bytes | None = None
    """The digest of the secret before the last rotation, good until `previous_until`."""
    previous_until: int | None = None

    def claimable(self, types: Iterable[str]) -> list[str]:
        """Those of the types whose jobs the key may claim."""
        if not self.types:
            return list(types)
        return [name for name in types if any(fnmatchcase(name, one) for one in self.types)]

    def is_live(self, now: int) -> bool:
        """It was not revoked and has not expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Access(msgspec.Struct, frozen=True):
    """A key and the tenant that it is for, found together."""

    key: ApiKey
    tenant: Tenant | None
    """None for an operator's key."""


class Credential(msgspec.Struct, frozen=True):
    """What a caller presented: the parts of a text that has the shape of a key."""

    id: str
    secret: str

    def __repr__(self) -> str:
        """Without the secret, which must not get into a log."""
        return f"Credential(id={self.id!r})"


def compose(key_id: str, secret: str) -> str:
    """The text of a key, which its owner sees once."""
    body = f"ls_{key_id}_{secret}"
    return f"{body}_{_check(body)}"


def parse(text: str) -> Credential | None:
    """The parts of a key; None for a text that cannot be one, whoever has made which keys."""
    # A text of another length is not worth reading: it may be a megabyte.
    if len(text) > len("ls___") + ID_LENGTH + SECRET_LENGTH + _CHECK_LENGTH:
        return None
    if not _SHAPE.fullmatch(text):
        return None
    body, _, check = text.rpartition("_")
    if check != _check(body):
        return None
    _, key_id, secret = body.split("_")
    return Credential(key_id, secret)


def digest(secret: str) -> bytes:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def admits(access: Access | None, secret: str, now: int) -> bool:
    """Whether the secret opens what was found under its key's id.

    The way is the same, and takes as long, whether there is no such key, the secret is wrong
    or the key has ended.
    """
    key = access.key if access is not None else None
    presented = digest(secret)
    is_current = hmac.compare_digest(presented, key.digest if key is not None else _NOBODY)
    previous = key.previous if key is not None and key.previous is not None else _NOBODY
    is_previous = hmac.compare_digest(presented, previous)
    if access is None:
        return False
    until = access.key.previous_until
    is_known = is_current or (is_previous and until is not None and now < until)
    if access.key.tenant is not None and (access.tenant is None or access.tenant.is_disabled):
        return False
    return is_known and access.key.is_live(now)


def validate_tenant(tenant: Tenant) -> None:
    """Return if the tenant may be stored, else an error that says what to change."""
    if fault := fault_of_name("tenant", tenant.name):
        raise ConfigError(fault)
    if tenant.burst is not None and tenant.rate is None:
        raise ConfigError(f"tenant {tenant.name!r}: a burst is for a tenant with a rate")
    if not 1 <= tenant.weight <= HEAVIEST:
        raise ConfigError(
            f"tenant {tenant.name!r}: a weight is a whole number from 1 to {HEAVIEST}"
        )
    for field, most in CAPS.items():
        value = getattr(tenant, field)
        if value is not None and not 0 <= value <= most:
            raise ConfigError(f"tenant {tenant.name!r}: {field} is a number from 0 to {most}")
    if tenant.rate is not None:
        Limit(tenant.rate, 1 if tenant.burst is None else tenant.burst).validate()


def validate_key(key: NewKey) -> None:
    """Return if the key may be stored, else an error that says what to change."""
    if not re.fullmatch(rf"[0-9A-Za-z]{{{ID_LENGTH}}}", key.id) or len(key.digest) != 32:
        raise ConfigError(f"key {key.id!r:.80}: an id has {ID_LENGTH} letters and digits")
    if len(key.label) > _LONGEST_LABEL or not key.label.isprintable():
        raise ConfigError(f"a label has up to {_LONGEST_LABEL} printable characters")
    if not key.scopes:
        raise ConfigError(f"a key needs a scope: {', '.join(Scope)}")
    _validate_claims(key)
    if key.lifetime is not None and key.lifetime <= 0:
        raise ConfigError("a key that expires must do so in the future")
    beyond = _BEYOND_TENANTS.intersection(key.scopes)
    if key.tenant is not None and beyond:
        names = " and ".join(sorted(beyond))
        raise ConfigError(
            f"the scope {names} reaches all tenants; a tenant's key cannot have it"
        )


def _validate_claims(key: NewKey) -> None:
    if (key.queues or key.types) and Scope.WORK not in key.scopes:
        raise ConfigError("queues and types are for a key with the scope work")
    if max(len(key.queues), len(key.types)) > _MOST_NAMES:
        raise ConfigError(f"a key names up to {_MOST_NAMES} queues and as many types")
    for name in key.queues:
        if fault := fault_of_name("queue", name):
            raise ConfigError(fault)
    for pattern in key.types:
        if fault := fault_of_name("type", pattern.replace("*", "x")):
            raise ConfigError(fault)


def check_deletable(tenant: str) -> None:
    """Return if the tenant may be deleted once it has nothing left, else a ConfigError."""
    if tenant == DEFAULT_TENANT:
        raise ConfigError(f"the tenant {DEFAULT_TENANT!r} is always there; disable it instead")


def known(key: NewKey, standing: ApiKey) -> ApiKey:
    """The key that stands under this id, if it is the one that is sent again."""
    if standing.digest != key.digest and standing.previous != key.digest:
        raise ConfigError(f"the key id {key.id} is taken; make another key")
    return standing


def rotated(key: ApiKey, new: bytes, *, grace: int, now: int) -> ApiKey:
    """The key with a new secret; the one before is good for `grace` longer, others are not."""
    if key.digest == new:
        return key
    if not key.is_live(now):
        raise KeyEndedError(key.id)
    if grace <= 0:
        return replace(key, digest=new, previous=None, previous_until=None)
    return replace(key, digest=new, previous=key.digest, previous_until=now + grace)


def revoked(key: ApiKey, *, now: int) -> ApiKey:
    """The key, of no use from now on."""
    return key if key.revoked_at is not None else replace(key, revoked_at=now)


def _check(body: str) -> str:
    number, figures = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK_LENGTH):
        number, figure = divmod(number, len(ALPHABET))
        figures = ALPHABET[figure] + figures
    return figures
