"""A session that several processes speak for: it keeps nothing between two calls.

Each call reads the session's book behind its lock and acts on it in the same transaction. That
costs three small statements more than a session that knows its book, and leaves nothing to be
in doubt about: whatever process was killed, or answered last, the store has all there is.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from longshore.contract import Exchanged, Reference, Renewed, Wakeup
from longshore.core import circuit_breaker
from longshore.core.exchange import queues_to_claim
from longshore.core.job import Report, Settlement
from longshore.core.state import State, Verb, after
from longshore.engines.postgres.applied_settlements import apply, end, read_book
from longshore.engines.postgres.array_literals import packed
from longshore.engines.postgres.circuit_breakers import configured, observe
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.exchange_result import read_meta, turns
from longshore.engines.postgres.held_claims import Book, Row
from longshore.engines.postgres.rows import renewed
from longshore.engines.postgres.settlement_plan import Plan
from longshore.engines.postgres.sql import SQL
from longshore.errors import EngineBusyError, ExchangeOrderError, LeaseLostError

__all__ = ["AttachedSession", "attach"]

_json = msgspec.json.Encoder()
_references = msgspec.json.Decoder(list[Reference])
_TRIES = 10
_SECOND_LOOK = 0.02
"""Seconds in which nearly every commit is over."""
_NEXT_LOOK = 0.1
"""Seconds between two looks whether claims may be made again after a crash."""


async def attach(find: Callable[[], Database], token: int) -> "AttachedSession":
    """The session, if it is live, in the database that `find` returns unless it is closed."""
    database = find()
    rows = await database.fetch(SQL.session_of, token, database.now())
    if not rows:
        raise LeaseLostError(token)
    return AttachedSession(find, token, rows[0])


class AttachedSession:
    """One lease, told of by whoever has the session's token."""

    def __init__(self, find: Callable[[], Database], token: int, opened: Row) -> None:
        self._find = find
        self._token = token
        self._lease: int = opened["lease"]
        self._worker: str = opened["worker"]
        self._queues: dict[str, None] = dict.fromkeys(opened["queues"])
        self._types: list[str] = opened["types"]
        self._era: int | None = None
        """The era of the store in which the session was last heard of."""
        self._is_waiting = False
        """Its last exchange through here found nothing, and looks again if need be."""

    @property
    def _database(self) -> Database:
        return self._find()

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
        wanted = queues_to_claim(queues, self._queues)
        for one in settlements:
            after(State.RUNNING, one.verb)
        tells = await self._database.muting.lets_through(progress)

        async def body(connection: Connection) -> Exchanged | None:
            await self._check_in(connection)
            book = await read_book(connection, self._token)
            plan = Plan(book, _moment())
            plan.start(started)
            plan.report(progress, tells=tells)
            plan.settle(settlements)
            types = await configured(connection)
            said = circuit_breaker.verdicts(plan.settled(settlements), types) if types else {}
            plan.finish()
            answer = await self._send(connection, number, (book, plan), max(want, 0), wanted)
            if answer is not None and types:
                await observe({**dict.fromkeys(types, ()), **said}, answer.now, connection)
            return answer

        for _ in range(_TRIES):
            answer = await self._database.transact(body)
            if answer is not None:
                return answer
        raise EngineBusyError(f"session {self._token} has to decide again and again")

    async def renew(
        self,
        *,
        number: int = 0,
        held: Sequence[Reference] | None = None,
        started: Sequence[Reference] = (),
    ) -> Renewed:
        """Push the lease's end a full lease into the future. See the contract."""
        known = None if held is None else frozenset(held)

        async def body(connection: Connection) -> Renewed:
            row = await connection.fetchrow(
                SQL.session_renew, self._token, self._database.now()
            )
            if row is None:
                raise LeaseLostError(self._token)
            book = await read_book(connection, self._token)
            plan = Plan(book, _moment())
            plan.start(started)
            lost = [] if known is None else sorted(one for one in known if not _has(book, one))
            strange = [] if known is None else _strange(book, number, known)
            plan.settle(strange)
            plan.finish()
            await apply(connection, self._token, self._worker, plan, row["now"])
            if strange:
                await connection.execute(SQL.tell_running, self._token)
            return renewed(row, _unwanted(book), lost=lost, released=len(strange))

        return await self._database.transact(body)

    async def wait(self, seconds: float, *, until: Wakeup = "work") -> None:
        """Return when it may have come, after `seconds` at the latest."""
        if until == "work":
            await self._database.waker.wait(seconds, owner=self)
        else:
            await self._database.waker.wait_for_cancel(seconds, self._token)

    async def close(self) -> None:
        """End the lease; what is still held goes back to the queue, uncharged."""
        await self._database.transact(
            lambda connection: end(connection, self._token, self._worker, self._database.now())
        )

    async def _send(
        self,
        connection: Connection,
        number: int,
        planned: tuple[Book, Plan],
        want: int,
        queues: list[str],
    ) -> Exchanged | None:
        """The exchange's answer; None when it has to be decided anew, with new requests."""
        book, plan = planned
        rows = await connection.fetch(
            SQL.exchange,
            self._token,
            number,
            self._database.now(),
            _json.encode(plan.stale).decode(),
            packed(plan.soft),
            queues,
            self._types,
            want,
            # It is always noted, also when it changes nothing, and waits for the disk: nobody
            # else remembers it.
            True,
            self._worker,
            *plan.arguments(),
            self._era,
            _json.encode(plan.holds()).decode(),
        )
        meta = read_meta(rows)
        if meta.status == "lost":
            raise LeaseLostError(self._token)
        if meta.status in ("heed", "doubt"):
            self._era = self._era if meta.status == "heed" else None
            return None
        last = meta.last or 0
        if meta.status == "order" or number not in (max(last, 1), last + 1):
            raise ExchangeOrderError(number, last)
        book.requests = {(handle, delivery): why for handle, delivery, why in meta.cancel}
        stale = plan.stale
        if meta.status == "repeated":
            # What counts is what was applied then, and not what was planned now.
            plan.undo()
            stale = _references.decode(meta.refused or "[]")
        claims = book.add(number, rows[1:], _moment())
        is_waiting = bool(want) and not claims
        if is_waiting and not (self._is_waiting and meta.clear):
            self._look_again(_SECOND_LOOK if meta.clear else _NEXT_LOOK)
        self._is_waiting = is_waiting
        told = meta.paused, meta.look_in, turns(meta, claims)
        return Exchanged(meta.now, claims, stale, _unwanted(book), *told)

    async def _check_in(self, connection: Connection) -> None:
        """Go on in this era. Nothing was lost: what it claims waits for the disk."""
        if self._era is None:
            row = await connection.fetchrow(
                SQL.check_in, self._token, self._database.now(), self._era
            )
            if row is None:
                raise LeaseLostError(self._token)
            self._era = row["era"]

    def _look_again(self, seconds: float) -> None:
        """A submit under way may not have seen that we wait now: look once more behind it."""
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self._database.waker.wake, self)


def _has(book: Book, reference: Reference) -> bool:
    span = book.held.get(reference[0])
    return span is not None and span.delivery == reference[1]


def _unwanted(book: Book) -> list[Reference]:
    return [reference for reference in book.requests if _has(book, reference)]


def _strange(book: Book, number: int, known: frozenset[Reference]) -> list[Settlement]:
    """Releases of what was handed out up to `number` and the worker does not know."""
    return [
        Settlement(handle=handle, delivery=span.delivery, verb=Verb.RELEASE)
        for handle, span in book.held.items()
        if span.number <= number and (handle, span.delivery) not in known
    ]


def _moment() -> float:
    return asyncio.get_running_loop().time()
