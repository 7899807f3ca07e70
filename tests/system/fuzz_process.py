"""A process that does everything to a store at once, at random, until it is killed.

What an engine answered goes into a log, line by line, so that the test can hold it to it.
"""

import asyncio
import os
import random
import sys
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from longshore.contract import Engine, Exchanged, JobFilter, Retention, Session
from longshore.core import settle
from longshore.core.job import Claim, NewJob, Settlement, UniqueUntil, Verdict
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.errors import LeaseLostError, LongshoreError
from longshore.records import pauses
from longshore.runtime.ids import IdSource

T = TypeVar("T")
QUEUES = ["default", "mail", "video"]
TYPES = [f"type-{number}" for number in range(6)]
LEASE = 400_000
GRACE = 100_000


class Fuzz:
    """Actors that share one engine and one source of chance."""

    def __init__(self, engine: Engine, seed: int, log: int) -> None:
        self.engine = engine
        self.rng = random.Random(seed)
        self.ids = IdSource()
        self.log = log

    def note(self, *words: object) -> None:
        """Written at once: the next moment may be the last."""
        os.write(self.log, (" ".join(map(str, words)) + "\n").encode())

    async def hurried(self, call: Awaitable[T]) -> T | None:
        """The answer, unless the caller loses patience first."""
        task = asyncio.ensure_future(call)
        if self.rng.random() < 0.15:
            await asyncio.sleep(self.rng.random() * 0.005)
            task.cancel()
        with suppress(asyncio.CancelledError):
            return await task
        return None

    def new_job(self) -> NewJob:
        rng = self.rng
        return NewJob(
            id=self.ids.make(),
            type=rng.choice(TYPES),
            queue=rng.choice(QUEUES),
            tenant=rng.choice(["default", "acme"]),
            priority=rng.randint(1, 9),
            delay=rng.choice([0, 0, 0, 50_000, 400_000]),
            max_attempts=rng.choice([1, 2, 5]),
            unique_key=rng.choice([None, None, None, f"u{rng.randrange(30)}"]),
            unique_until=rng.choice(list(UniqueUntil)),
            idempotency_key=rng.choice([None, None, None, f"i{rng.randrange(3_000)}"]),
        )

    async def produce(self) -> None:
        jobs = [self.new_job() for _ in range(self.rng.choice([1, 1, 5, 40]))]
        for _ in range(3):
            answers = await self.hurried(self.engine.submit(jobs))
            if answers is not None:
                break
        else:
            return
        for answer in answers:
            if answer.verdict is not Verdict.UNIQUE:
                self.note("accepted", answer.id.hex())

    async def operate(self) -> None:
        engine, rng = self.engine, self.rng
        page = await engine.find(
            JobFilter(state=rng.choice([None, *State]), queue=rng.choice([None, *QUEUES])),
            limit=rng.choice([1, 20]),
        )
        some = [job.id for job in page.jobs if rng.random() < 0.3]
        acts: list[Callable[[], Awaitable[object]]] = [
            lambda: engine.change("cancel", some, reason="fuzz"),
            lambda: engine.change("replay", some),
            lambda: engine.change("retry", some),
            lambda: engine.change("purge", some[:1]),
            lambda: pauses.pause(engine, queue=rng.choice(QUEUES)),
            lambda: pauses.pause(engine, type=rng.choice(TYPES)),
            lambda: pauses.resume(engine, queue=rng.choice(QUEUES)),
            lambda: pauses.resume(engine, queue=rng.choice(QUEUES)),
            lambda: pauses.resume(engine, type=rng.choice(TYPES)),
            lambda: pauses.resume(engine, type=rng.choice(TYPES)),
            lambda: engine.counts(),
        ]
        await self.hurried(rng.choice(acts)())

    async def steward(self) -> None:
        await self.hurried(self.engine.promote(limit=20))
        for one in await self.engine.expired_sessions(grace=GRACE, limit=5):
            lost = [settle.lost(held) for held in one.held]
            await self.hurried(self.engine.end_session(one.token, lost, grace=GRACE))
        keep = Retention(
            succeeded=1_000_000, dead=2_000_000, cancelled=2_000_000, outbox=10**15
        )
        await self.hurried(self.engine.prune(keep, limit=50))

    async def work(self) -> None:
        queues = self.rng.sample(QUEUES, self.rng.randint(1, 3))
        types = self.rng.sample(TYPES, self.rng.randint(3, 6))
        session = await self.engine.open_session(
            worker=f"{os.getpid()}", queues=queues, types=types, lease=LEASE
        )
        with suppress(LeaseLostError):
            await Worker(self, session).live()

    async def for_ever(self, act: Callable[[], Awaitable[None]], pause: float) -> None:
        while True:
            try:
                await act()
            except LongshoreError as error:
                self.note("error", type(error).__name__, str(error).replace("\n", " "))
            await asyncio.sleep(self.rng.random() * pause)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for act, pause in (
                (self.produce, 0.02),
                (self.produce, 0.02),
                (self.work, 0.01),
                (self.work, 0.01),
                (self.operate, 0.02),
                (self.steward, 0.05),
            ):
                group.create_task(self.for_ever(act, pause))


class Worker:
    """A session and what it holds, with renewals that overlap its exchanges."""

    def __init__(self, fuzz: Fuzz, session: Session) -> None:
        self.fuzz = fuzz
        self.session = session
        self.number = 0
        self.held: dict[tuple[int, int], Claim] = {}
        self.past: deque[Claim] = deque(maxlen=20)

    async def live(self) -> None:
        rng = self.fuzz.rng
        for _ in range(rng.choice([3, 30, 300])):
            async with asyncio.TaskGroup() as group:
                group.create_task(self.quietly(self.exchange()))
                if rng.random() < 0.3:
                    group.create_task(self.quietly(self.renew()))
            await asyncio.sleep(rng.choice([0, 0.002, 0.02]))
            if self.is_lost:
                return
        if rng.random() < 0.5:
            await self.session.close()
        # Else it vanishes, and somebody has to reclaim what it held.

    is_lost = False

    async def quietly(self, call: Awaitable[None]) -> None:
        try:
            await call
        except LeaseLostError:
            self.is_lost = True
        except LongshoreError as error:
            self.fuzz.note("error", type(error).__name__, str(error).replace("\n", " "))

    async def exchange(self) -> None:
        rng = self.fuzz.rng
        ended = [claim for claim in self.held.values() if rng.random() < 0.5]
        started = [one for one in self.held if rng.random() < 0.3]
        settlements = [self.ending(claim) for claim in ended]
        if self.past and rng.random() < 0.3:
            # Long settled; the job may be anyone's by now.
            settlements.append(self.ending(rng.choice(self.past)))
        want = rng.choice([0, 1, 10])
        self.number += 1
        answer: Exchanged | None = None
        while answer is None:  # the same again, until the answer is known
            answer = await self.fuzz.hurried(
                self.session.exchange(
                    self.number, started=started, settlements=settlements, want=want
                )
            )
        for one in settlements:
            reference = (one.handle, one.delivery)
            claim = self.held.pop(reference, None)
            if claim is not None:
                self.past.append(claim)
            if reference not in answer.stale and claim is not None:
                self.fuzz.note("settled", claim.id.hex(), one.delivery, one.verb)
        for claim in answer.claims:
            self.held[claim.handle, claim.delivery] = claim

    async def renew(self) -> None:
        rng = self.fuzz.rng
        held = list(self.held)
        if rng.random() < 0.2:
            held = held[1:]  # as if it had never heard of one
        started = [one for one in held if rng.random() < 0.3]
        # What an exchange under way ends or brings is not for this renewal to judge.
        await self.fuzz.hurried(self.session.renew(number=self.number - 1, held=held))
        await self.fuzz.hurried(self.session.renew(started=started))

    def ending(self, claim: Claim) -> Settlement:
        rng = self.fuzz.rng
        why = settle.failure("ValueError", "fuzz")
        times = dict.fromkeys(("started_at", "finished_at"), claim.run_at)
        return rng.choice(
            [
                lambda: settle.succeeded(claim, **times, result=b"1"),
                lambda: settle.succeeded(claim, **times),
                lambda: settle.failed(claim, why, delay=rng.randrange(300_000), **times),
                lambda: settle.killed(claim, why, "fuzz", **times),
                lambda: settle.snoozed(claim, rng.randrange(300_000), **times),
                lambda: settle.released(claim),
                lambda: settle.cancelled(claim, "fuzz"),
            ]
        )()


async def main(url: str, seed: str, log: str) -> None:
    """Until killed. Anything but a LongshoreError is a finding, and is written down."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    fuzz = Fuzz(open_engine(url), int(seed), handle)
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    try:
        await fuzz.run()
    except BaseException:
        fuzz.note("crash", traceback.format_exc().replace("\n", " | "))
        raise


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
