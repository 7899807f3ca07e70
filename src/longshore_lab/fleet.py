"""Real processes, and what can be done to them from outside."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from longshore_lab.ledger import Ledger, now
from longshore_lab.records import Fault, FaultKind
from longshore_lab.skew import SkewedClock
from longshore_lab.trial import Trial

__all__ = ["Actor", "ActorFailedError", "Fleet"]

_SIGNALS = {
    FaultKind.KILL: signal.SIGKILL,
    FaultKind.STOP: signal.SIGSTOP,
    FaultKind.RESUME: signal.SIGCONT,
    FaultKind.TERMINATE: signal.SIGTERM,
}
_STOP_TRIES = 200
_LAST_WORDS = 2_000
_BETWEEN_TRIES = 0.003


class ActorFailedError(Exception):
    """A process ended in a way that nobody asked for."""


@dataclass(slots=True, eq=False)
class Actor:
    """One process, from its start to its end. One that is started again is another actor."""

    name: str
    role: str
    process: asyncio.subprocess.Process
    is_stopped: bool = False
    was_ended: bool = False
    """Somebody killed or terminated it."""

    @property
    def is_alive(self) -> bool:
        """It has not ended, as far as its parent knows."""
        return self.process.returncode is None


class Fleet:
    """The processes of one trial. Leaving the block ends them all.

    Whatever is done to a process is written down before it is done, so that nothing which
    follows from it can be older than the line that explains it. Processes of some roles may
    leave by themselves; somebody `attend`s to them then. `clock_of` gives a process, by its
    name, a wall clock of its own.
    """

    def __init__(
        self,
        trial: Trial,
        ledger: Ledger,
        *,
        clock_of: Callable[[str], SkewedClock] | None = None,
        may_leave: Sequence[str] = (),
    ) -> None:
        self._trial = trial
        self._may_leave = may_leave
        self._clock_of = clock_of
        self._ledger = ledger
        self._numbers: Counter[str] = Counter()
        self.actors: list[Actor] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for actor in self.alive():
            os.kill(actor.process.pid, signal.SIGKILL)
            actor.was_ended = True
        for actor in self.actors:
            await self.ended(actor)

    async def start(self, role: str) -> Actor:
        """A new process of this role."""
        self._numbers[role] += 1
        name = f"{role}-{self._numbers[role]}"
        with self._log(name).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "longshore_lab.actor", role, name, self._trial.pack()),
                # The pipe closes with this process, which is how an actor learns of its death.
                stdin=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environment(name),
                # A Ctrl-C is for the runner; it ends its actors itself.
                start_new_session=True,
            )
        actor = Actor(name, role, process)
        self.actors.append(actor)
        return actor

    def may_leave(self, role: str) -> bool:
        """Whether those of this role may leave by themselves, and are started again."""
        return role in self._may_leave

    def alive(self, role: str | None = None) -> list[Actor]:
        """Those that run or stand still, oldest first."""
        return [one for one in self.actors if one.is_alive and role in (None, one.role)]

    def do(self, kind: FaultKind, actor: Actor) -> None:
        """Send the signal. Harmless when the process is gone."""
        self._ledger.write(Fault(now(), actor.name, kind))
        actor.is_stopped = kind is FaultKind.STOP or (
            actor.is_stopped and kind is not FaultKind.RESUME
        )
        actor.was_ended |= kind in (FaultKind.KILL, FaultKind.TERMINATE)
        if actor.is_alive:
            os.kill(actor.process.pid, _SIGNALS[kind])

    async def stop_when(self, actor: Actor, is_right: Callable[[], Awaitable[bool]]) -> None:
        """Make the process stand still at a moment that is right.

        At the least it should hold no lock that others need: one that is stopped in the middle
        of a SQLite transaction holds up the whole file. That is what SQLite promises, and it
        would hide what a trial of a lost lease wants to see.
        """
        for _ in range(_STOP_TRIES):
            os.kill(actor.process.pid, signal.SIGSTOP)
            if await is_right():
                self.do(FaultKind.STOP, actor)
                return
            os.kill(actor.process.pid, signal.SIGCONT)
            await asyncio.sleep(_BETWEEN_TRIES)
        raise ActorFailedError(f"{actor.name} was never found at the right moment")

    async def ended(self, actor: Actor, *, within: float = 30.0) -> int:
        """The exit status, once it has ended; ActorFailedError if it does not."""
        try:
            async with asyncio.timeout(within):
                status = await actor.process.wait()
        except TimeoutError:
            raise ActorFailedError(f"{actor.name} did not end within {within:g} s") from None
        self._ledger.write(Fault(now(), actor.name, FaultKind.GONE))
        return status

    async def dismiss(self, *, within: float) -> None:
        """Ask everyone to leave, and wait until they have. Not a fault: the work is done."""
        for actor in self.alive():
            actor.was_ended = True
            os.kill(actor.process.pid, signal.SIGTERM)
        for actor in self.actors:
            await self.ended(actor, within=within)

    async def attend(self) -> None:
        """Start again those that have left by themselves and may."""
        for one in list(self.actors):
            if one.role in self._may_leave and not one.is_alive and not one.was_ended:
                one.was_ended = True
                await self.start(one.role)

    def check(self) -> None:
        """ActorFailedError if a process ended badly though nobody ended it."""
        for actor in self.actors:
            may_leave = actor.was_ended or actor.role in self._may_leave
            if actor.process.returncode and not may_leave:
                last_words = self._log(actor.name).read_text(errors="replace")[-_LAST_WORDS:]
                raise ActorFailedError(
                    f"{actor.name} ended with {actor.process.returncode}: {last_words}"
                )

    def _environment(self, name: str) -> dict[str, str] | None:
        if self._clock_of is None:
            return None
        return os.environ | self._clock_of(name).environment

    def _log(self, name: str) -> Path:
        folder = Path(self._trial.folder) / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.log"
