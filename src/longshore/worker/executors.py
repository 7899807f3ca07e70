"""Rooms that are not on the event loop: threads and child processes, and who waits for them."""

import asyncio
from collections.abc import Callable, Container, Sequence
from contextvars import Context
from typing import Protocol

from longshore.contract import Reference
from longshore.core.job import Claim
from longshore.job_context import Reporter
from longshore.worker import child_protocol
from longshore.worker.attempt import Attempt
from longshore.worker.buffer import Buffer
from longshore.worker.flight_recorder import Flight
from longshore.worker.isolation import Isolation, MakePool
from longshore.worker.lease import NEVER
from longshore.worker.outcome import Judge
from longshore.worker.processes import Processes
from longshore.worker.registry import Execution, Handler, Registry
from longshore.worker.settings import ChildLimits, WorkerSettings
from longshore.worker.starter import Starter
from longshore.worker.threads import Threads

__all__ = ["Lanes"]


class _Executor(Protocol):
    @property
    def has_room(self) -> bool: ...
    @property
    def running(self) -> set[Attempt]: ...
    @property
    def fault(self) -> BaseException | None: ...
    def start(self, attempt: Attempt) -> None: ...


class _Lane:
    """An executor, the types it runs, and the claims that wait for it."""

    def __init__(
        self, executor: _Executor, handlers: dict[str, Handler], buffer: Buffer
    ) -> None:
        self.executor = executor
        self.handlers = handlers
        """By type: all claims of these types go this way."""
        self.buffer = buffer

    @property
    def can_start(self) -> bool:
        """Something waits, and there is room for it."""
        return bool(self.buffer.claims) and self.executor.has_room


class Lanes:
    """A lane for threads and one for child processes, where some handler needs them.

    And one for suspects, which claims enter only one by one; and a place aside for what may
    not start yet.
    """

    def __init__(
        self,
        registry: Registry,
        settings: WorkerSettings,
        *,
        judge: Judge,
        flight: Flight,
        on_ended: Callable[[list[Attempt]], None],
        on_refused: Callable[[list[Claim]], None],
    ) -> None:
        limits = settings.child_limits
        self._starter = Starter(limits.most)
        make = _pools(self._starter, judge, flight)
        self._registry = registry
        self._clock = judge.clock
        self._lanes: list[_Lane] = []
        self._threads: Threads | None = None
        self._apart = _in_children(registry)
        self.processes: Processes | None = None
        for_threads, for_children = Buffer(), Buffer()
        self.queues = for_threads.claims, for_children.claims
        """What waits for threads and for children; the same two for ever."""
        if plain := registry.handlers_in(Execution.THREAD):
            limit = settings.threads or settings.concurrency
            self._threads = Threads(
                limit, clock=judge.clock, judge=judge, flight=flight, on_ended=on_ended
            )
            self._lanes.append(_Lane(self._threads, plain, for_threads))
        if apart := tuple(self._apart):
            setup = child_protocol.Setup.here(registry.origin(apart), apart, limits)
            self.processes = make(setup, limits, on_ended=on_ended, on_unfit=self._keep_here)
            self._lanes.append(_Lane(self.processes, self._apart, for_children))
        self.aside = Buffer()
        """Claims that may not start yet, however long they wait."""
        self.isolation = Isolation(
            registry, limits, make, on_ended=on_ended, on_refused=on_refused
        )
        self._suspects = _Lane(self.isolation, {}, Buffer())
        self._lanes.append(self._suspects)
        self._lines = [lane.buffer.claims for lane in self._lanes] + [self.aside.claims]

    @property
    def waiting(self) -> int:
        """Claims that wait for one of them."""
        return sum(map(len, self._lines))

    @property
    def claims(self) -> list[Claim]:
        """These claims."""
        waiting = [claim for lane in self._lanes for claim in lane.buffer.claims]
        return [*waiting, *self.aside.claims]

    @property
    def attempts(self) -> list[Attempt]:
        """Every attempt that runs in one of them."""
        return [attempt for lane in self._lanes for attempt in lane.executor.running]

    @property
    def fault(self) -> BaseException | None:
        """What broke one of them: never a handler."""
        faults = (lane.executor.fault for lane in self._lanes)
        return next((fault for fault in faults if fault is not None), None)

    @property
    def can_start(self) -> bool:
        """Something waits that could start, had it a room."""
        return any(lane.can_start for lane in self._lanes)

    @property
    def child_room(self) -> int | None:
        """How many more jobs the child processes can begin soon; None where there are none."""
        if self.processes is None:
            return None
        return self.processes.room - len(self.queues[1])

    def is_for_children(self, claim: Claim) -> bool:
        """It runs in a child process."""
        return claim.type in self._apart

    def open(
        self, loop: asyncio.AbstractEventLoop, context: Context, reporter: Reporter
    ) -> None:
        """Report to this loop; run handlers in copies of this context."""
        if self._threads is not None:
            self._threads.open(loop, context)
        if self.processes is not None:
            self.processes.open(loop, reporter)
        self.isolation.open(loop, reporter)

    def take_in(
        self, claims: Sequence[Claim], now: float, by_turns: Sequence[str]
    ) -> tuple[Sequence[Claim], Sequence[Claim]]:
        """Let those wait here that belong here; the others, and what is too much for children.

        What cannot begin soon is better off with a worker that has a child to spare.
        """
        surplus: Sequence[Claim] = ()
        for lane in self._lanes:
            if not lane.handlers:
                continue
            mine = [one for one in claims if one.type in lane.handlers]
            claims = [one for one in claims if one.type not in lane.handlers]
            if lane.executor is self.processes and (room := self.child_room) is not None:
                mine, surplus = mine[: max(room, 0)], mine[max(room, 0) :]
            lane.buffer.add(mine, now, by_turns)
        return claims, surplus

    def isolate(self, claim: Claim, now: float) -> bool:
        """Let it wait for a child process of its own; False when there is none to spare."""
        if self.isolation.room <= len(self._suspects.buffer.claims):
            return False
        self._suspects.buffer.add([claim], now)
        return True

    def fill(self, free: int) -> int:
        """Start what can be, in so many free rooms at most; how many were needed."""
        started = 0
        for lane in self._lanes:
            while started < free and lane.can_start:
                claim = lane.buffer.claims.popleft()
                handler = self._registry.get(claim.type)
                assert handler is not None, "what nobody knows waits for nothing"
                lane.executor.start(Attempt(claim, NEVER, handler, self._clock.monotonic()))
                started += 1
        return started

    def take_older(self, than: float) -> list[Claim]:
        """Remove and return what has waited since this instant."""
        return [claim for lane in self._lanes for claim in lane.buffer.take_older(than)]

    def take_all(self) -> list[Claim]:
        """Remove and return everything that waits for an executor."""
        return [claim for lane in self._lanes for claim in lane.buffer.take_all()]

    def take_named(self, references: Container[Reference]) -> list[Claim]:
        """Remove and return these."""
        buffers = [*(lane.buffer for lane in self._lanes), self.aside]
        found = (buffer.take_named(references) for buffer in buffers)
        return [claim for claims in found for claim in claims]

    def take_unbegun(self) -> list[Claim]:
        """Take back what has a room already, and no child yet."""
        waiting = self.isolation.take_waiting()
        return waiting + (self.processes.take_waiting() if self.processes is not None else [])

    async def close(self) -> None:
        """Let idle threads end, and end every child. Threads in a handler end after it."""
        if self._threads is not None:
            self._threads.close()
        await self.isolation.close()
        if self.processes is not None:
            await self.processes.close()
        self._starter.close()

    def _keep_here(self, type_name: str) -> None:
        """Run jobs of this type where they would run without children."""
        if self._apart[type_name].execution is not Execution.PROCESS:
            del self._apart[type_name]


def _pools(starter: Starter, judge: Judge, flight: Flight) -> MakePool:
    """What makes pools of children whose beginning and end are these."""

    def make(
        setup: child_protocol.Setup,
        limits: ChildLimits,
        *,
        on_ended: Callable[[list[Attempt]], None],
        on_unfit: Callable[[str], None],
    ) -> Processes:
        return Processes(
            starter.of(setup),
            limits,
            judge=judge,
            flight=flight,
            on_ended=on_ended,
            on_unfit=on_unfit,
        )

    return make


def _in_children(registry: Registry) -> dict[str, Handler]:
    """The handlers whose jobs all run in child processes: their task's wish, or its due.

    Not those of built-in tasks: only suspects among their jobs need a child.
    """
    apart = registry.handlers_in(Execution.PROCESS)
    for name in registry.isolated - registry.builtin:
        handler = registry.get(name)
        if handler is not None and handler.max_crashes == 1:
            apart[name] = handler
    return apart
