"""A worker's session: exchange, renew, wait, close."""

import asyncio
import sqlite3
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from functools import partial

import msgspec

from longshore.contract import Completion, Exchanged, Reference, Renewed, Wakeup
from longshore.core import event, settle
from longshore.core.event import Group, Name
from longshore.core.exchange import queues_to_claim
from longshore.core.job import Claim, Report, Settlement
from longshore.core.responses import Share
from longshore.core.state import Verb
from longshore.engines.sqlite import settlement
from longshore.engines.sqlite.bulk import ABSENT, BulkStatement
from longshore.engines.sqlite.claims import claim, claimed, handed_out, held_by
from longshore.engines.sqlite.notify import WORK, Waker
from longshore.engines.sqlite.outbox import is_muted
from longshore.engines.sqlite.peer_notify import CANCEL
from longshore.engines.sqlite.settlement import Known
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import AfterCommit, Transaction
from longshore.engines.sqlite.transactional_completion import Completer
from longshore.engines.sqlite.writer import Writer
from longshore.errors import ExchangeOrderError, LeaseLostError

__all__ = ["AttachedSession", "SqliteSession"]

_json = msgspec.json.Encoder()
_start = BulkStatement(SQL.start)
_report = BulkStatement(SQL.report)
_references = msgspec.json.Decoder(list[Reference])
_FEW = 16
"""Up to so many claims are read before the commit: they cost less than another transaction."""


class SqliteSession:
    """One lease over all the jobs a worker process holds.

    What it holds is kept here too: settlements name a job by its handle alone, and the events
    they write need the job's id, queue, type and tenant. It changes with each body, not with
    the commit: a renewal and an exchange may share one, and the later must see the earlier.
    """

    def __init__(
        self,
        writer: Writer,
        waker: Waker,
        *,
        token: int,
        lease: int,
        worker: str,
        offer: tuple[tuple[str, ...], frozenset[str]],
    ) -> None:
        self._writer = writer
        self._waker = waker
        self._token = token
        self._lease = lease
        self._worker = worker
        queues, self._types = offer
        self._queues = dict.fromkeys(queues)
        self._held: dict[Reference, Known] = {}
        self._started: set[Reference] = set()
        self._mark = -1
        """When it last began to look for work, by the waker's count."""
        self._waiter: asyncio.Future[bool] | None = None
        self._completer = Completer(writer.store, writer.tell)
        self._completed: set[Reference] = set()
        """Ended in transactions of their handlers; a settlement that follows says nothing."""

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
        if progress:
            started = [*started, *((one.handle, one.delivery) for one in progress)]
        told = started, progress
        body = partial(self._exchange, number, told, settlements, want, wanted)
        if want:
            self._mark = self._waker.mark()
        # A claim that a loss of power undoes is a ready job again: do not wait for the disk.
        return await self._writer.call(body, durable=bool(settlements))

    async def claim_at_wakeup(
        self, number: int, *, want: int, queues: Sequence[str] | None, seconds: float
    ) -> Exchanged | None:
        """Claim when work arrives. See the contract."""
        wanted = queues_to_claim(queues, self._queues)
        body = partial(self._exchange, number, ((), ()), (), want, wanted)
        loop = asyncio.get_running_loop()
        began, self._waiter = loop.time(), loop.create_future()
        if not await self._waker.wait_since(self._mark, seconds, self._waiter):
            return None
        self._mark = self._waker.mark()
        waited = loop.time() - began
        return msgspec.structs.replace(await self._writer.call_here(body), waited=waited)

    def cancel_wait(self) -> None:
        """Let `claim_at_wakeup` return, unless its exchange has begun."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(False)

    async def renew(
        self,
        *,
        number: int = 0,
        held: Sequence[Reference] | None = None,
        started: Sequence[Reference] = (),
    ) -> Renewed:
        """Push the lease's end a full lease into the future. See the contract."""
        body = partial(self._renew, number, held, started)
        return await self._writer.call(body, durable=False)

    def transaction(
        self, reference: Reference, *, started_at: int
    ) -> AbstractAsyncContextManager[Completion]:
        """A transaction for a held, running job. See the contract."""
        return self._completer.transaction(partial(self._complete, reference, started_at))

    async def wait(self, seconds: float, *, until: Wakeup = "work") -> None:
        """Return when it may have come, after `seconds` at the latest."""
        await self._waker.wait(seconds, WORK if until == "work" else CANCEL)

    async def close(self) -> None:
        """End the lease; what is still held goes back to the queue, uncharged."""
        await self._writer.call(self._close)
        self._completer.close()

    def _live(self, transaction: Transaction) -> tuple[int, str, bool]:
        scope = {"token": self._token, "now": transaction.now}
        row = transaction.db.execute(SQL.session_get, scope).fetchone()
        if row is None:
            raise LeaseLostError(self._token)
        return row[0], row[1], bool(row[2])

    def _exchange(
        self,
        number: int,
        told: tuple[Sequence[Reference], Sequence[Report]],
        settlements: Sequence[Settlement],
        want: int,
        queues: Sequence[str],
        transaction: Transaction,
    ) -> Exchanged | AfterCommit[Exchanged]:
        last, refused, _ = self._live(transaction)
        if number == last and number > 0:
            taken = handed_out(transaction.db, (self._token, number), queues)
            claims = claimed(transaction.db, taken)
            self._hold(claims)
            stale, unwanted = _references.decode(refused), self._unwanted(transaction)
            _, is_paused, _ = claim(
                transaction, (self._token, number), 0, queues=queues, types=self._types
            )
            return Exchanged(transaction.now, claims, stale, unwanted, is_paused)
        if number != last + 1:
            raise ExchangeOrderError(number, last)
        settlements = self._open(transaction, settlements)
        started, progress = told
        begun = self._start(transaction, started)
        if progress:
            self._report(transaction, progress)
        stale = settlement.apply(
            transaction,
            (self._token, self._worker),
            settlements,
            self._held,
            begun,
        )
        taken, is_paused, look_in = claim(
            transaction, (self._token, number), want, queues=queues, types=self._types
        )
        refused = _json.encode(stale).decode()
        transaction.db.execute(
            SQL.session_exchanged, {"token": self._token, "number": number, "refused": refused}
        )
        self._let_go(transaction, [(one.handle, one.delivery) for one in settlements])
        unwanted, now = self._unwanted(transaction), transaction.now

        def answer(db: sqlite3.Connection) -> Exchanged:
            claims = claimed(db, taken) if taken else []
            self._hold(claims)
            return Exchanged(now, claims, stale, unwanted, is_paused, look_in, taken.fair)

        if len(taken) > _FEW:
            return AfterCommit(answer)
        exchanged = answer(transaction.db)
        transaction.undo.append(partial(self._forget, exchanged.claims))
        return exchanged

    def _complete(
        self,
        reference: Reference,
        started_at: int,
        transaction: Transaction,
        result: bytes | None,
    ) -> None:
        """Settle the job in its handler's own transaction."""
        self._live(transaction)
        job = self._held.get(reference)
        if job is None:
            raise LeaseLostError(self._token)
        now = transaction.now
        end = settle.succeeded(
            job, started_at=min(started_at, now), finished_at=now, result=result
        )
        holder = self._token, self._worker
        if settlement.apply(transaction, holder, [end], self._held, self._started):
            raise LeaseLostError(self._token)
        self._let_go(transaction, [reference])
        self._completed.add(reference)
        transaction.undo.append(partial(self._completed.discard, reference))

    def _open(
        self, transaction: Transaction, settlements: Sequence[Settlement]
    ) -> Sequence[Settlement]:
        """Those whose jobs have not ended yet."""
        if not self._completed:
            return settlements
        over = {(one.handle, one.delivery) for one in settlements} & self._completed
        self._completed -= over
        transaction.undo.append(partial(self._completed.update, over))
        return [one for one in settlements if (one.handle, one.delivery) not in over]

    def _renew(
        self,
        number: int,
        held: Sequence[Reference] | None,
        started: Sequence[Reference],
        transaction: Transaction,
    ) -> Renewed:
        _, _, is_quiet = self._live(transaction)
        scope = {"token": self._token, "now": transaction.now}
        expires_at = transaction.db.execute(SQL.session_renew, scope).fetchone()[0]
        self._start(transaction, started)
        lost: list[Reference] = []
        released = 0
        if held is not None:
            lost, released = self._reconcile(transaction, number, set(held))
        return Renewed(
            transaction.now,
            expires_at,
            self._unwanted(transaction),
            lost,
            released,
            is_quiet,
            [Share(*row) for row in transaction.db.execute(SQL.shares, scope)],
        )

    def _reconcile(
        self, transaction: Transaction, number: int, held: set[Reference]
    ) -> tuple[list[Reference], int]:
        """What the worker holds in vain, and how much it was given that it never heard of."""
        found = held_by(transaction.db, self._token)
        known = {(one.handle, one.delivery) for one, _ in found}
        strange = {
            (one.handle, one.delivery): one
            for one, exchange in found
            if exchange <= number and (one.handle, one.delivery) not in held
        }
        releases = [
            Settlement(handle=handle, delivery=delivery, verb=Verb.RELEASE)
            for handle, delivery in strange
        ]
        settlement.apply(
            transaction,
            (self._token, self._worker),
            releases,
            strange,
            {reference for reference, one in strange.items() if one.started_at is not None},
        )
        self._let_go(transaction, list(strange))
        return sorted(held - known - self._completed), len(strange)

    def _close(self, transaction: Transaction) -> None:
        scope = {"token": self._token, "now": transaction.now}
        if transaction.db.execute(SQL.session_get, scope).fetchone() is None:
            return  # it lapsed; reclaim decides about what it held
        self._reconcile(transaction, 2**63 - 1, set())
        transaction.db.execute(SQL.session_close, scope)

    def _start(
        self, transaction: Transaction, started: Sequence[Reference]
    ) -> AbstractSet[Reference]:
        """Record starts that are news; every start on record."""
        fresh = {one for one in started if one in self._held and one not in self._started}
        if not fresh:
            return self._started
        rows = [(handle, delivery, transaction.now) for handle, delivery in sorted(fresh)]
        _start.run(transaction.db, rows, self._token)
        ids: dict[tuple[tuple[str, str, str], str | None], list[bytes]] = {}
        for one in sorted(fresh):
            job = self._held[one]
            where = (job.queue, job.type, job.tenant)
            ids.setdefault((where, job.trace), []).append(job.id)
        transaction.groups += [
            Group(Name.STARTED, *where, b"".join(found), trace=trace)
            for (where, trace), found in ids.items()
        ]
        self._started |= fresh
        transaction.undo.append(partial(self._started.difference_update, fresh))
        return self._started

    def _report(self, transaction: Transaction, progress: Sequence[Report]) -> None:
        """Keep what handlers said last, and tell all they said."""
        said = [one for one in progress if (one.handle, one.delivery) in self._held]
        rows = {
            one.handle: (
                one.handle,
                one.delivery,
                one.fraction,
                ABSENT if one.message is None else one.message,
                transaction.now,
            )
            for one in said
        }
        _report.run(transaction.db, list(rows.values()), self._token)
        if said and is_muted(transaction.db):
            return
        told: dict[tuple[tuple[str, str, str], str | None], list[Report]] = {}
        for one in said:
            job = self._held[one.handle, one.delivery]
            where = (job.queue, job.type, job.tenant)
            told.setdefault((where, job.trace), []).append(one)
        transaction.groups += [
            Group(
                Name.PROGRESS,
                *where,
                b"".join(self._held[one.handle, one.delivery].id for one in found),
                [event.progress(one) for one in found],
                trace=trace,
            )
            for (where, trace), found in told.items()
        ]

    def _unwanted(self, transaction: Transaction) -> list[Reference]:
        if not self._held:
            return []  # what is claimed in this very moment is wanted
        return list(settlement.unwanted(transaction.db, self._token))

    def _hold(self, claims: Sequence[Claim]) -> None:
        for one in claims:
            self._held[one.handle, one.delivery] = one

    def _forget(self, claims: Sequence[Claim]) -> None:
        for one in claims:
            self._held.pop((one.handle, one.delivery), None)

    def _let_go(self, transaction: Transaction, ended: Sequence[Reference]) -> None:
        gone = {one: self._held.pop(one) for one in ended if one in self._held}
        begun = self._started & gone.keys()
        self._started -= begun
        transaction.undo += [
            partial(self._held.update, gone),
            partial(self._started.update, begun),
        ]


class AttachedSession(SqliteSession):
    """A session that others speak for too: what it holds is read anew by each call."""

    def _live(self, transaction: Transaction) -> tuple[int, str, bool]:
        standing = super()._live(transaction)
        found = [one for one, _ in held_by(transaction.db, self._token)]
        self._held = {(one.handle, one.delivery): one for one in found}
        self._started = {
            (one.handle, one.delivery) for one in found if one.started_at is not None
        }
        return standing
