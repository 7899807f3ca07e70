"""Connections of a remote worker: each request ends in time, in an answer or an error."""

import asyncio
import random
from contextlib import ExitStack

import httpx
import msgspec

from longshore.errors import EngineUnavailableError, LongshoreError
from longshore.runtime.deadline import uncounted
from longshore.wire import errors
from longshore.wire.plain_http import PlainHttpGuard
from longshore.wire.problems import Problem, error_of_problem

__all__ = ["CALL_SECONDS", "ServiceConnection", "error_of"]

CALL_SECONDS = 30.0
_CONNECT_SECONDS = 5.0
_IDLE_SECONDS = 30.0
"""Less than after what a service closes a connection that nobody uses."""
_MOST_CONNECTIONS = 64
_TRIES = 4
_FIRST_PAUSE = 0.02
_SET_UP = {"connection.connect_tcp", "connection.start_tls"}
_TURNED_AWAY = frozenset({"overloaded", "body_budget"})
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class ServiceConnection:
    """Connections to one service, kept for the next request."""

    def __init__(
        self,
        base: str,
        *,
        key: str = "",
        plain_http: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`plain_http` lets the key go to a public address in the clear."""
        self.url = base
        self.authorization = f"Bearer {key}".encode("ascii") if key else b""
        self._guard = PlainHttpGuard(base, has_key=bool(key), is_allowed=plain_http)
        self._transport = transport
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}
        self._is_closed = False

    async def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        again: bool = False,
        seconds: float = CALL_SECONDS,
    ) -> bytes:
        """The body of the answer. With `again`, what may have been lost is sent once more.

        What surely was not served is always sent again, for a while.
        """
        answer: httpx.Response | None = None
        try:
            async with asyncio.timeout(seconds):
                for tries in range(_TRIES):
                    if tries:
                        await asyncio.sleep(_FIRST_PAUSE * 2**tries * random.uniform(0.5, 1.5))
                    answer = await self._ask(method, path, body, again or None, tries)
                    if answer is not None:
                        break
        except TimeoutError:
            raise EngineUnavailableError(f"{self.url} did not answer in time") from None
        if answer is None:
            raise EngineUnavailableError(f"{self.url} cannot be reached")
        if answer.status_code >= 300:
            raise error_of(answer, self.url)
        return answer.content

    async def close(self) -> None:
        """Let go of every connection. Safe to call twice."""
        self._is_closed = True
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _ask(
        self, method: str, path: str, body: bytes | None, again: bool | None, tries: int
    ) -> httpx.Response | None:
        """The answer; None where asking again may bring one."""
        is_last = tries == _TRIES - 1
        connecting = _Connecting()
        try:
            answer = await self._client().request(
                method, path, content=body, extensions={"trace": connecting.note}
            )
        except _NOT_SENT as error:
            if is_last:
                raise self._away(error) from error
            return None
        except httpx.HTTPError as error:
            if is_last or not again:
                raise self._away(error) from error
            return None
        finally:
            connecting.close()
        if answer.status_code == 503 and not is_last and _is_overload(answer):
            return None
        return answer

    def _away(self, error: Exception) -> EngineUnavailableError:
        words = str(error) or type(error).__name__
        return EngineUnavailableError(f"{self.url} cannot be reached: {words}")

    def _client(self) -> httpx.AsyncClient:
        if self._is_closed:
            raise EngineUnavailableError("the engine is closed")
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            # What a closed loop has left behind can neither be used nor closed.
            self._clients = {
                one: own for one, own in self._clients.items() if not one.is_closed()
            }
            client = self._clients[loop] = self._open()
        return client

    def _open(self) -> httpx.AsyncClient:
        headers = {"content-type": "application/json", "user-agent": "longshore"}
        if self.authorization:
            headers["authorization"] = self.authorization.decode("ascii")
        return httpx.AsyncClient(
            base_url=self.url,
            headers=headers,
            transport=self._transport,
            event_hooks={"request": [self._guard.check]},
            timeout=httpx.Timeout(CALL_SECONDS, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(
                max_connections=_MOST_CONNECTIONS,
                max_keepalive_connections=_MOST_CONNECTIONS,
                keepalive_expiry=_IDLE_SECONDS,
            ),
        )


class _Connecting(ExitStack):
    """Keeps the time in which a connection is made from being counted by a caller's deadline.

    On a slow link that is several round trips, and a try that were cut off would be in vain.
    """

    async def note(self, event: str, _: object) -> None:
        """The HTTP library tells of each step of a request by such events."""
        step, _, what = event.rpartition(".")
        if step in _SET_UP and what == "started":
            self.enter_context(uncounted())
        elif step in _SET_UP:
            self.close()


def error_of(answer: httpx.Response, place: str) -> LongshoreError:
    """The error that an answer tells of: the engine's own, if it is one of those."""
    if (told := answer.headers.get(errors.HEADER)) and (known := errors.understood(told)):
        return known
    error = error_of_problem(_problem(answer))
    error.args = (f"{place}: {error}",)
    return error


def _problem(answer: httpx.Response) -> Problem:
    try:
        return msgspec.json.decode(answer.content, type=Problem)
    except (msgspec.DecodeError, UnicodeError):
        words = answer.reason_phrase or "no words"
        return Problem(
            type="about:blank", title=words, status=answer.status_code, detail=words, code=""
        )


def _is_overload(answer: httpx.Response) -> bool:
    """Whether the request was turned away at the door."""
    return _problem(answer).code in _TURNED_AWAY
