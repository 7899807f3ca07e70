"""A store behind a service, as far as programs need it that submit jobs and run them.

A remote worker has the routes of sessions and nothing else. All other calls of the contract are
made beside the store: nobody reaches them through HTTP.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from longshore.client.connection import ServiceConnection
from longshore.client.remote_session import RemoteSession
from longshore.core.capabilities import Traits
from longshore.core.instant import micros
from longshore.core.job import Held, NewJob, Settlement, Submitted
from longshore.core.responses import Renewed
from longshore.core.state import State, after
from longshore.core.submission import check
from longshore.errors import ConfigError, LeaseLostError, NotOverHttpError, SubmitError
from longshore.wire import sessions
from longshore.wire.address import read_address
from longshore.wire.documents import (
    BuryAnswer,
    BuryBody,
    HeldAnswer,
    OpenBody,
    Opened,
    RenewAnswer,
)

if TYPE_CHECKING:
    from longshore.client.async_client import Client

__all__ = ["RemoteStore", "open_service"]

_encode = msgspec.json.Encoder().encode


class _Readiness(msgspec.Struct, frozen=True):
    now: datetime


class RemoteStore:
    """The store behind a Longshore API service, for a producer, a worker and its keeper."""

    def __init__(
        self, connection: ServiceConnection, make_client: "Callable[[], Client]"
    ) -> None:
        """The connection asks the routes of sessions, a client the public ones.

        The client is made when it is needed: a keeper needs none.
        """
        self._connection = connection
        self._make_client = make_client

    @cached_property
    def client(self) -> "Client":
        """For everything but sessions."""
        return self._make_client()

    @property
    def traits(self) -> Traits:
        """What can be promised through HTTP; the rest the service's own store promises."""
        return Traits(
            transactional_submit=False,
            transactional_completion=False,
            pushes_wakeups=True,
            claims_at_wakeup=False,
            ordering_keys=True,
            survives_power_loss=False,
            own_clock=True,
            shared_between_processes=True,
            maintenance=False,
        )

    @property
    def url(self) -> str:
        """Where the service is, without the key."""
        return self._connection.url

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        """Store the jobs durably, and answer for each.

        How long a key is waited for, the service decides.
        """
        check(jobs)
        return await self.client.submit_jobs(jobs, independent=independent) if jobs else []

    async def open_session(
        self,
        *,
        worker: str,
        queues: Sequence[str],
        types: Sequence[str],
        lease: int,
        owner: str = "",
    ) -> RemoteSession:
        """Take a lease. It belongs to the API key, whatever else is given."""
        if owner:
            raise ConfigError("over HTTP a session belongs to the API key that opens it")
        body = OpenBody(worker=worker, queues=list(queues), types=list(types), lease_us=lease)
        answer = await self._connection.call("POST", "/v1/sessions", _written(body), again=True)
        return self._session(answer)

    async def attach_session(self, token: int) -> RemoteSession:
        """A session that was opened with the same API key."""
        return self._session(await self._connection.call("GET", _path(token), again=True))

    async def renew(self, token: int) -> Renewed:
        """Push a session's end, for the keeper of a worker that may be too busy to."""
        answer = await self._connection.call("POST", f"{_path(token)}:keep", again=True)
        return sessions.renewed(msgspec.json.decode(answer, type=RenewAnswer))

    async def held(self, token: int) -> list[Held] | None:
        """All that a session holds; None when it has ended."""
        try:
            answer = await self._connection.call("POST", f"{_path(token)}:held", again=True)
        except LeaseLostError:
            return None
        return msgspec.json.decode(answer, type=HeldAnswer).held

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        """End the session of a worker that is known to be dead, once."""
        if grace is not None:
            raise NotOverHttpError("sessions that lapsed are ended where the store is")
        for one in settlements:
            after(State.RUNNING, one.verb)
        body = BuryBody([sessions.settlement_body(one) for one in settlements])
        try:
            answer = await self._connection.call("POST", f"{_path(token)}:bury", _encode(body))
        except LeaseLostError:
            return 0
        return msgspec.json.decode(answer, type=BuryAnswer).settled

    async def now(self) -> int:
        """The store's clock."""
        answer = await self._connection.call("GET", "/readyz", again=True)
        return micros(msgspec.json.decode(answer, type=_Readiness).now)

    async def ping(self) -> None:
        """Return if the service can write to its store."""
        await self._connection.call("GET", "/readyz", again=True)

    async def close(self) -> None:
        """Let go of every connection."""
        await self._connection.close()
        if "client" in vars(self):
            await self.client.close()

    def _session(self, answer: bytes) -> RemoteSession:
        opened = msgspec.json.decode(answer, type=Opened)
        return RemoteSession(self._connection, token=opened.token, lease=opened.lease_us)


def open_service(url: str) -> RemoteStore:
    """The store behind the service at `https://key@host[:port]/prefix`; nothing is touched."""
    base, key, plain_http = read_address(url)

    def make_client() -> "Client":
        from longshore.client.async_client import Client  # its documents take a while to load

        return Client(base, key=key or None, plain_http=plain_http)

    connection = ServiceConnection(base, key=key, plain_http=plain_http)
    return RemoteStore(connection, make_client)


def _path(token: int) -> str:
    return f"/v1/sessions/{sessions.session_id(token)}"


def _written(body: msgspec.Struct) -> bytes:
    try:
        return _encode(body)
    except UnicodeEncodeError as error:
        raise SubmitError("text has half a character in it, which is no text") from error
