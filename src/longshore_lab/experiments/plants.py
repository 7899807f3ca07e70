"""Faults to plant in experiments: one that cannot fail shows nothing.

`python -m longshore_lab.experiments NAME --break` starts itself again with `site` in front of
Python's path, so that every process of the experiment opens an engine that is wrong in one
way. The product has no switch for any of this.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from longshore import engines
from longshore.contract import Completion, Engine, Exchanged, Session
from longshore.contract.forwarding import ForwardingEngine, ForwardingSession
from longshore.core.job import NewJob, Settlement, Submitted
from longshore.core.state import Verb
from longshore.runtime.clock import Clock
from longshore_lab import misfire
from longshore_lab.sabotage import Forgetful

__all__ = ["PLANTS", "fault_of", "plant", "soundly", "start_again"]

_VARIABLE = "LONGSHORE_LAB_PLANT"
_SITE = Path(__file__).parent / "site"
_SECOND = 1_000_000
_SLOW = 1.0
_GLANCE = 0.5
_DEEP = 2_000_000
"""Jobs that wait, for a claim that takes a second longer."""
_FUNERALS = 50
_UNCOUNTED = 5
_BETWEEN = 0.05
"""Seconds between two commits that should be one."""


class _Planted(ForwardingEngine):
    """An engine whose sessions are wrong."""

    session: type["_Session"]

    async def open_session(self, **arguments: Any) -> Session:
        opened = await self._inner.open_session(**arguments)
        return self.session(opened, self._inner)


class _Session(ForwardingSession):
    """Everything as it was, for those that change one thing of it."""

    def __init__(self, session: Session, engine: Engine) -> None:
        super().__init__(session)
        self._engine = engine

    async def exchange(
        self, number: int, *, settlements: Sequence[Settlement] = (), want: int = 0, **rest: Any
    ) -> Exchanged:
        changed = [self.changed(one) for one in settlements]
        want = await self.wanted(want)
        return await self._inner.exchange(number, settlements=changed, want=want, **rest)

    async def claim_at_wakeup(self, number: int, *, want: int, **rest: Any) -> Exchanged | None:
        want = await self.wanted(want)
        return await super().claim_at_wakeup(number, want=want, **rest)

    async def wanted(self, want: int) -> int:
        return want

    def changed(self, one: Settlement) -> Settlement:
        return one


class _SlowSession(_Session):
    async def wanted(self, want: int) -> int:
        await asyncio.sleep(_SLOW)
        return want


class _Slow(_Planted):
    session = _SlowSession


class _SingleSession(_Session):
    async def wanted(self, want: int) -> int:
        return min(want, 1)


class _Single(_Planted):
    session = _SingleSession


class _DeepSession(_Session):
    _looked = 0.0
    _depth = 0

    async def wanted(self, want: int) -> int:
        if time.monotonic() - self._looked > _GLANCE:
            self._looked = time.monotonic()
            self._depth = sum(one.ready for one in await self._engine.counts())
        await asyncio.sleep(_SLOW * self._depth / _DEEP)
        return want


class _Deep(_Planted):
    session = _DeepSession


class _ImpatientSession(_Session):
    _retries = 0

    def changed(self, one: Settlement) -> Settlement:
        self._retries += one.verb is Verb.RETRY
        if one.verb is not Verb.RETRY or self._retries % _FUNERALS:
            return one
        return replace(one, verb=Verb.KILL, delay=0, reason="exhausted")


class _Impatient(_Planted):
    session = _ImpatientSession


class _LenientSession(_Session):
    def __init__(self, session: Session, engine: Engine) -> None:
        super().__init__(session, engine)
        self._spared: set[int] = set()

    def changed(self, one: Settlement) -> Settlement:
        if one.verb is not Verb.KILL or one.handle in self._spared:
            return one
        self._spared.add(one.handle)
        return replace(one, verb=Verb.RETRY, reason=None)


class _Lenient(_Planted):
    session = _LenientSession


class _HastySession(_Session):
    def changed(self, one: Settlement) -> Settlement:
        if one.verb is not Verb.RELEASE or one.started_at is None:
            return one
        return replace(one, verb=Verb.SUCCEED, finished_at=one.started_at)


class _Hasty(_Planted):
    session = _HastySession


class _UncountedSession(_Session):
    _crashes = 0

    def changed(self, one: Settlement) -> Settlement:
        self._crashes += one.crash
        if not one.crash or one.verb is Verb.KILL or self._crashes % _UNCOUNTED:
            return one
        return replace(one, crash=False)


class _Uncounted(_Planted):
    session = _UncountedSession


class _ApartSession(_Session):
    @asynccontextmanager
    async def transaction(self, *arguments: Any, **rest: Any) -> AsyncGenerator[Completion]:
        async with super().transaction(*arguments, **rest) as completion:
            yield completion
            await completion.connection.execute("commit and chain")
            await asyncio.sleep(_BETWEEN)


class _Apart(_Planted):
    session = _ApartSession


class _Early(ForwardingEngine):
    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        early = [
            job if job.run_at is None else replace(job, run_at=job.run_at - _SECOND)
            for job in jobs
        ]
        return await self._inner.submit(early, independent=independent, max_wait=max_wait)


PLANTS: Mapping[str, tuple[Callable[[Engine], Any], str]] = {
    "loss": (Forgetful, "one submission in fifty is answered, and never stored"),
    "slow": (_Slow, "every claim takes a second longer"),
    "single": (_Single, "a claim gives one job, however many are asked for"),
    "deep": (_Deep, "a claim takes longer, the more jobs wait"),
    "impatient": (_Impatient, "one retry in fifty ends the job"),
    "lenient": (_Lenient, "the last failure allowed is not the last"),
    "early": (_Early, "jobs are due a second before their time"),
    "hasty": (_Hasty, "what a leaving worker gives back counts as done"),
    "refire": (partial(misfire.planted, plant="double"), misfire.PLANTS["double"]),
    "apart": (_Apart, "what a handler writes is committed before its job's success"),
    "uncounted": (_Uncounted, "one crash in five is not counted"),
}
"""What wraps an engine, and what is wrong with it then."""


def fault_of(name: str) -> str:
    """What is wrong with a queue in which this is planted, in words."""
    return PLANTS[name][1]


def plant() -> None:
    """Have this process open engines with the fault that it was started with."""
    wrap, _ = PLANTS[os.environ[_VARIABLE]]
    real = engines.open_engine

    def open_engine(url: str, *, clock: Clock | None = None) -> Engine:
        return cast("Engine", wrap(real(url, clock=clock)))

    # Whoever was imported on the way here has the real one already.
    for module in list(sys.modules.values()):
        if getattr(module, "open_engine", None) is real:
            vars(module)["open_engine"] = open_engine


def start_again(name: str, command: Sequence[str]) -> None:
    """Become the command, with the fault planted; returns if that is so already."""
    if os.environ.get(_VARIABLE) == name:
        return
    path = os.pathsep.join([str(_SITE), *sys.path[1:]])
    planted = {**os.environ, _VARIABLE: name, "PYTHONPATH": path}
    os.execve(sys.executable, [sys.executable, *command], planted)


def soundly(command: Sequence[str]) -> int:
    """The exit code of a Python program without the fault."""
    path = os.pathsep.join(one for one in sys.path[1:] if one != str(_SITE))
    sound = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([sys.executable, *command], env=sound, check=False).returncode
