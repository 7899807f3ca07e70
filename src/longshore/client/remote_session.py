"""A worker's session over HTTP: exchange, renew, wait, close."""

from collections.abc import Sequence

import msgspec

from longshore.client.connection import CALL_SECONDS, ServiceConnection
from longshore.contract import Exchanged, Reference, Renewed, Wakeup
from longshore.core import ids
from longshore.core.job import Attempt, JobId, Report, Settlement
from longshore.core.state import State, after
from longshore.errors import LeaseLostError
from longshore.wire import sessions
from longshore.wire.documents import (
    LONGEST_WAIT,
    AttemptsAnswer,
    AttemptsBody,
    ExchangeAnswer,
    ExchangeBody,
    RenewAnswer,
    RenewBody,
    WaitBody,
    WaitingAnswer,
)

__all__ = ["RemoteSession"]

_encode = msgspec.json.Encoder().encode
_exchanged = msgspec.json.Decoder(ExchangeAnswer)
_renewed = msgspec.json.Decoder(RenewAnswer)


class RemoteSession:
    """One lease, held through any of the service's processes."""

    def __init__(self, connection: ServiceConnection, *, token: int, lease: int) -> None:
        self._connection = connection
        self._token = token
        self._lease = lease
        self._path = f"/v1/sessions/{sessions.session_id(token)}"
        self._is_ended = False

    @property
    def token(self) -> int:
        """Fences the session."""
        return self._token

    @property
    def lease(self) -> int:
        """How long the session lives without a renewal."""
        return self._lease

    async def exchange(
        self,
        number: int,
        *,
        started: Sequence[Reference] = (),
        progress: Sequence[Report] = (),
        settlements: Sequence[Settlement] = (),
        want: int = 0,
        queues: Sequence[str] | None = None,
    ) -> Exchanged:
        """Record starts, settle and claim in one commit. See the contract."""
        for one in settlements:
            after(State.RUNNING, one.verb)
        body = ExchangeBody(
            number=number,
            started=sessions.names_of(started),
            progress=[sessions.report_body(one) for one in progress],
            settlements=[sessions.settlement_body(one) for one in settlements],
            want=max(want, 0),
            queues=list(queues) if queues else None,
        )
        answer = await self._call("exchange", _encode(body))
        return sessions.exchanged(_exchanged.decode(answer))

    async def renew(
        self,
        *,
        number: int = 0,
        held: Sequence[Reference] | None = None,
        started: Sequence[Reference] = (),
    ) -> Renewed:
        """Push the lease's end a full lease into the future. See the contract."""
        body = RenewBody(
            number=number,
            held=None if held is None else sessions.names_of(held),
            started=sessions.names_of(started),
        )
        return sessions.renewed(_renewed.decode(await self._call("renew", _encode(body))))

    async def attempts(self, job_id: JobId) -> list[Attempt]:
        """The ended deliveries of a job that the session holds, or JobNotFoundError."""
        answer = await self._call("attempts", _encode(AttemptsBody(ids.text(job_id))))
        return msgspec.json.decode(answer, type=AttemptsAnswer).attempts

    async def has_waiting_jobs(self) -> bool:
        """Whether ready jobs of its queues and types wait longer than it takes to claim one."""
        answer = await self._call("waiting", b"")
        return msgspec.json.decode(answer, type=WaitingAnswer).is_waiting

    async def close(self) -> None:
        """End the lease; what is still held goes back to the queue, uncharged."""
        if not self._is_ended:
            await self._connection.call("DELETE", self._path, again=True)
            self._is_ended = True

    async def wait(self, seconds: float, *, until: Wakeup = "work") -> None:
        """Return when it may have come, after `seconds` at the latest."""
        patience = min(max(seconds, 0.0), LONGEST_WAIT)
        body = _encode(WaitBody(patience, until))
        await self._call("wait", body, seconds=patience + CALL_SECONDS)

    async def _call(self, verb: str, body: bytes, *, seconds: float = CALL_SECONDS) -> bytes:
        if self._is_ended:
            raise LeaseLostError(self._token)
        return await self._connection.call(
            "POST", f"{self._path}:{verb}", body, again=True, seconds=seconds
        )
