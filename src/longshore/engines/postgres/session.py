"""A worker's session: exchange, renew, wait, close."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec

from longshore.contract import Completion, Exchanged, Reference, Renewed, Wakeup
from longshore.core.exchange import queues_to_claim
from longshore.core.job import Report, Settlement
from longshore.core.state import State, Verb, after
from longshore.engines.postgres.applied_settlements import apply, end, read_book
from longshore.engines.postgres.array_literals import packed
from longshore.engines.postgres.circuit_breakers import Hearing
from longshore.engines.postgres.crash_reclaim import check_in, gone
from longshore.engines.postgres.database import Connection, Database, Lane
from longshore.engines.postgres.exchange_result import Meta, Told, read_meta, turns
from longshore.engines.postgres.held_claims import Book, Row
from longshore.engines.postgres.notify import Vigil
from longshore.engines.postgres.rows import renewed
from longshore.engines.postgres.settlement_plan import Plan
from longshore.engines.postgres.sql import SQL
from longshore.engines.postgres.transactional_completion import Completer
from longshore.errors import EngineUnavailableError, ExchangeOrderError, LeaseLostError
from longshore.runtime.deadline import TurnLock, uncounted

__all__ = ["PostgresSession"]

_json = msgspec.json.Encoder()
_SECOND_LOOK = 0.02
"""Seconds in which nearly every commit is over."""
_NEXT_LOOK = 0.1
"""Seconds between two looks whether claims may be made again after a crash."""


_references = msgspec.json.Decoder(list[Reference])
_requests = msgspec.json.Decoder(list[tuple[int, int, str]])


class PostgresSession:
    """One lease over all the jobs a worker process holds.

    Only the session writes what it holds, so it keeps a book of it: a settlement is stale when
    the book does not have it, and the store is told of spans, not of jobs.
    """

    def __init__(
        self,
        database: Database,
        lane: Lane,
        opened: Row,
        *,
        lease: int,
        worker: str,
        offer: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> None:
        """`opened` has the token and the era. The session closes its lane."""
        self._database = database
        self._waker = database.waker
        self._lane = lane
        self._token: int = opened["token"]
        self._era: int = opened["era"]
        """The era of the store in which the book was last known to be right."""
        self._lease = lease
        self._worker = worker
        queues, self._types = offer
        self._queues = dict.fromkeys(queues)
        self._book = Book()
        self._completions = self._book.completions
        self._completer = Completer(
            database, self._completions, token=self._token, lease=lease, read=self._read
        )
        self._turn = TurnLock()
        self._is_doubtful: bool = False
        self._is_waiting = False
        self._vigil = Vigil(self._waker, self)
        self._last = 0
        """The number of the last exchange that was sent."""
        self._was_idle = False
        """Whether it surely changed nothing: then the store has not noted its number."""
        self._told = Told()
        self._hearing = Hearing(database)
        self._is_ended = False
        self.is_open = True
        """Whether it still has a connection, or may have one."""

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
        for verb in {one.verb for one in settlements}:
            after(State.RUNNING, verb)
        tells = await self._database.muting.lets_through(progress)
        if want:
            self._vigil.look()
        while True:
            await self._completions.over(settlements)
            async with self._turn:
                await self._be_sure()
                if self._completions.concern(settlements):
                    continue  # it began while we waited for our turn
                if not max(self._last, 1) <= number <= self._last + 1:
                    await self._ask_whether_live(wanted)
                    raise ExchangeOrderError(number, self._last)
                if number == self._last and self._was_idle:
                    want = 0
                self._last, self._was_idle = number, False
                plan = Plan(self._book, _moment())
                plan.start(started)
                plan.report(progress, tells=tells)
                plan.settle(settlements)
                self._hearing.hear(plan, settlements)
                plan.finish()
                answer = await self._send(number, plan, max(want, 0), wanted)
                if answer is not None:
                    await self._hearing.tell(answer.now)
                    return answer

    async def claim_at_wakeup(
        self, number: int, *, want: int, queues: Sequence[str] | None, seconds: float
    ) -> Exchanged | None:
        """Claim when work arrives. See the contract."""
        queues_to_claim(queues, self._queues)  # refused before it waits
        began, vigil = _moment(), self._vigil
        if not await vigil.keep(seconds):
            return None
        waited, vigil.is_rung = _moment() - began, True
        try:
            answer = await self.exchange(number, want=want, queues=queues)
        finally:
            vigil.is_rung = False
        return msgspec.structs.replace(answer, waited=waited)

    def cancel_wait(self) -> None:
        """Let `claim_at_wakeup` return, unless its exchange has begun."""
        self._vigil.end()

    @asynccontextmanager
    async def transaction(
        self, reference: Reference, *, started_at: int
    ) -> AsyncGenerator[Completion]:
        """A transaction that ends a held job if it commits. See the contract."""
        async with self._completer.transaction(reference, started_at) as completion:
            yield completion

    async def renew(
        self,
        *,
        number: int = 0,
        held: Sequence[Reference] | None = None,
        started: Sequence[Reference] = (),
    ) -> Renewed:
        """Push the lease's end a full lease into the future. See the contract."""
        known = None if held is None else frozenset(held)
        async with self._turn:
            while True:
                await self._be_sure()
                if not started and (told := await self._renew_only(number, known)) is not None:
                    return told
                if self._is_doubtful:
                    continue
                with self._doubt():
                    plan = Plan(self._book, _moment())

                    async def body(connection: Connection) -> Renewed | None:
                        nonlocal plan
                        plan.undo()  # of a try whose commit failed
                        plan = Plan(self._book, _moment())
                        return await self._renew(connection, plan, number, known, started)

                    answer = await self._database.transact(body)
                    if answer is not None:
                        plan.commit(answer.now)
                        return answer
                    self._is_doubtful = True

    async def wait(self, seconds: float, *, until: Wakeup = "work") -> None:
        """Return when it may have come, after `seconds` at the latest."""
        if until == "work":
            await self._waker.wait(seconds, owner=self)
        else:
            await self._waker.wait_for_cancel(seconds, self._token)

    async def close(self) -> None:
        """End the lease; what is still held goes back to the queue, uncharged."""
        if self._is_ended:
            return
        async with self._turn:
            await self._be_sure()
            with self._doubt():
                if not await self._leave_empty_handed():
                    await self._database.transact(
                        lambda connection: end(
                            connection, self._token, self._worker, self._database.now()
                        )
                    )
            self._is_ended = True
            await self.let_go()

    async def _leave_empty_handed(self) -> bool:
        """End the lease in one round trip; False when there is anything to give back."""
        if self._book.held:
            return False
        leaving = SQL.session_leave, self._token, self._database.now()
        return bool(await self._lane.fetch(*leaving))

    async def let_go(self) -> None:
        """Make no more calls. A lease that was not ended runs on."""
        self.is_open = False
        await self._lane.close()

    async def _send(
        self, number: int, plan: Plan, want: int, queues: list[str]
    ) -> Exchanged | None:
        """The exchange's answer; None when it has to be decided anew, with new requests."""
        holds = self._told.holds(plan)
        rows = await self._ask(number, plan, holds, want, queues)
        meta = read_meta(rows)
        book = self._book
        book.requests = {(handle, delivery): why for handle, delivery, why in meta.cancel}
        if meta.status not in ("applied", "idle"):
            plan.undo()
            if meta.status == "repeated":
                return await self._repeated(number, meta, rows[1:])
            if meta.status == "lost":
                raise LeaseLostError(self._token)
            if meta.status == "order":
                raise ExchangeOrderError(number, meta.last or 0)
            self._is_doubtful = meta.status == "doubt"
            return None
        self._was_idle = meta.status == "idle"
        plan.commit(meta.now)
        claims = book.add(number, rows[1:], _moment())
        await self._refuse_mistakes()
        self._told.note(meta, holds, claims)
        self._hearing.note(meta)
        if want:
            self._vigil.found(claims)
        if want and meta.clear:
            self._note_waiting(not claims, missed=meta.missed)
        elif want:
            self._look_again(_NEXT_LOOK)
        unwanted = self._unwanted()
        told = meta.paused, meta.look_in, turns(meta, claims)
        return Exchanged(meta.now, claims, plan.stale, unwanted, *told)

    async def _ask(
        self, number: int, plan: Plan, holds: dict[str, int], want: int, queues: list[str]
    ) -> Sequence[Row]:
        is_news = not plan.is_empty or self._told.is_news(holds)
        who = (self._token, number, self._database.now())
        try:
            if self._vigil.is_rung and not (is_news or holds or plan.stale):
                return await self._lane.fetch(
                    SQL.pick_up, *who, queues, self._types, want, self._era
                )
            return await self._lane.fetch(
                SQL.exchange,
                *who,
                _json.encode(plan.stale).decode(),
                packed(plan.soft),
                queues,
                self._types,
                want,
                is_news,
                self._worker,
                *plan.arguments(),
                self._era,
                _json.encode(holds).decode(),
            )
        except BaseException:
            plan.undo()
            self._is_doubtful = True
            raise

    async def _ask_whether_live(self, queues: list[str]) -> None:
        """LeaseLostError if the lease is over, whatever else is wrong with a call."""
        with suppress(ExchangeOrderError):
            await self._send(-1, Plan(self._book, _moment()), 0, queues)

    async def _repeated(self, number: int, meta: Meta, rows: Sequence[Row]) -> Exchanged:
        """What counts is what was applied then, and not what was planned now."""
        self._is_doubtful = True
        await self._be_sure()
        claims = self._book.add(number, rows, _moment())
        await self._refuse_mistakes()
        stale = _references.decode(meta.refused or "[]")
        return Exchanged(meta.now, claims, stale, self._unwanted(), meta.paused)

    def _note_waiting(self, is_waiting: bool, *, missed: bool) -> None:
        """A submit under way may not have seen that we wait now: look once more behind it."""
        if missed or (is_waiting and not self._is_waiting):
            self._look_again(_SECOND_LOOK)
        self._is_waiting = is_waiting

    def _look_again(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._waker.wake, self)

    async def _renew_only(
        self, number: int, known: frozenset[Reference] | None
    ) -> Renewed | None:
        """A renewal in one round trip; None where more is to be done.

        That is so when the book may not be right any more, or both sides hold different jobs.
        """
        rows = await self._database.fetch(SQL.session_renew, self._token, self._database.now())
        if not rows:
            raise LeaseLostError(self._token)
        row, book = rows[0], self._book
        if row["era"] != self._era:
            self._is_doubtful = True
            return None
        requests = _requests.decode(row["requests"] or "[]")
        book.requests = {(handle, delivery): reason for handle, delivery, reason in requests}
        if known is None:
            return renewed(row, self._unwanted(), lost=[], released=0)
        spans = _references.decode(row["spans"] or "[]")
        is_met = all(one[0] > number or one in book.spans for one in spans)
        if not is_met or self._strange(number, known):
            return None
        return renewed(row, self._unwanted(), lost=self._lost(known), released=0)

    async def _renew(
        self,
        connection: Connection,
        plan: Plan,
        number: int,
        known: frozenset[Reference] | None,
        started: Sequence[Reference],
    ) -> Renewed | None:
        """The answer; None when the book may not be right any more."""
        now, book = self._database.now(), self._book
        row = await connection.fetchrow(SQL.session_renew, self._token, now)
        if row is None:
            raise LeaseLostError(self._token)
        if row["era"] != self._era:
            return None
        requests = await connection.fetch(SQL.requests, self._token)
        book.requests = {(one["handle"], one["delivery"]): one["reason"] for one in requests}
        plan.start(started)
        lost: list[Reference] = []
        strange: list[Settlement] = []
        if known is not None:
            await self._meet(connection, number)
            lost, strange = self._lost(known), self._strange(number, known)
        plan.settle(strange)
        plan.finish()
        await apply(connection, self._token, self._worker, plan, row["now"])
        if strange:
            await connection.execute(SQL.tell_running, self._token)
        return renewed(row, self._unwanted(), lost=lost, released=len(strange))

    async def _meet(self, connection: Connection, number: int) -> None:
        """Enter what the store handed out and no answer told of."""
        for row in await connection.fetch(SQL.claims_of, self._token):
            if row["number"] <= number and (row["number"], row["part"]) not in self._book.spans:
                self._book.enter(row["number"], row, _moment())

    def _lost(self, known: frozenset[Reference]) -> list[Reference]:
        return sorted(
            ref for ref in known if not self._holds(ref) and ref not in self._completions
        )

    def _strange(self, number: int, known: frozenset[Reference]) -> list[Settlement]:
        return [
            Settlement(handle=handle, delivery=span.delivery, verb=Verb.RELEASE)
            for handle, span in self._book.held.items()
            if span.number <= number and (handle, span.delivery) not in known
        ]

    def _holds(self, reference: Reference) -> bool:
        span = self._book.held.get(reference[0])
        return span is not None and span.delivery == reference[1]

    def _unwanted(self) -> list[Reference]:
        return [reference for reference in self._book.requests if self._holds(reference)]

    async def _be_sure(self) -> None:
        """After a call whose answer was lost, or a crash, read what the store holds."""
        if self._is_ended or self._completions.is_adrift:
            raise LeaseLostError(self._token)
        if not self.is_open:
            raise EngineUnavailableError("the engine is closed")
        await self._refuse_mistakes()
        if self._is_doubtful:
            # As much a part of coming back after a loss as connecting is.
            with uncounted():
                era, book = await self._database.transact(self._check_in)
            book.take_over(self._book)
            if era != self._era:
                book.gone |= gone(self._book, book)
            self._era, self._book = era, book
            self._told.forget()
            self._is_doubtful = False
            await self._refuse_mistakes()
        if self._completions.landed:
            self._book.land()

    async def _refuse_mistakes(self) -> None:
        """End the session if it would settle one job with the outcome of another.

        What it holds goes back, uncharged, before its worker can settle any of it.
        """
        if self._book.gone and self._book.is_mistaken:
            await self._database.transact(
                lambda connection: end(
                    connection, self._token, self._worker, self._database.now()
                )
            )
            self._is_ended = True
            await self.let_go()
            raise LeaseLostError(self._token)

    async def _check_in(self, connection: Connection) -> tuple[int, Book]:
        era = await check_in(
            connection, self._token, self._database.now(), era=self._era, book=self._book
        )
        return era, await read_book(connection, self._token)

    async def _read(self, handle: int, era: int | None = None) -> tuple[int, Book]:
        """The book, when it is sure whether this job's start is on record, and its era.

        That may not be `era`, which the store does not know any more.
        """
        self._is_doubtful |= era == self._era
        if self._is_doubtful or handle in self._book.starting:
            async with self._turn:
                await self._be_sure()
        return self._era, self._book

    @contextmanager
    def _doubt(self) -> Generator[None]:
        try:
            yield
        except LeaseLostError:
            raise
        except BaseException:
            self._is_doubtful = True
            raise


def _moment() -> float:
    return asyncio.get_running_loop().time()
