"""Who may ask what: API keys, their scopes and tenants, and a machine that asks itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.routing import Caller, Route, Scope

__all__ = ["Admission", "Loopback", "Request", "named_tenant"]

_LOCAL = frozenset({b"localhost", b"127.0.0.1", b"[::1]", b"::1"})
_TENANT = re.compile(r"[A-Za-z0-9_.:/@+-]{1,128}")
_OWN = frozenset({b"same-origin", b"none"})


@dataclass(frozen=True, slots=True)
class Request:
    """What decides whether a request may be served."""

    route: Route[Any, Any, Any]
    headers: Mapping[bytes, bytes]
    address: str
    """The client's."""


class Admission(Protocol):
    """Lets a request in, or raises the problem with it."""

    async def admit(self, request: Request) -> Caller:
        """Whoever sends this request."""
        ...


class Loopback:
    """Without keys: every program of this machine may do everything, and no web page anything.

    A page that someone opens in a browser here could send requests too: by its own name for
    this machine's address, or as a plain form. Neither needs this service's consent, so both
    are refused by what browsers say of themselves.
    """

    async def admit(self, request: Request) -> Caller:
        """Anyone on this machine."""
        headers = request.headers
        host = headers.get(b"host", b"localhost").rsplit(b":", 1)
        name = b":".join(host) if host[-1].endswith(b"]") else host[0]
        if name.lower() not in _LOCAL:
            raise ProblemError(problem("misdirected"))
        origin = headers.get(b"origin")
        is_foreign = origin is not None and origin.partition(b"://")[2] != headers.get(b"host")
        if is_foreign or headers.get(b"sec-fetch-site", b"none") not in _OWN:
            raise ProblemError(problem("cross_site"))
        return Caller(named_tenant(headers), frozenset(Scope), "loopback")


def named_tenant(headers: Mapping[bytes, bytes]) -> str | None:
    """The tenant that an operator speaks for, if the request names one."""
    raw = headers.get(b"longshore-tenant")
    if raw is None:
        return None
    name = raw.decode("latin-1")
    if not _TENANT.fullmatch(name):
        raise invalid("Longshore-Tenant", "is not the name of a tenant")
    return name
