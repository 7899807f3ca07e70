"""ManualWorker: a worker that does only what the test tells it, one exchange at a time."""

import asyncio
from collections.abc import Sequence
from typing import Any

from longshore.contract import Engine, Exchanged, Reference, Renewed, Session
from longshore.core import poison, settle
from longshore.core.job import Claim, Failure, Report, Settlement
from longshore.testing.factories import SECOND

__all__ = ["LEASE", "ManualWorker", "a_worker", "heard", "reclaim_lapsed", "reference"]

LEASE = 30 * SECOND


class ManualWorker:
    """Counts a session's exchanges, and can send the last one again."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self.engine = engine
        self.session = session
        self.number = 0
        self._last: dict[str, Any] = {}

    async def exchange(
        self,
        *,
        started: Sequence[Reference] = (),
        progress: Sequence[Report] = (),
        settlements: Sequence[Settlement] = (),
        want: int = 0,
        queues: Sequence[str] | None = None,
    ) -> Exchanged:
        """The next exchange. Its number is used up only if the engine answers."""
        sent: dict[str, Any] = {
            "started": started,
            "progress": progress,
            "settlements": settlements,
            "want": want,
            "queues": queues,
        }
        answer = await self.session.exchange(self.number + 1, **sent)
        self.number += 1
        self._last = sent
        return answer

    async def repeat(self) -> Exchanged:
        """The last exchange once more, as if its answer had been lost."""
        return await self.session.exchange(self.number, **self._last)

    async def claim(self, want: int = 1, *, queues: Sequence[str] | None = None) -> list[Claim]:
        """Up to `want` jobs."""
        return (await self.exchange(want=want, queues=queues)).claims

    async def start(self, *claims: Claim) -> Exchanged:
        """Report that these handlers began."""
        return await self.exchange(started=[reference(claim) for claim in claims])

    async def report(
        self, claim: Claim, fraction: float, message: str | None = None
    ) -> Exchanged:
        """Tell how far this handler is."""
        said = Report(claim.handle, claim.delivery, fraction, message)
        return await self.exchange(progress=[said])

    async def settle(self, *settlements: Settlement) -> Exchanged:
        """Settle, and claim nothing."""
        return await self.exchange(settlements=settlements)

    async def renew(self, *, holding: Sequence[Claim], number: int | None = None) -> Renewed:
        """Renew with everything that the worker holds."""
        return await self.session.renew(
            number=self.number if number is None else number,
            held=[reference(claim) for claim in holding],
        )

    async def succeed(self, claim: Claim, result: bytes | None = None) -> Exchanged:
        """Its handler ran and returned, all in this moment."""
        now = await self.engine.now()
        return await self.settle(
            settle.succeeded(claim, started_at=now, finished_at=now, result=result)
        )

    async def fail(self, claim: Claim, why: Failure | None = None) -> Exchanged:
        """Its handler raised: due again in a second, or dead after the last attempt."""
        now = await self.engine.now()
        return await self.settle(
            settle.failed(
                claim,
                why or Failure("ValueError", "no such user"),
                delay=SECOND,
                started_at=now,
                finished_at=now,
            )
        )

    async def kill(self, claim: Claim, reason: str = "no use") -> Exchanged:
        """Its handler said that no retry can help."""
        now = await self.engine.now()
        why = Failure("Dead", reason)
        return await self.settle(
            settle.killed(claim, why, reason, started_at=now, finished_at=now)
        )

    async def snooze(self, claim: Claim, delay: int) -> Exchanged:
        """Its handler asked to run later."""
        now = await self.engine.now()
        return await self.settle(settle.snoozed(claim, delay, started_at=now, finished_at=now))

    async def release(self, claim: Claim) -> Exchanged:
        """It never started, and someone else may have it."""
        return await self.settle(settle.released(claim))

    async def stop(self, claim: Claim, reason: str = "asked to stop") -> Exchanged:
        """Its handler was asked to stop, and did."""
        now = await self.engine.now()
        return await self.settle(
            settle.cancelled(claim, reason, started_at=now, finished_at=now)
        )


async def a_worker(
    engine: Engine,
    *,
    name: str = "worker-1",
    queues: Sequence[str] = ("default",),
    types: Sequence[str] = ("noop",),
    lease: int = LEASE,
) -> ManualWorker:
    """A worker with a fresh session."""
    session = await engine.open_session(worker=name, queues=queues, types=types, lease=lease)
    return ManualWorker(engine, session)


def reference(claim: Claim) -> Reference:
    """What names the claim inside its session."""
    return (claim.handle, claim.delivery)


async def reclaim_lapsed(engine: Engine, *, grace: int = 0) -> int:
    """Do what a reclaim tick does: bury every lapsed session; the number of jobs it settled."""
    settled = 0
    for lapsed in await engine.expired_sessions(grace=grace, limit=100):
        settlements = poison.unreported(lapsed.held)
        settled += await engine.end_session(lapsed.token, settlements, grace=grace)
    return settled


async def heard(engine: Engine) -> None:
    """Return when a call that was made before has reached the engine, also a remote one."""
    for _ in range(5):
        await asyncio.sleep(0)
        await engine.counts()
