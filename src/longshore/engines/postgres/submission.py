"""Store jobs: callers that come at the same time share a commit, and each awaits it.

Jobs with keys travel apart from the others. Those whose keys someone holds in an open
transaction wait by themselves. Of a batch that the store refuses, each half is tried again: no
job fails or waits for the fault of another.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Container, Coroutine, Hashable, Sequence

from longshore.core.event import Group
from longshore.core.job import JobId, NewJob, Submitted, Verdict
from longshore.core.submission import first_run_at
from longshore.engines.postgres import segments
from longshore.engines.postgres.database import Connection, Database, Lane
from longshore.engines.postgres.faults import sqlstate
from longshore.engines.postgres.group_commit import CROWD, Gathering
from longshore.engines.postgres.idempotency import (
    Key,
    asked,
    keyed,
    keys_of,
    lined,
    named,
    split,
)
from longshore.engines.postgres.key_lock_queue import Turn, Turns, acquired
from longshore.engines.postgres.sql import SQL
from longshore.engines.postgres.submit_batch import Call, answer, divide, refuse, unite
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineUnavailableError,
    InFlightError,
    LongshoreError,
)

__all__ = ["Submitter", "submit_in"]

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
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> "asyncio.Future[list[Submitted]]":
        """Store the jobs durably, and answer for each."""
        max_wait = _PATIENCE if max_wait is None else min(max_wait, _PATIENCE)
        for job in jobs:
            if job.idempotency_key is not None or job.unique_key is not None:
                return self._keyed.submit(jobs, independent, max_wait)
        return self._plain.submit(jobs, independent, max_wait)

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
        given = segments.sent(segments.columns(accepted, wakes=wakes, extra=extra))
        clock = found[0]["clock"] if found else now
        arrival = pairs[0][1].created_at if pairs else None
        await connection.fetch(SQL.submit, clock, arrival, *given)
        if lined := segments.lined(accepted):
            columns = [
                [job.id for job in lined],
                [job.run_at for job in lined],
                [job.delay for job in lined],
            ]
            await connection.execute(SQL.line_up_new, clock, arrival, *columns, wakes)
    return answers


class _Stream:
    """Gathers what comes while its lanes are busy."""

    def __init__(self, database: Database, *, is_keyed: bool) -> None:
        self._database = database
        self._is_keyed = is_keyed
        self._free = [database.lane() for _ in range(_LANES)]
        self._waiting: deque[Call] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._gathering = Gathering(self._go)
        self._sent = 0
        """Calls whose commit is under way."""
        self._held: Counter[Key] = Counter()
        """The keys of calls that wait alone."""
        self._loners = asyncio.Semaphore(_LONERS)
        self._turns = Turns()

    def submit(
        self, jobs: Sequence[NewJob], independent: bool, max_wait: float
    ) -> "asyncio.Future[list[Submitted]]":
        """The answers, once the commit is over that stores these jobs."""
        loop = asyncio.get_running_loop()
        call = Call(jobs, loop.create_future(), loop.time() + max_wait, independent)
        if not self._held:
            self._waiting.append(call)
        elif others := self._sifted([call], self._held):
            self._waiting += others
        else:
            return call.answer
        if self._free:
            self._gathering.plan(loop, len(self._waiting), self._sent)
        return call.answer

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

    async def _run(self, lane: Lane, calls: list[Call]) -> None:
        try:
            await self._serve(lane, calls)
        except BaseException as error:
            refuse(calls, error)
            raise
        finally:
            self._free.append(lane)
            self._sent -= len(calls)
            if self._waiting:
                loop = asyncio.get_running_loop()
                self._gathering.plan(loop, len(self._waiting), self._sent)

    def _sifted(
        self, calls: list[Call], held: Container[Key], refusal: Exception | None = None
    ) -> list[Call]:
        """What need not wait for who holds these keys: of a call that may part, some jobs."""
        free: list[Call] = []
        for call in calls:
            waits, rest = split(call.jobs, held)
            if not waits:
                free.append(call)
            elif not call.is_divisible:
                self._set_aside(call, refusal)
            else:
                groups = [[place] for place in waits] + ([rest] if rest else [])
                parts = self._divided(call, groups)
                for one in parts[: len(waits)]:
                    self._set_aside(one, refusal)
                free += parts[len(waits) :]
        return free

    def _divided(self, call: Call, groups: Sequence[Sequence[int]]) -> list[Call]:
        parts = divide(call, groups)
        self._keep(unite(parts, [place for group in groups for place in group], call))
        return parts

    def _set_aside(self, call: Call, refusal: Exception | None = None) -> None:
        """Someone holds a key of this call in an open transaction: the others go on.

        With a refusal, its keys have just been asked for.
        """
        keys = keys_of(call.jobs)
        self._held.update(keys)
        self._keep(self._wait_alone(call, keys, refusal))

    async def _wait_alone(self, call: Call, keys: list[Key], refusal: Exception | None) -> None:
        # Where there is no key, there is nobody to wait behind.
        names = frozenset[Hashable](keys or [id(call)])
        try:
            async with self._turns.of(names, call.until, refusal) as turn:
                await self._ask_on(call, turn)
        except BaseException as error:
            refuse([call], error)
            raise
        finally:
            self._held.subtract(keys)
            self._held += Counter()  # without those that are at zero

    async def _ask_on(self, call: Call, turn: Turn) -> None:
        """Once at least, unless someone who waits for the same keys has just heard no."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
        while turn.refusal is None or loop.time() < call.until:
            if not await acquired(self._loners, call.until):
                break  # many wait for other keys
            try:
                answers = await self._store(self._database, call.jobs)
            except EngineBusyError as error:
                turn.refusal = error
            except LongshoreError as error:
                refuse([call], error)
                return
            else:
                turn.refusal = None
                answer([call], answers)
                return
            finally:
                self._loners.release()
            left = max(call.until - loop.time(), 0.0)
            await asyncio.sleep(min(self._database.connector.jitter(pause), left))
            pause = min(pause * 2, _LONGEST_PAUSE)
        error = turn.refusal
        refuse([call], InFlightError() if not error or sqlstate(error) == _HELD else error)

    async def _serve(self, lane: Lane, calls: list[Call]) -> None:
        jobs = calls[0].jobs if len(calls) == 1 else [job for one in calls for job in one.jobs]
        try:
            answers = await self._store(lane, jobs)
        except EngineBusyError as error:
            await self._go_round(lane, calls, error)
        except LongshoreError as error:
            if len(calls) == 1 or isinstance(error, EngineUnavailableError):
                refuse(calls, error)
            else:
                await self._serve_halves(lane, calls)
        else:
            answer(calls, answers)

    async def _go_round(self, lane: Lane, calls: list[Call], error: EngineBusyError) -> None:
        """Have those wait whose keys someone holds, and serve the others."""
        first = calls[0]
        if len(calls) == 1 and (len(first.jobs) == 1 or not first.is_divisible):
            self._set_aside(self._divided(first, [[0]])[0] if first.is_divisible else first)
            return
        held = set[Key]()
        if sqlstate(error) == _HELD:
            try:
                held = await self._held_of(lane, calls)
            except LongshoreError as failure:
                refuse(calls, failure)
                return
        if not held:
            await self._serve_halves(lane, calls)
        elif others := self._sifted(calls, held, error):
            await self._serve(lane, others)

    async def _held_of(self, lane: Lane, calls: list[Call]) -> set[Key]:
        """The keys that someone holds, at one look: in halves each would be waited for."""
        keys = list(dict.fromkeys([key for one in calls for key in keys_of(one.jobs)]))
        if not keys:
            return set()
        return {keys[row[0] - 1] for row in await lane.fetch(SQL.keys_held, *named(keys))}

    async def _serve_halves(self, lane: Lane, calls: list[Call]) -> None:
        if len(calls) == 1:
            size = len(calls[0].jobs)
            calls = self._divided(calls[0], [range(size // 2), range(size // 2, size)])
        middle = len(calls) // 2
        for half in (calls[:middle], calls[middle:]):
            # Without those for whose keys someone waits by now: each would wait for them anew.
            if others := self._sifted(half, self._held):
                await self._serve(lane, others)

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
            if in_line := segments.lined(jobs):
                given = segments.sent(segments.columns(jobs, wakes=False))
                return SQL.submit_lined, [*keyed(jobs), now, *given, *lined(in_line)]
            if self._is_keyed:
                given = segments.sent(segments.columns(jobs, wakes=False))
                return SQL.submit_keyed, [*keyed(jobs), now, *given]
            if len(jobs) == 1:
                return SQL.submit_one, [now, *segments.alone(jobs[0])]
            return SQL.submit, [now, None, *segments.sent(segments.columns(jobs, wakes=False))]
        except UnicodeError as error:
            raise ConfigError(f"a text cannot be stored: {error}") from error


def _accepted(jobs: Sequence[NewJob], now: int, arrival: int) -> list[Submitted]:
    return [
        Submitted(
            job.id, Verdict.ACCEPTED, arrival, first_run_at(job, now=now, arrival=arrival)
        )
        for job in jobs
    ]
