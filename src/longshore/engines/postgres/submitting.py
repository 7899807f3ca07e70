"""Store jobs: callers that come at the same time share a commit, and each awaits it.

Jobs with keys travel apart from the others. Of a batch that the store refuses, each half is
tried again: no job fails or waits for the fault of another.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Coroutine, Hashable, Sequence
from typing import NamedTuple

from longshore.core.event import Group
from longshore.core.job import JobId, NewJob, Submitted, Verdict
from longshore.core.submission import first_run_at
from longshore.engines.postgres import batch
from longshore.engines.postgres.arrays import packed_columns
from longshore.engines.postgres.database import Connection, Database, Lane
from longshore.engines.postgres.faults import sqlstate
from longshore.engines.postgres.gathering import CROWD, Gathering
from longshore.engines.postgres.sql import SQL
from longshore.engines.postgres.turns import Turn, Turns
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineUnavailableError,
    InFlightError,
    LongshoreError,
)

__all__ = ["Submitter", "asked", "submit_in"]

MOST_JOBS = 2_000
"""Jobs of one commit, unless a single call brings more."""
_LANES = 2
"""Commits under way at once: while one waits for the disk the next is made."""
_PATIENCE = 10.0
"""Seconds that a job waits at most for a transaction that holds its key."""
_LONERS = 2
"""Such calls that ask at once, of all sets of keys: the pool is there for others too."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
"""Seconds between two times that such a job asks."""
_KNOWN, _HELD = "23505", "55P03"


class Submitter:
    """Puts jobs in, for all callers of one process."""

    def __init__(self, database: Database) -> None:
        self._plain = _Stream(database, is_keyed=False)
        self._keyed = _Stream(database, is_keyed=True)

    def submit(
        self, jobs: Sequence[NewJob], *, apart: bool = False, patience: float | None = None
    ) -> "asyncio.Future[list[Submitted]]":
        """Store the jobs durably, and answer for each."""
        patience = _PATIENCE if patience is None else min(patience, _PATIENCE)
        for job in jobs:
            if job.idempotency_key is not None or job.unique_key is not None:
                return self._keyed.submit(jobs, apart, patience)
        return self._plain.submit(jobs, apart, patience)

    async def close(self) -> None:
        """Finish what was accepted."""
        await self._plain.close()
        await self._keyed.close()


async def submit_in(
    connection: Connection,
    jobs: Sequence[NewJob],
    now: int | None,
    *,
    wakes: bool,
    extra: Sequence[Group] = (),
) -> list[Submitted]:
    """Submit inside the caller's transaction; `extra` events go into the same outbox row."""
    found = await connection.fetch(SQL.admit, now, *asked(jobs))
    answers = [
        Submitted(
            JobId(row["id"]),
            Verdict(row["verdict"]),
            row["created_at"] or 0,
            row["run_at"] or 0,
        )
        for row in found
    ]
    pairs = [
        (job, answer)
        for job, answer in zip(jobs, answers, strict=True)
        if answer.verdict is Verdict.ACCEPTED
    ]
    if pairs or extra:
        accepted = [job for job, _ in pairs]
        given = batch.sent(batch.columns(accepted, wakes=wakes, extra=extra))
        clock = found[0]["clock"] if found else now
        arrival = pairs[0][1].created_at if pairs else None
        await connection.fetch(SQL.submit, clock, arrival, *given)
        if lined := batch.lined(accepted):
            columns = [
                [job.id for job in lined],
                [job.run_at for job in lined],
                [job.delay for job in lined],
            ]
            await connection.execute(SQL.line_up_new, clock, arrival, *columns, wakes)
    return answers


_Key = tuple[str, str, str]


class _Call(NamedTuple):
    jobs: Sequence[NewJob]
    answer: "asyncio.Future[list[Submitted]]"
    until: float
    """When, by the loop's time, it has waited long enough for who holds its keys."""
    is_divisible: bool = False
    """Its jobs may be stored one without the other."""


class _Stream:
    """Gathers what comes while its lanes are busy."""

    def __init__(self, database: Database, *, is_keyed: bool) -> None:
        self._database = database
        self._is_keyed = is_keyed
        self._free = [database.lane() for _ in range(_LANES)]
        self._waiting: deque[_Call] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._gathering = Gathering(self._go)
        self._sent = 0
        """Calls whose commit is under way."""
        self._held: Counter[_Key] = Counter()
        """The keys of calls that wait alone."""
        self._loners = asyncio.Semaphore(_LONERS)
        self._turns = Turns()

    def submit(
        self, jobs: Sequence[NewJob], apart: bool, patience: float
    ) -> "asyncio.Future[list[Submitted]]":
        """The answers, once the commit is over that stores these jobs."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Submitted]] = loop.create_future()
        call = _Call(jobs, answer, loop.time() + patience, apart and len(jobs) > 1)
        if self._held and self._is_held(call):
            self._set_aside(call)
            return answer
        self._waiting.append(call)
        if self._free:
            self._gathering.plan(loop, len(self._waiting), self._sent)
        return answer

    async def close(self) -> None:
        """Wait for what is under way, and close the lanes."""
        while self._tasks or self._waiting:
            self._go()
            await asyncio.wait(self._tasks)
        for lane in self._free:
            await lane.close()

    def _go(self) -> None:
        while self._waiting and self._free:
            most = len(self._waiting)
            if most >= 2 * CROWD and len(self._free) == _LANES:
                # In two commits, or callers and store would wait for each other from then on.
                most //= 2
            calls = [self._waiting.popleft()]
            count = len(calls[0].jobs)
            while len(calls) < most and count + len(self._waiting[0].jobs) <= MOST_JOBS:
                calls.append(self._waiting.popleft())
                count += len(calls[-1].jobs)
            self._sent += len(calls)
            self._keep(self._run(self._free.pop(), calls))

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, lane: Lane, calls: list[_Call]) -> None:
        try:
            await self._serve(lane, calls)
        except BaseException as error:
            _refuse(calls, error)
            raise
        finally:
            self._free.append(lane)
            self._sent -= len(calls)
            if self._waiting:
                loop = asyncio.get_running_loop()
                self._gathering.plan(loop, len(self._waiting), self._sent)

    def _is_held(self, call: _Call) -> bool:
        return not self._held.keys().isdisjoint(_keys(call.jobs))

    def _set_aside(self, call: _Call) -> None:
        """Someone holds a key of this call in an open transaction: the others go on.

        So do its own jobs, if they may part.
        """
        if call.is_divisible:
            left = call.until - asyncio.get_running_loop().time()
            parts = [self.submit([job], apart=False, patience=left) for job in call.jobs]
            self._keep(_unite(parts, call))
            return
        keys = _keys(call.jobs)
        self._held.update(keys)
        self._keep(self._wait_alone(call, keys))

    async def _wait_alone(self, call: _Call, keys: list[_Key]) -> None:
        try:
            await self._ask_alone(call)
        except BaseException as error:
            _refuse([call], error)
            raise
        finally:
            self._held.subtract(keys)
            self._held += Counter()  # without those that are at zero

    async def _ask_alone(self, call: _Call) -> None:
        # Where there is no key, there is nobody to wait behind.
        keys = frozenset[Hashable](_keys(call.jobs) or [id(call)])
        async with self._turns.of(keys, call.until) as turn:
            await self._ask_on(call, turn)

    async def _ask_on(self, call: _Call, turn: Turn) -> None:
        """Once at least, unless someone who waits for the same keys has just heard no."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
        while turn.refusal is None or loop.time() < call.until:
            try:
                async with self._loners:
                    answers = await self._store(self._database, call.jobs)
            except EngineBusyError as error:
                turn.refusal = error
            except LongshoreError as error:
                _refuse([call], error)
                return
            else:
                turn.refusal = None
                _answer([call], answers)
                return
            left = max(call.until - loop.time(), 0.0)
            await asyncio.sleep(min(self._database.connector.jitter(pause), left))
            pause = min(pause * 2, _LONGEST_PAUSE)
        is_held = sqlstate(turn.refusal) == _HELD
        _refuse([call], InFlightError() if is_held else turn.refusal)

    async def _serve(self, lane: Lane, calls: list[_Call]) -> None:
        jobs = calls[0].jobs if len(calls) == 1 else [job for one in calls for job in one.jobs]
        try:
            answers = await self._store(lane, jobs)
        except LongshoreError as error:
            if len(calls) == 1 and isinstance(error, EngineBusyError):
                self._set_aside(calls[0])
                return
            if len(calls) == 1 or isinstance(error, EngineUnavailableError):
                _refuse(calls, error)
                return
            middle = len(calls) // 2
            for half in (calls[:middle], calls[middle:]):
                if others := self._sifted(half):
                    await self._serve(lane, others)
            return
        _answer(calls, answers)

    def _sifted(self, calls: list[_Call]) -> list[_Call]:
        """Without those for whose keys someone waits by now: each would wait for them anew."""
        free: list[_Call] = []
        for one in calls:
            if self._is_held(one):
                self._set_aside(one)
            else:
                free.append(one)
        return free

    async def _store(self, lane: Lane | Database, jobs: Sequence[NewJob]) -> list[Submitted]:
        now = self._database.now()
        statement, given = self._statement(jobs, now)
        try:
            found = await lane.fetch(statement, *given)
        except LongshoreError as error:
            if sqlstate(error) != _KNOWN:
                raise
            # Some of them are known: ask which.
            return await lane.transact(
                lambda connection: submit_in(connection, jobs, now, wakes=False)
            )
        return _accepted(jobs, *found[0][0])

    def _statement(self, jobs: Sequence[NewJob], now: int | None) -> tuple[str, list[object]]:
        """The statement that stores the jobs if all may come in, and its arguments."""
        try:
            if lined := batch.lined(jobs):
                given = batch.sent(batch.columns(jobs, wakes=False))
                return SQL.submit_lined, [*_keyed(jobs), now, *given, *_lined(lined)]
            if self._is_keyed:
                given = batch.sent(batch.columns(jobs, wakes=False))
                return SQL.submit_keyed, [*_keyed(jobs), now, *given]
            if len(jobs) == 1:
                return SQL.submit_one, [now, *batch.alone(jobs[0])]
            return SQL.submit, [now, None, *batch.sent(batch.columns(jobs, wakes=False))]
        except UnicodeError as error:
            raise ConfigError(f"a text cannot be stored: {error}") from error


def _accepted(jobs: Sequence[NewJob], now: int, arrival: int) -> list[Submitted]:
    return [
        Submitted(
            job.id, Verdict.ACCEPTED, arrival, first_run_at(job, now=now, arrival=arrival)
        )
        for job in jobs
    ]


def _answer(calls: list[_Call], answers: list[Submitted]) -> None:
    begin = 0
    for one in calls:
        if not one.answer.done():
            one.answer.set_result(answers[begin : begin + len(one.jobs)])
        begin += len(one.jobs)


async def _unite(parts: "list[asyncio.Future[list[Submitted]]]", call: _Call) -> None:
    """Answer for all of them: what became of the parts, or what went wrong with one."""
    ends = await asyncio.gather(*parts, return_exceptions=True)
    answers: list[Submitted] = []
    for job, end in zip(call.jobs, ends, strict=True):
        if isinstance(end, InFlightError):
            answers.append(Submitted(job.id, Verdict.HELD))
        elif isinstance(end, BaseException):
            _refuse([call], end)
            return
        else:
            answers += end
    _answer([call], answers)


def _refuse(calls: list[_Call], error: BaseException) -> None:
    for one in calls:
        if not one.answer.done():
            one.answer.set_exception(error)


def _keys(jobs: Sequence[NewJob]) -> list[_Key]:
    """What someone else may hold."""
    once = [(job.tenant, "once", job.idempotency_key) for job in jobs if job.idempotency_key]
    lines = [
        (job.tenant, f"line {job.queue}", job.ordering_key) for job in jobs if job.ordering_key
    ]
    unique = [(job.tenant, "unique", job.unique_key) for job in jobs if job.unique_key]
    return once + unique + lines


def _keyed(jobs: Sequence[NewJob]) -> list[str]:
    """The arguments of `longshore.submit_keyed` that say which jobs have which keys."""
    once = [
        (
            *(job.tenant, job.idempotency_key, job.fingerprint),
            *(job.id.hex(), job.run_at, job.delay),
        )
        for job in jobs
        if job.idempotency_key is not None
    ]
    unique = [
        (job.tenant, job.unique_key, job.id.hex()) for job in jobs if job.unique_key is not None
    ]
    return [*packed_columns(once, 6), *packed_columns(unique, 3)]


def _lined(jobs: Sequence[NewJob]) -> list[str]:
    """The arguments of `longshore.line_up_new` that say which jobs they are."""
    return packed_columns([(job.id.hex(), job.run_at, job.delay) for job in jobs], 3)


def asked(jobs: Sequence[NewJob]) -> tuple[list[object], ...]:
    """The arguments of `longshore.admit` behind the clock."""
    return (
        [job.id for job in jobs],
        [job.tenant for job in jobs],
        [job.idempotency_key for job in jobs],
        [job.fingerprint for job in jobs],
        [job.unique_key for job in jobs],
        [job.run_at for job in jobs],
        [job.delay for job in jobs],
    )
