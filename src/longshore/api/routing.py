"""The table of routes: what a route is, and which one a request is for."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

import msgspec

from longshore.api.context import Service
from longshore.api.problems import ProblemError, RawHeaders, invalid, problem
from longshore.api.sse import Stream
from longshore.core.account import DEFAULT_TENANT, ApiKey, Scope, Tenant

__all__ = [
    "JSON",
    "Answer",
    "Call",
    "Caller",
    "Header",
    "Match",
    "Nothing",
    "Route",
    "Router",
    "Scope",
]

P = TypeVar("P")
Q = TypeVar("Q")
B = TypeVar("B")

JSON = b"application/json"

_PARAMETER = re.compile(r"\{(\w+)\}")


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters, or no fields."""


_NOTHING: type[Any] = Nothing


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Who asks: for a tenant, with some scopes."""

    tenant: str | None
    """None: an operator, who may ask for every tenant."""
    scopes: frozenset[Scope]
    name: str
    """What `job.purged` says of who it was."""

    account: Tenant | None = None
    """What is asked of the tenant's own keys; nothing of an operator's."""
    key: ApiKey | None = None
    """None where nobody needs one."""

    @property
    def home(self) -> str:
        """Whose are the things that the caller makes."""
        return self.tenant or DEFAULT_TENANT

    @property
    def owner(self) -> str:
        """The name under which bounds count what the caller uses: its tenant, or its key."""
        return self.name if self.tenant is None else f"tenant {self.tenant}"


class Call(msgspec.Struct, Generic[P, Q, B], frozen=True):
    """A request that passed every gate, on its way to a handler."""

    service: Service
    caller: Caller
    path: P
    query: Q
    body: B
    headers: Mapping[bytes, bytes]
    raw: bytes = b""
    """The body as it was sent."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What goes back: a status, bytes and headers of its own."""

    status: int
    body: bytes = b""
    headers: RawHeaders = ()
    media: bytes = JSON
    stream: Stream | None = None
    """What goes on after the headers, instead of a body."""


@dataclass(frozen=True, slots=True)
class Header:
    """A request header, as the document describes it."""

    words: str
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Generic[P, Q, B]):
    """One row of the table: all that dispatch, gates and the OpenAPI document know of it."""

    method: str
    path: str
    """A template: `/v1/jobs/{id}:cancel`."""
    name: str
    """The operation's id."""
    handler: Callable[[Call[P, Q, B]], Awaitable[Answer]]
    """Its docstring is what the document says of the operation."""
    answers: Mapping[int, Any]
    """By status, the type of the body; None for no body."""
    problems: tuple[str, ...] = ()
    """The codes of the catalogue that only this route answers with."""
    scope: Scope | None = None
    """None: anyone may ask."""
    is_fleetwide: bool = False
    """It concerns every tenant, so a key of one tenant does not suffice."""
    parameters: type[P] = _NOTHING
    """Those in the path."""
    query: type[Q] = _NOTHING
    body: type[B] = _NOTHING
    is_body_required: bool = True
    headers: Mapping[str, Header] = field(default_factory=dict[str, "Header"])
    """Request headers that it reads."""
    aliases: tuple[str, ...] = ()
    """Other paths that lead to it."""
    media: str = "application/json"
    is_large: bool = False
    """Takes bodies up to the limit for batches."""
    is_outline: bool = False
    """The handler reads the parts of the body, one by one."""
    is_health: bool = False
    """Health checks ask for it: a few are served although the process is full."""
    jobs: Callable[[B], int] | None = None
    """How many jobs a request asks to submit: what it costs of the tenant's quota."""

    @property
    def has_body(self) -> bool:
        """A request may carry a document."""
        return self.body is not Nothing


@dataclass(frozen=True, slots=True)
class Match:
    """The route that a request is for, and the text of its parameters."""

    route: Route[Any, Any, Any]
    parameters: dict[str, str]


class Router:
    """Finds the route of a request. Paths without parameters take one look."""

    def __init__(self, routes: Iterable[Route[Any, Any, Any]]) -> None:
        self._exact: dict[str, dict[str, Match]] = {}
        self._patterns: dict[str, list[_Pattern]] = {}
        for route in routes:
            for path in (route.path, *route.aliases):
                self._add(path, route)

    def find(self, method: str, raw_path: str) -> Match:
        """The match for this method and path, still percent-encoded, or a 404 or 405."""
        by_method = self._exact.get(raw_path)
        found: dict[str, str] = {}
        if by_method is None:
            by_method, found = self._search(raw_path)
        match = by_method.get("GET" if method == "HEAD" else method)
        if match is None:
            allow = ", ".join(sorted({*by_method, *["HEAD"] * ("GET" in by_method)}))
            raise ProblemError(
                problem("method_not_allowed"), ((b"allow", allow.encode("ascii")),)
            )
        return Match(match.route, found) if found else match

    def _add(self, path: str, route: Route[Any, Any, Any]) -> None:
        match = Match(route, {})
        if "{" not in path:
            self._exact.setdefault(path, {})[route.method] = match
            return
        patterns = self._patterns.setdefault(_stem(path), [])
        known = next((one for one in patterns if one.template == path), None)
        if known is None:
            known = _Pattern(path, re.compile(_expression(path)), {})
            patterns.append(known)
            # A path that goes on behind its parameter is the more particular one.
            patterns.sort(key=lambda one: -len(one.template))
        known.by_method[route.method] = match

    def _search(self, raw_path: str) -> tuple[dict[str, Match], dict[str, str]]:
        for pattern in self._patterns.get(_stem(raw_path), ()):
            if found := pattern.expression.fullmatch(raw_path):
                return pattern.by_method, _decoded(found.groupdict())
        raise ProblemError(problem("route_not_found"))


@dataclass(frozen=True, slots=True)
class _Pattern:
    template: str
    expression: re.Pattern[str]
    by_method: dict[str, Match]


def _stem(path: str) -> str:
    """What stands before the first parameter, as far as it has whole segments."""
    parts = path.split("/", 3)
    depth = 3 if parts[1:2] == ["v1"] else 2
    return "/".join(parts[:depth])


def _expression(template: str) -> str:
    words = _PARAMETER.split(template)
    return "".join(
        f"(?P<{word}>[^/]+?)" if index % 2 else re.escape(word)
        for index, word in enumerate(words)
    )


def _decoded(found: Mapping[str, str]) -> dict[str, str]:
    try:
        return {name: unquote(text, errors="strict") for name, text in found.items()}
    except UnicodeDecodeError:
        raise invalid(next(iter(found)), "is not UTF-8") from None
