"""The model's answer to workers."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress

from longshore.contract import Exchanged, Reference, Renewed, Wakeup
from longshore.core import circuit_breaker, event
from longshore.core.event import Name
from longshore.core.exchange import queues_to_claim
from longshore.core.job import Progress, Report, Settlement
from longshore.core.limit_settings import Order
from longshore.core.responses import Share
from longshore.core.state import State, Verb, after
from longshore.errors import ExchangeOrderError, LeaseLostError
from longshore.testing.model.row import Row
from longshore.testing.model.store import Lease, Store, claim_of

__all__ = ["ModelSession"]


class ModelSession:
    """A worker's standing with the model."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store = store
        self._lease = lease

    @property
    def token(self) -> int:
        """See `longshore.contract.Session`."""
        return self._lease.token

    @property
    def lease(self) -> int:
        """See `longshore.contract.Session`."""
        return self._lease.length

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
        """See `longshore.contract.Session`."""
        wanted = queues_to_claim(queues, dict.fromkeys(self._lease.queues))
        lease = self._live_lease()
        look_in = None
        is_new = number != lease.number or number < 1
        if is_new:
            self._apply(number, started, progress, settlements)
            look_in = self._claim(number, wanted, max(want, 0))
            self._store.commit(wakes=False)
        claimed = [row for row in self._held() if row.number == number]
        return Exchanged(
            now=self._store.now(),
            claims=[claim_of(row) for row in sorted(claimed, key=lambda row: row.turn)],
            stale=list(lease.refused),
            cancel=self._asked_to_cancel(),
            is_paused=bool(wanted)
            and all((queue, None) in self._store.pauses for queue in wanted),
            look_in=look_in,
            fair=self._fair({row.job.queue for row in claimed}) if is_new else (),
        )

    async def renew(
        self,
        *,
        number: int = 0,
        held: Sequence[Reference] | None = None,
        started: Sequence[Reference] = (),
    ) -> Renewed:
        """See `longshore.contract.Session`."""
        lease = self._live_lease()
        lease.renewed_at = self._store.now()
        lease.expires_at = max(lease.expires_at, lease.renewed_at + lease.length)
        self._start(started)
        lost, released = [], 0
        if held is not None:
            ours = {row.reference for row in self._held()}
            lost = [reference for reference in held if reference not in ours]
            released = self._store.release(
                row
                for row in self._held()
                if row.reference not in held and row.number <= number
            )
        self._store.commit()
        return Renewed(
            now=self._store.now(),
            expires_at=lease.expires_at,
            cancel=self._asked_to_cancel(),
            lost=lost,
            released=released,
            is_quiet=lease.is_quiet,
            shares=[self._share(queue) for queue in sorted(set(lease.queues))],
        )

    async def wait(self, seconds: float, *, until: Wakeup = "work") -> None:
        """See `longshore.contract.Session`."""
        told = self._store.waiting if until == "work" else self._store.heeding
        await _told(told, seconds)

    async def close(self) -> None:
        """See `longshore.contract.Session`."""
        # What a lapsed session holds is the reclaimer's to judge, not its own.
        with suppress(LeaseLostError):
            self._live_lease()
            self._store.release(self._held())
            del self._store.leases[self.token]
            self._store.commit()

    def _share(self, queue: str) -> Share:
        store = self._store
        serving = [
            one.token
            for one in store.leases.values()
            if one.expires_at > store.now() and queue in one.queues
        ]
        place = sum(token < self.token for token in serving)
        said = store.effective(queue)
        limits = said.retry_rate, said.max_running, said.rate
        return Share(queue, place, len(serving), *limits)

    def _live_lease(self) -> Lease:
        lease = self._store.leases.get(self.token)
        if lease is None or lease.expires_at <= self._store.now():
            raise LeaseLostError(self.token)
        return lease

    def _held(self) -> list[Row]:
        return self._store.held_by(self.token)

    def _apply(
        self,
        number: int,
        started: Sequence[Reference],
        progress: Sequence[Report],
        settlements: Sequence[Settlement],
    ) -> None:
        lease = self._lease
        if number != lease.number + 1:
            raise ExchangeOrderError(number, lease.number)
        for settlement in settlements:
            after(State.RUNNING, settlement.verb)
        lease.number = number
        lease.refused = []
        self._start([*started, *((one.handle, one.delivery) for one in progress)])
        for report in progress:
            self._report(report)
        for settlement in settlements:
            reference = (settlement.handle, settlement.delivery)
            row = next((row for row in self._held() if row.reference == reference), None)
            if row is None:
                lease.refused.append(reference)
            else:
                said = circuit_breaker.verdicts(
                    [(row.job.type, row.job.tenant, settlement)], {row.job.type}
                )
                self._store.settle(row, settlement)
                for type_name, outcomes in said.items():
                    self._store.observe(type_name, outcomes)
        self._store.lines.stir()

    def _start(self, started: Sequence[Reference]) -> None:
        for row in self._held():
            if row.reference in started:
                self._store.start(row)

    def _report(self, report: Report) -> None:
        for row in self._held():
            if row.reference == (report.handle, report.delivery):
                told = Progress(report.fraction, report.message, self._store.now())
                row.change(progress=told)
                if not self._store.is_muted:
                    self._store.emit(Name.PROGRESS, row.job, **event.progress(report))

    def _claim(self, number: int, queues: Sequence[str], want: int) -> int | None:
        """Take what may be taken, probes before all else; when it pays to ask again."""
        store, types, looks = self._store, set(self._lease.types), list[int]()
        for type_name in sorted(types & store.breakers().keys()) if want else ():
            room = store.probes(type_name)
            if room is None:
                continue
            types.remove(type_name)
            if not room:
                looks.append(circuit_breaker.look_in(store.standings[type_name], store.now()))
            else:
                self._claim_of({type_name}, number, queues, min(want, room))
                if any(row.number == number for row in self._held()):
                    return None
        look = self._claim_of(types, number, queues, want)
        if sum(row.number == number for row in self._held()) == want:
            return look
        return min([*looks, *([] if look is None else [look])], default=None)

    def _claim_of(
        self, types: set[str], number: int, queues: Sequence[str], want: int
    ) -> int | None:
        looks: list[int] = []
        for queue in queues:
            room, waiting = self._store.room(queue), list(self._takeable([queue], types))
            taken = self._next(queue, waiting, min(want, room))
            for row in taken:
                self._take(row, number)
            want -= len(taken)
            self._store.took(queue, len(taken))
            if want and len(waiting) > room:
                looks.append(self._store.look_in(queue))
        return min(looks, default=None)

    def _fair(self, queues: set[str]) -> tuple[str, ...]:
        orders = {queue: self._store.effective(queue).order for queue in sorted(queues)}
        return tuple(queue for queue, order in orders.items() if order is Order.FAIR)

    def _next(self, queue: str, waiting: list[Row], want: int) -> list[Row]:
        """The first of these; in a fair queue tenants take turns."""
        if self._store.effective(queue).order is not Order.FAIR:
            return waiting[:want]
        turns = self._store.shares.turns(queue, {row.job.tenant for row in waiting})
        taken: list[Row] = []
        while len(taken) < want and (turn := turns.next()):
            tenant, most = turn
            own = [row for row in waiting if row.job.tenant == tenant and row not in taken]
            part = own[: min(most, want - len(taken))]
            turns.took(tenant, len(part), has_more=len(part) < len(own))
            taken += part
        self._store.shares.served(queue, turns)
        return taken

    def _takeable(self, queues: Sequence[str], types: set[str]) -> Iterator[Row]:
        waiting = [
            row
            for row in self._store.rows.values()
            if row.job.state is State.READY
            and not row.place
            and row.job.type in types
            and not self._store.is_paused(row.job.queue, row.job.type)
        ]
        return self._in_order(waiting, queues)

    def _take(self, row: Row, number: int) -> None:
        row.token, row.number = self.token, number
        row.turn = sum(one.number == number for one in self._held())
        row.change(
            state=after(row.job.state, Verb.CLAIM),
            delivery=row.job.delivery + 1,
            started_at=None,
            worker=self._lease.worker,
            progress=None,
        )

    def _asked_to_cancel(self) -> list[Reference]:
        return [row.reference for row in self._held() if row.job.cancel_requested]

    def _in_order(self, rows: Sequence[Row], queues: Sequence[str]) -> Iterator[Row]:
        """Queue after queue, as they were named; inside a queue by rank, then by arrival."""
        preferred, last = self._store.preferred, len(self._store.preferred)
        for queue in queues:
            inside = [row for row in rows if row.job.queue == queue]
            yield from sorted(
                inside,
                key=lambda row: (row.rank, preferred.get(row.job.id, last), row.handle),
            )


async def _told(waiters: dict[asyncio.Event, None], seconds: float) -> None:
    told = asyncio.Event()
    waiters[told] = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await told.wait()
    finally:
        waiters.pop(told, None)
