"""Who may ask what: API keys, their scopes and tenants, and a machine that asks itself."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.quotas import Guesses
from longshore.api.routing import Caller, Route
from longshore.contract import Records
from longshore.core import account, submission
from longshore.core.account import Access, Credential, Scope
from longshore.errors import TenantNotFoundError
from longshore.records import api_keys, tenants
from longshore.runtime.clock import Clock

__all__ = ["Admission", "Request"]

_BEARER = b"bearer "
_LOCAL = frozenset({b"localhost", b"127.0.0.1", b"[::1]", b"::1"})
_OWN = frozenset({b"same-origin", b"none"})
_EVERYTHING = frozenset(Scope)
_ANYONE = Caller(None, _EVERYTHING, "loopback")
_TRUST_US = 5_000_000
"""How long a key that was found good is taken as good without another look. A revoked key is
let in for as long."""
_MOST_KNOWN = 10_000
_KEYLESS_US = 500_000
"""How long a store that had no key is taken to have none without another look."""
_FORWARDED = (b"forwarded", b"via", b"x-real-ip")
_FORWARDED_ALSO = b"x-forwarded-"


class Request(msgspec.Struct, frozen=True, gc=False):
    """What decides whether a request may be served."""

    route: Route[Any, Any, Any]
    headers: Mapping[bytes, bytes]
    address: str
    """The client's."""
    is_page_welcome: bool = False
    """It comes from a web page that the settings allow to ask."""


class Admission:
    """Lets a request in, or raises the problem with it.

    A service that listens on this machine only needs no key until the store has its first:
    until then every program of this machine may do everything, and no web page and nobody
    behind a proxy anything. Afterwards it never opens again, whatever becomes of the keys.
    """

    def __init__(self, engine: Records, clock: Clock, *, is_local: bool = True) -> None:
        self._engine = engine
        self._clock = clock
        self._is_local = is_local
        self._guesses = Guesses(clock)
        self._known: OrderedDict[str, tuple[int, Access]] = OrderedDict()
        self._there_until: OrderedDict[str, int] = OrderedDict()
        """By name, until when a tenant is taken to be there."""
        self._had_keys = False
        self._looked_at: int | None = None
        self._used: set[str] = set()
        self._one_guess = asyncio.Lock()

    async def admit(self, request: Request) -> Caller:
        """Whoever sends this request, if it may ask this."""
        if self._is_local and await self._is_open():
            _refuse_pages(request)
            _refuse_forwarded(request)
            tenant = await self._named_tenant(request.headers)
            return _ANYONE if tenant is None else Caller(tenant, _EVERYTHING, "loopback")
        caller = await self._caller(request)
        route = request.route
        if route.scope not in caller.scopes:
            detail = f"The key lacks the scope {route.scope}."
            raise ProblemError(problem("forbidden", detail), _challenge(b"insufficient_scope"))
        if route.is_fleetwide and caller.account is not None:
            detail = "This concerns every tenant; a key of one tenant does not suffice."
            raise ProblemError(problem("forbidden", detail), _challenge(b"insufficient_scope"))
        return caller

    async def still_admits(self, request: Request) -> bool:
        """Whether a request that was let in before would be let in now.

        It is no guess at a key, so a key that has ended costs its address nothing.
        """
        try:
            named = named_tenant(request.headers)
            if named is not None:
                await self._check_tenant(named)
        except ProblemError:
            return False
        if self._is_local and await self._is_open():
            return True
        credential = _presented(request.headers)
        if credential is None:
            return False
        now = self._clock.now()
        access = await self._access(credential.id, now)
        return account.admits(access, credential.secret, now)

    async def note_uses(self) -> float:
        """Tell the store which keys were used; the seconds until it is worth doing again."""
        used, self._used = self._used, set()
        if used:
            await api_keys.note_uses(self._engine, sorted(used))
        return 15.0

    async def _caller(self, request: Request) -> Caller:
        credential = _presented(request.headers)
        if credential is None and b"authorization" not in request.headers:
            raise ProblemError(problem("unauthenticated"), _challenge())
        now = self._clock.now()
        key_id, secret = (credential.id, credential.secret) if credential else ("", "")
        if key_id not in self._known and self._guesses.is_spent(request.address):
            # It may be good, and whoever guesses at the same address, behind the same proxy
            # perhaps, must not lock it out. But guesses are looked up one after the other.
            async with self._one_guess:
                access = await self._access(key_id, now)
        else:
            access = await self._access(key_id, now)
        if not account.admits(access, secret, now) or access is None:
            self._guesses.refuse_spent(request.address)
            self._guesses.note_wrong(request.address)
            raise ProblemError(problem("unauthenticated"), _challenge(b"invalid_token"))
        key = access.key
        self._used.add(key.id)
        tenant = await self._named_tenant(request.headers, key.tenant)
        return Caller(tenant, frozenset(key.scopes), f"key {key.id}", access.tenant, key)

    async def _named_tenant(
        self, headers: Mapping[bytes, bytes], own: str | None = None
    ) -> str | None:
        """Whom the caller speaks for: the key's own tenant, or the one that the header names.

        403 where a tenant's key names another tenant, whether there is one of that name or
        not; 404 where an operator names one that is not there.
        """
        named = named_tenant(headers)
        if own is not None:
            if named not in (None, own):
                detail = "The tenant that Longshore-Tenant names is another than the key's own."
                raise ProblemError(problem("forbidden", detail))
            return own
        if named is not None:
            await self._check_tenant(named)
        return named

    async def _check_tenant(self, name: str) -> None:
        """Return if there is a tenant of this name, as far as was known a moment ago."""
        now = self._clock.now()
        if now < self._there_until.get(name, 0):
            return
        try:
            await tenants.get(self._engine, name)
        except TenantNotFoundError:
            self._there_until.pop(name, None)
            detail = "The tenant that Longshore-Tenant names does not exist; create it first."
            raise ProblemError(problem("tenant_not_found", detail)) from None
        self._there_until[name] = now + _TRUST_US
        if len(self._there_until) > _MOST_KNOWN:
            self._there_until.popitem(last=False)

    async def _access(self, key_id: str, now: int) -> Access | None:
        """What the store knows under the key's id, if it was not asked a moment ago."""
        known = self._known.get(key_id)
        if known is not None and now < known[0]:
            return known[1]
        access = await api_keys.find_access(self._engine, key_id) if key_id else None
        # Ids that nobody has could be made up without end.
        if access is None:
            self._known.pop(key_id, None)
        else:
            self._known[key_id] = (now + _TRUST_US, access)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return access

    async def _is_open(self) -> bool:
        """Whether there never was a key, as of half a second ago or later."""
        if self._had_keys:
            return False
        now = self._clock.now()
        # A clock that was set back must not make an old answer last.
        if self._looked_at is None or not 0 <= now - self._looked_at <= _KEYLESS_US:
            self._had_keys = await api_keys.had_keys(self._engine)
            self._looked_at = now
        return not self._had_keys


def named_tenant(headers: Mapping[bytes, bytes]) -> str | None:
    """The tenant that an operator speaks for, if the request names one."""
    raw = headers.get(b"longshore-tenant")
    if raw is None:
        return None
    name = raw.decode("latin-1")
    if submission.fault_of_name("tenant", name):
        raise invalid("Longshore-Tenant", "is not the name of a tenant")
    return name


def _refuse_pages(request: Request) -> None:
    """Refuse what a web page sends that someone opened in a browser on this machine.

    It could ask by a name of its own for this machine's address, or by a plain form; neither
    needs this service's consent. Both show in what browsers say of themselves.
    """
    headers = request.headers
    host = headers.get(b"host", b"localhost")
    name = host if host.endswith(b"]") else host.rsplit(b":", 1)[0]
    if name.lower() not in _LOCAL:
        raise ProblemError(problem("misdirected"))
    origin = headers.get(b"origin")
    is_foreign = origin is not None and origin.partition(b"://")[2] != host
    is_foreign = is_foreign or headers.get(b"sec-fetch-site", b"none") not in _OWN
    if is_foreign and not request.is_page_welcome:
        raise ProblemError(problem("cross_site"))


def _refuse_forwarded(request: Request) -> None:
    """Refuse what a proxy on this machine passes on: it comes from anywhere."""
    for name in request.headers:
        if name in _FORWARDED or name.startswith(_FORWARDED_ALSO):
            raise ProblemError(problem("forwarded"))


def _presented(headers: Mapping[bytes, bytes]) -> Credential | None:
    raw = headers.get(b"authorization", b"")
    if raw[: len(_BEARER)].lower() != _BEARER:
        return None
    return account.parse(raw[len(_BEARER) :].strip().decode("latin-1"))


def _challenge(error: bytes | None = None) -> tuple[tuple[bytes, bytes], ...]:
    words = b"Bearer" if error is None else b'Bearer error="%s"' % error
    return ((b"www-authenticate", words),)
