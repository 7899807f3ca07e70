"""Who may ask what: API keys, their scopes and tenants, and a machine that asks itself."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from longshore.api.limiting import Guesses
from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.routing import Caller, Route
from longshore.core import account, submission
from longshore.core.account import Access, Credential, Scope
from longshore.engine import Accounts
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

    A service that listens on this machine only needs no key as long as the store has none:
    then every program of this machine may do everything, and no web page anything.
    """

    def __init__(self, engine: Accounts, clock: Clock, *, is_local: bool = True) -> None:
        self._engine = engine
        self._clock = clock
        self._is_local = is_local
        self._guesses = Guesses(clock)
        self._known: OrderedDict[str, tuple[int, Access | None]] = OrderedDict()
        self._is_open = False
        self._looked_at: int | None = None
        self._used: set[str] = set()

    async def admit(self, request: Request) -> Caller:
        """Whoever sends this request, if it may ask this."""
        if self._is_local and await self._has_no_keys():
            _refuse_pages(request)
            tenant = named_tenant(request.headers)
            return _ANYONE if tenant is None else Caller(tenant, _EVERYTHING, "loopback")
        caller = await self._caller(request)
        route = request.route
        if not route.suffices(caller.scopes):
            detail = f"The key lacks the scope {route.scope}."
            raise ProblemError(problem("forbidden", detail), _challenge(b"insufficient_scope"))
        if route.is_fleetwide and caller.account is not None:
            detail = "This concerns every tenant; a key of one tenant does not suffice."
            raise ProblemError(problem("forbidden", detail), _challenge(b"insufficient_scope"))
        return caller

    async def note_uses(self) -> float:
        """Tell the store which keys were used; the seconds until it is worth doing again."""
        used, self._used = self._used, set()
        if used:
            await self._engine.note_use(sorted(used))
        return 15.0

    async def _caller(self, request: Request) -> Caller:
        credential = _presented(request.headers)
        if credential is None and b"authorization" not in request.headers:
            raise ProblemError(problem("unauthenticated"), _challenge())
        now = self._clock.now()
        access = await self._access(credential, request.address, now)
        secret = credential.secret if credential is not None else ""
        if not account.admits(access, secret, now) or access is None:
            self._guesses.refuse_spent(request.address)
            self._guesses.note_wrong(request.address)
            raise ProblemError(problem("unauthenticated"), _challenge(b"invalid_token"))
        key = access.key
        self._used.add(key.id)
        tenant = named_tenant(request.headers) if key.tenant is None else key.tenant
        return Caller(tenant, frozenset(key.scopes), f"key {key.id}", access.tenant)

    async def _access(
        self, credential: Credential | None, address: str, now: int
    ) -> Access | None:
        """What the store knows under the key's id, if it was not asked a moment ago."""
        key_id = credential.id if credential is not None else ""
        until, access = self._known.get(key_id, (0, None))
        if now < until:
            return access
        if access is None:
            # Not so one that was good a moment ago: whoever guesses at the same address, behind
            # the same proxy perhaps, must not lock it out.
            self._guesses.refuse_spent(address)
        access = await self._engine.find_access(key_id) if key_id else None
        # Ids that nobody has could be made up without end.
        if access is not None:
            self._known[key_id] = (now + _TRUST_US, access)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return access

    async def _has_no_keys(self) -> bool:
        now = self._clock.now()
        if self._looked_at is None or now - self._looked_at > _TRUST_US:
            self._is_open = not await self._engine.keys()
            self._looked_at = now
        return self._is_open


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


def _presented(headers: Mapping[bytes, bytes]) -> Credential | None:
    raw = headers.get(b"authorization", b"")
    if raw[: len(_BEARER)].lower() != _BEARER:
        return None
    return account.parse(raw[len(_BEARER) :].strip().decode("latin-1"))


def _challenge(error: bytes | None = None) -> tuple[tuple[bytes, bytes], ...]:
    words = b"Bearer" if error is None else b'Bearer error="%s"' % error
    return ((b"www-authenticate", words),)
