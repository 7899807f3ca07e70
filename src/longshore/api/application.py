"""The ASGI application: from a request through the gates to its handler, and back."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from functools import cache
from random import Random
from time import perf_counter
from typing import Any, Protocol

from msgspec.structs import replace

from longshore.api import json_gate, openapi
from longshore.api.body_budget import BodyBudget, Reservation
from longshore.api.context import Service
from longshore.api.cors import Cors
from longshore.api.encoding import encode
from longshore.api.json_gate import Decoder
from longshore.api.problems import ProblemError, RawHeaders, invalid, of_error, problem
from longshore.api.proxies import Proxies
from longshore.api.quotas import Quotas
from longshore.api.routes import ROUTES
from longshore.api.routing import JSON, Answer, Call, Caller, Match, Nothing, Route, Router
from longshore.api.security import Admission, Request
from longshore.api.settings import RESERVED
from longshore.api.sse import Stream, pour
from longshore.api.timeouts import Patience
from longshore.errors import LongshoreError
from longshore.runtime.actor import ACTOR
from longshore.runtime.ticker import FAULTS_OF_STORE

__all__ = ["Application", "Line"]

log = logging.getLogger("longshore.api")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Line(Protocol):
    """The connection, as far as a stream needs to know it."""

    def begin_stream(self) -> None:
        """A client that says no more has gone."""
        ...

    def abort(self) -> None:
        """Give the client up."""
        ...


class _NoLine:
    """Who asks without a connection is never given up."""

    def begin_stream(self) -> None:
        pass

    def abort(self) -> None:
        pass


_NO_LINE = _NoLine()
_ANYONE = Caller("", frozenset(), "anyone")
_random = Random()
_PROBLEM = b"application/problem+json"
_TOO_MANY = 429
_LARGE = 256 << 10
"""A body of so many bytes is read in a thread: it would hold up every other request."""
_PIECE = 64 << 10
"""A larger answer is sent in pieces of so many bytes, as its client reads them."""
_SMALL = 16 << 10
"""Answers up to here are not counted: each connection has one at most."""
_LATER: RawHeaders = ((b"retry-after", b"1"),)
_OWNER = "longshore.owner"
"""Who asks, for bounds on what its answer takes."""
_ROUTE = "longshore.route"
"""The template of the path, for those who count: ids have no place in labels."""
_REQUEST = "longshore.request"
"""What admission looked at, for streams: they are looked at again while they are open."""
_LOOK_S = 2.0
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ALWAYS: RawHeaders = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
# A document is not a page: whatever a browser makes of it may do nothing.
_OF_DOCUMENTS: RawHeaders = (
    *_ALWAYS,
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class Application:
    """Serves the table of routes on an engine that is open."""

    def __init__(
        self,
        service: Service,
        *,
        is_local: bool = True,
        routes: Iterable[Route[Any, Any, Any]] = ROUTES,
    ) -> None:
        table = tuple(routes)
        self._service = service
        self._settings = service.settings
        self.admission = Admission(service.engine, service.clock, is_local=is_local)
        self._quotas = Quotas(service.engine)
        self._proxies = Proxies(service.settings.trusted_proxies)
        self._cors = Cors(service.settings.cors_origins)
        self._router = Router(table)
        self._decoders = {
            route.name: Decoder(route.body, is_outline=route.is_outline) for route in table
        }
        self._patience = Patience(service.settings.request_timeout.total_seconds())
        self._budget = BodyBudget(service.settings)
        self._unread = BodyBudget(service.settings)
        """Bytes of answers that clients have not read."""
        self._under_way = 0
        self._streams: dict[Stream, tuple[Request, Line]] = {}
        """Those that are open: who opened them, and on which connection."""
        service.document = cache(lambda: encode(openapi.document(table)))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        headers = _headers(scope["headers"])
        began: float | None = perf_counter()
        self._under_way += 1
        try:
            answer = await self._answered(scope, headers, receive)
        finally:
            self._under_way -= 1
        try:
            told = self._cors.told(headers)
            if self._service.desk.is_leaving:
                told = (*told, (b"connection", b"close"))
            if answer.stream is None or scope["method"] == "HEAD":
                with Reservation(self._unread, scope.get(_OWNER, "")) as reserved:
                    answer = _affordable(scope["method"], answer, reserved)
                    await _send(answer, told, send)
            else:
                # How long it goes on says nothing of how soon it was answered.
                self._count(scope, answer.status, perf_counter() - began)
                began = None
                await self._stream(answer, answer.stream, told, (scope, receive, send))
        finally:
            if answer.stream is not None:
                answer.stream.close()
            if began is not None:
                self._count(scope, answer.status, perf_counter() - began)

    async def _stream(
        self,
        answer: Answer,
        stream: Stream,
        told: RawHeaders,
        asgi: tuple[Message, Receive, Send],
    ) -> None:
        scope, receive, send = asgi
        line: Line = scope.get("extensions", {}).get("longshore.line", _NO_LINE)
        line.begin_stream()
        headers = [(b"content-type", answer.media), *_ALWAYS, *answer.headers, *told]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        seconds = self._settings.stream_timeout.total_seconds()
        self._streams[stream] = (scope[_REQUEST], line)
        try:
            await pour(stream, seconds, receive, send, line.abort)
        finally:
            del self._streams[stream]

    async def end_revoked_streams(self) -> float:
        """End the streams whose key has ended since; the seconds until the next look.

        A key is taken as good for five seconds, so a stream ends within seven; one whose client
        does not read what is left loses its connection two seconds later.
        """
        for stream, (request, line) in list(self._streams.items()):
            if stream.is_revoked:
                line.abort()
            elif not await self._still_admits(request):
                stream.revoke()
        return _LOOK_S

    async def _still_admits(self, request: Request) -> bool:
        try:
            return await self.admission.still_admits(request)
        except FAULTS_OF_STORE:
            raise
        except Exception:
            # Such as a tenant whose record cannot be decoded: other streams are looked at too.
            log.exception("stream ended, since its key cannot be checked")
            return False

    async def _answered(
        self, scope: Message, headers: Mapping[bytes, bytes], receive: Receive
    ) -> Answer:
        try:
            with self._patience:
                preflight = self._cors.preflight(scope["method"], headers)
                return preflight or await self._serve(scope, headers, receive)
        except ProblemError as error:
            found = error
        except LongshoreError as error:
            found = of_error(error)
        except TimeoutError:
            found = ProblemError(problem("engine_unavailable"), ((b"retry-after", b"1"),))
        except Exception:
            # The last resort: a bug of ours is answered in the same form as everything else.
            log.exception("request failed", extra={"method": scope["method"]})
            found = ProblemError(problem("internal"))
        if found.problem.status == _TOO_MANY:
            self._service.metrics.rate_limited.add(1, found.problem.code)
        return _refusal(found)

    async def _serve(
        self, scope: Message, headers: Mapping[bytes, bytes], receive: Receive
    ) -> Answer:
        match = self._router.find(scope["method"], scope["raw_path"].decode("latin-1"))
        route = match.route
        scope[_ROUTE] = route.path
        most = self._settings.max_requests + (RESERVED if route.is_health else 0)
        if self._under_way - self._service.desk.resting > most:
            raise ProblemError(problem("overloaded"), ((b"retry-after", b"1"),))
        caller = await self._admitted(route, headers, scope)
        scope[_OWNER] = caller.owner
        if not route.has_body:
            return await self._handled(match, caller, (scope, headers, b""))
        with Reservation(self._budget, caller.owner) as reserved:
            raw = await self._body(route, headers, receive, reserved)
            return await self._handled(match, caller, (scope, headers, raw))

    async def _handled(
        self, match: Match, caller: Caller, sent: tuple[Message, Mapping[bytes, bytes], bytes]
    ) -> Answer:
        scope, headers, raw = sent
        route = match.route
        call = Call(
            service=self._service,
            caller=caller,
            path=_parameters(match),
            query=_query(route, scope["query_string"]),
            body=await self._document(route, headers, raw),
            headers=headers,
            raw=raw,
        )
        # What the handler orders, the audit log says this caller has ordered.
        token = ACTOR.set(caller.name)
        try:
            if route.jobs is None:
                return await route.handler(call)
            return await self._charged(call, route)
        finally:
            ACTOR.reset(token)

    def _count(self, scope: Message, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        labels = (method, scope.get(_ROUTE, "none"), str(status))
        metrics = self._service.metrics
        metrics.http_requests.add(1, *labels)
        metrics.http_request.observe(seconds, *labels)

    async def _admitted(
        self, route: Route[Any, Any, Any], headers: Mapping[bytes, bytes], scope: Message
    ) -> Caller:
        if route.scope is None:
            return _ANYONE
        peer = scope["client"][0] if scope.get("client") else ""
        address = self._proxies.client(peer, headers.get(b"x-forwarded-for"))
        is_page_welcome = self._cors.allows(headers)
        request = scope[_REQUEST] = Request(route, headers, address, is_page_welcome)
        return await self.admission.admit(request)

    async def _charged(self, call: Call[Any, Any, Any], route: Route[Any, Any, Any]) -> Answer:
        jobs = route.jobs(call.body) if route.jobs is not None else 0
        told = await self._quotas.spend(call.caller.account, jobs)
        answer = await route.handler(call)
        return replace(answer, headers=(*answer.headers, *told)) if told else answer

    async def _body(
        self,
        route: Route[Any, Any, Any],
        headers: Mapping[bytes, bytes],
        receive: Receive,
        reserved: Reservation,
    ) -> bytes:
        settings = self._settings
        most = settings.max_batch_bytes if route.is_large else settings.max_body_bytes
        announced = int(headers.get(b"content-length", 0))
        if announced > most:
            raise _too_large(most)
        reserved.grow_to(announced)
        parts: list[bytes] = []
        size, is_more = 0, True
        while is_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ProblemError(problem("request_timeout"))
            parts.append(message["body"])
            size += len(parts[-1])
            if size > most:
                raise _too_large(most)
            reserved.grow_to(size)
            is_more = message["more_body"]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _document(
        self, route: Route[Any, Any, Any], headers: Mapping[bytes, bytes], raw: bytes
    ) -> Any:
        if not raw:
            if route.has_body and route.is_body_required:
                raise invalid("", "a JSON document is required")
            return route.body()
        _check_media(headers)
        settings = self._settings
        most = settings.max_batch_nodes if route.is_large else settings.max_nodes
        read = self._decoders[route.name].read
        if len(raw) < _LARGE:
            return read(raw, most_nodes=most)
        return await asyncio.to_thread(read, raw, most_nodes=most)


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> Mapping[bytes, bytes]:
    """By name; of one that was sent several times, all that was sent."""
    found: dict[bytes, bytes] = {}
    for name, value in pairs:
        found[name] = found[name] + b", " + value if name in found else value
    return found


def _parameters(match: Match) -> Any:
    kind = match.route.parameters
    return kind() if kind is Nothing else json_gate.read_parameters(match.parameters, kind)


def _query(route: Route[Any, Any, Any], text: bytes) -> Any:
    kind = route.query
    return kind() if kind is Nothing and not text else json_gate.query(text, kind)


def _check_media(headers: Mapping[bytes, bytes]) -> None:
    given = headers.get(b"content-type", b"")
    if given != JSON:
        media, _, rest = given.lower().partition(b";")
        charset = rest.replace(b" ", b"").replace(b'"', b"")
        if media.strip() != JSON or charset not in (b"", b"charset=utf-8"):
            raise ProblemError(problem("unsupported_media_type"))
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise ProblemError(problem("unsupported_media_type"))


def _too_large(most: int) -> ProblemError:
    detail = f"The body has more than {most} bytes."
    # What is left of the body is not worth waiting for.
    return ProblemError(problem("content_too_large", detail), ((b"connection", b"close"),))


def _affordable(method: str, answer: Answer, reserved: Reservation) -> Answer:
    """The answer, or 503 where too many bytes of answers wait for clients that do not read.

    What has changed something is told of in any case: asking again would not do the same.
    """
    if len(answer.body) <= _SMALL or method != "GET":
        return answer
    try:
        reserved.grow_to(len(answer.body))
    except ProblemError:
        detail = "Answers that were not read hold the memory for answers."
        return _refusal(ProblemError(problem("overloaded", detail), _LATER))
    return answer


def _refusal(found: ProblemError) -> Answer:
    body = encode(found.problem)
    return Answer(found.problem.status, body, found.headers, media=_PROBLEM)


async def _send(answer: Answer, told: RawHeaders, send: Send) -> None:
    always = _OF_DOCUMENTS if answer.media in (JSON, _PROBLEM) else _ALWAYS
    own = (
        (b"content-type", answer.media),
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-request-id", b"%016x" % _random.getrandbits(64)),
    )
    headers = [*own[0 if answer.body else 2 :], *always, *answer.headers, *told]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body, at = answer.body, 0
    while len(body) - at > _PIECE:
        await send(
            {"type": "http.response.body", "body": body[at : at + _PIECE], "more_body": True}
        )
        at += _PIECE
    await send({"type": "http.response.body", "body": body[at:], "more_body": False})


async def _live(receive: Receive, send: Send) -> None:
    """The engine is open before the application is made; there is nothing to start here."""
    for step in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{step}.complete"})
