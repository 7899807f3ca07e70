"""One world, from its seed to its verdict."""

import asyncio
import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from random import Random

from longshore.contract import Engine
from longshore_lab.batch import open_batches
from longshore_lab.checkers import Finding, check
from longshore_lab.history import gather
from longshore_lab.records import Claimed, Entry, Fault, FaultKind, RunBegan
from longshore_lab.sim import checks
from longshore_lab.sim.calendar import Calendar
from longshore_lab.sim.cast import Part, Player, Script
from longshore_lab.sim.engines import ENGINES, Opener
from longshore_lab.sim.loop import Actor, SimLoop
from longshore_lab.sim.sometimes import happened
from longshore_lab.sim.stage import Blows, Chronicle, Faults, Line, SimClock, SimWorld
from longshore_lab.sim.topic import Topic
from longshore_lab.survey import survey

__all__ = ["Result", "play"]

_QUIET = 600.0
"""Seconds of peace in which everything has to come to its end."""
_MOST_TURNS = 250_000
_TURNS_A_SECOND = 2_000
"""More than a fleet needs that waits for the engine's clock to come back to where it was."""
_SECOND = 1_000_000
_SKEW = 300 * _SECOND
_BACK = (0.5, 20.0, 20.0, 20.0, 600.0)
_FORWARD = (0.5, 20.0, 90.0)
"""Seconds by which the engine's clock is set."""
_HARMLESS = 1.0
"""Seconds by which it may be set forward without any lease ending before its worker's time."""
_HOUR = 3_600.0
_GLANCE = 0.02
_LASTING = frozenset({"worker", "scheduler", "relay"})
"""Whoever of them is gone has a successor."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a world."""

    seed: int
    findings: dict[str, Finding]
    seen: Counter[str]
    entries: list[Entry]
    seconds: float
    """How long it lasted, in its own time."""
    turns: int

    @property
    def holds(self) -> bool:
        """Every promise was kept."""
        return not self.broken

    @property
    def broken(self) -> set[str]:
        """The checkers that found something."""
        return {name for name, finding in self.findings.items() if not finding.holds}


def play(seed: int, opener: Opener = ENGINES["model"]) -> Result:
    """Play the world of this seed."""
    loop = SimLoop(Random(f"order {seed}"))
    with _silence(), _chance(Random(f"chance {seed}")), _no_collector():
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(_Director(seed, loop, opener).run())
        finally:
            _tear_down(loop)
            asyncio.set_event_loop(None)


class _Director:
    def __init__(self, seed: int, loop: SimLoop, opener: Opener) -> None:
        self._seed = seed
        self._loop = loop
        self._rng = Random(f"trouble {seed}")
        self._script = Script.drawn(seed, Random(f"script {seed}"))
        self._calendar = Calendar(Random(f"calendar {seed}"))
        self._clock = SimClock(loop, begins=self._calendar.begins)
        self._engine = opener(self._clock)
        self._topic = Topic()
        self._faults = Faults.drawn(self._rng, lease=self._script.trial.lease_seconds)
        self._chronicle = Chronicle(loop)
        self._book = self._chronicle.book("director")
        self._world = SimWorld()
        self._names = count(1)
        self._players: list[Player] = []
        self._dozed: set[str] = set()
        """Who stood still and does not know."""
        self._set_back = 0.0
        """Seconds by which the engine's clock was set back in all."""

    async def run(self) -> Result:
        """Trouble first, then peace, then the judgement."""
        await self._engine.migrate()
        script = self._script
        if script.schedulers:
            await self._calendar.declare(self._engine)
        self._cast("producer", 2)
        self._cast("scheduler", script.schedulers)
        self._cast("worker", script.workers)
        self._cast("relay", script.relays)
        self._cast("canceller", script.cancellers)
        async with asyncio.TaskGroup() as troubles:
            while self._loop.time() < script.seconds:
                await asyncio.sleep(self._rng.expovariate(0.5))
                troubles.create_task(self._trouble())
                self._replace()
        self._faults.end()
        self._replace()
        await self._end()
        return await self._judge(self._engine)

    def _cast(self, role: str, players: int) -> None:
        for _ in range(players):
            name = f"{role}-{next(self._names)}"
            rng = Random(f"{self._seed} {name}")
            line = Line(
                self._engine,
                self._faults,
                chronicle=self._chronicle,
                blows=Blows(self._book, name),
                rng=rng,
            )
            part = Part(
                self._script,
                line.engine,
                self._chronicle.book(name),
                SimClock(
                    self._loop, begins=self._calendar.begins, skew=rng.randint(-_SKEW, _SKEW)
                ),
                rng,
                self._chronicle,
                self._world,
                self._topic.sink(self._faults, rng),
            )
            self._players.append(Player(role, Actor(name), line, part))

    def _replace(self) -> None:
        """Who is gone has a successor."""
        for player in [one for one in self._players if one.is_over]:
            self._players.remove(player)
            if player.role in _LASTING or (player.role == "producer" and self._is_order_open()):
                self._cast(player.role, 1)

    async def _trouble(self) -> None:
        """One thing that happens to somebody."""
        rng = self._rng
        able = [one for one in self._players if not one.is_over and not _is_hit(one)]
        if not able:
            return
        player = rng.choice(able)
        kinds = ("kill", "kill", "stop", "stop", "cut", "cut", "drain", "set", "set")
        match rng.choice(kinds if self._script.has_steps else kinds[:-2]):
            case "kill":
                self._note(player, FaultKind.KILL)
                self._loop.kill(player.actor)
            case "stop":
                self._note(player, FaultKind.STOP)
                await self._stop(player, rng)
            case "cut":
                self._note(player, FaultKind.STOP)
                player.line.is_cut = True
                await self._while_away(player, rng)
                player.line.is_cut = False
                await asyncio.sleep(1.0)  # what was under way arrives only now
                self._note(player, FaultKind.RESUME)
            case "drain":
                self._note(player, FaultKind.TERMINATE)
                player.drain()
            case _:
                self._set_a_clock(player, rng)

    async def _stop(self, player: Player, rng: Random) -> None:
        since = self._loop.time()
        self._loop.stop_short(player.actor)
        await self._while_away(player, rng)
        self._note(player, FaultKind.RESUME)
        if self._script.dozes and rng.random() < 0.5:
            # It does not know, and sends its late results: only the engine's fence is left.
            player.clock.doze(self._loop.time() - since)
            self._dozed.add(player.actor.name)
        self._loop.resume(player.actor)

    def _set_a_clock(self, player: Player, rng: Random) -> None:
        if rng.random() < 0.5:
            self._set_engine_clock(rng)
        else:
            seconds = rng.choice((-_HOUR, _HOUR))
            player.clock.step(int(seconds * _SECOND))
            self._note(player, FaultKind.STEP, seconds)
            self._chronicle.seen["actor's clock set"] += 1

    def _set_engine_clock(self, rng: Random) -> None:
        """Set the engine's clock. Set forward, it ends leases whose workers did nothing."""
        is_back = rng.random() < 0.5
        seconds = rng.choice(_BACK if is_back else _FORWARD)
        self._set_back += seconds if is_back else 0.0
        self._clock.step(int((-seconds if is_back else seconds) * _SECOND))
        at = self._book.now()
        step = Fault(at, checks.ENGINE, FaultKind.STEP, -seconds if is_back else seconds)
        self._book.write(step)
        self._chronicle.seen[f"engine clock set {'back' if is_back else 'forward'}"] += 1
        if not is_back and seconds > _HARMLESS:
            for player in self._players:
                self._note(player, FaultKind.STOP)
                self._note(player, FaultKind.RESUME)

    async def _while_away(self, player: Player, rng: Random) -> None:
        """Some time; or until another runs what was the player's, the moment to come back."""
        lease = self._script.trial.lease_seconds
        until = self._loop.time() + rng.random() * rng.choice((0.2, 1.0, 3.0)) * lease
        if rng.random() < 0.5:
            until = self._loop.time() + 3 * lease
            await self._taken_over(player.actor.name, until)
            until = self._loop.time() + rng.random() * rng.choice((0.0, 0.05, 2.0))
        await asyncio.sleep(max(until - self._loop.time(), 0.0))

    async def _taken_over(self, name: str, until: float) -> None:
        """Return when another runs what this actor had claimed, then at the latest."""
        entries = self._chronicle.entries
        mine = {
            one.record.job
            for one in entries
            if one.actor == name and isinstance(one.record, Claimed)
        }
        looked, is_over = len(entries), False
        while not is_over and self._loop.time() < until:
            await asyncio.sleep(_GLANCE)
            looked, new = len(entries), entries[looked:]
            is_over = any(
                isinstance(one.record, RunBegan)
                and one.record.job in mine
                and one.actor != name
                for one in new
            )

    def _note(self, player: Player, kind: FaultKind, seconds: float = 0.0) -> None:
        match kind:
            case FaultKind.STOP:
                player.line.blows.begin()
            case FaultKind.RESUME:
                player.line.blows.end()
            case _:
                at = self._book.now()
                self._book.write(Fault(at, player.actor.name, kind, seconds))
        self._chronicle.seen[f"{player.role} {kind}"] += 1

    def _is_order_open(self) -> bool:
        entries = self._chronicle.entries
        written = [one for one in entries if one.actor.startswith("producer")]
        return any(open_batches(self._script.trial, written))

    async def _end(self) -> None:
        """Wait until nothing is left to do."""
        if self._script.schedulers:
            moment = await self._engine.now()
            await self._until(lambda: self._calendar.is_behind(self._engine, moment))
            await self._calendar.withdraw(self._engine, moment)
        await self._until(self._is_busy)

    async def _until(self, is_going_on: Callable[[], Awaitable[bool]]) -> None:
        until = self._loop.time() + _QUIET + self._set_back
        is_on = True
        while is_on and self._loop.time() < until and not self._is_too_long():
            await asyncio.sleep(1.0)
            self._replace()
            is_on = await is_going_on()

    async def _is_busy(self) -> bool:
        counts = await self._engine.counts()
        if any(one.ready or one.running or one.scheduled for one in counts):
            return True
        if self._is_order_open() or any(one.role == "canceller" for one in self._players):
            return True
        if not self._script.relays:
            return False
        return not any(not one.behind for one in await self._engine.consumers())

    def _is_too_long(self) -> bool:
        """So much goes on in peace only where nothing comes to its end."""
        return self._loop.turns > _MOST_TURNS + self._set_back * _TURNS_A_SECOND

    async def _judge(self, engine: Engine) -> Result:
        # What is written from here on is written by the dead, when they are buried.
        entries = list(self._chronicle.entries)
        history = gather(entries)
        found = await survey(engine, self._world, range(self._script.trial.jobs))
        # Jobs of the schedule carry no order.
        found.jobs = {job: seen for job, seen in found.jobs.items() if seen.seq is not None}
        findings = check(history, found)
        more = [
            self._calendar.beats(entries),
            checks.lingering(
                history, unaware=self._dozed, lease=self._script.trial.lease_seconds
            ),
            checks.refused(history),
            checks.revived(self._chronicle.renewals),
            checks.faults(self._loop),
        ]
        if self._script.relays:
            more.append(await self._topic.relayed(engine))
        seen = self._chronicle.seen + happened(history, found)
        seen["relay sent again"] += self._topic.repeated
        seen["due time in a fold"] += self._calendar.folded(entries)
        return Result(
            self._seed,
            findings | {one.name: one for one in more},
            +seen,
            entries,
            self._loop.time(),
            self._loop.turns,
        )


def _is_hit(player: Player) -> bool:
    return player.actor.is_stopped or player.line.is_cut


@contextmanager
def _silence() -> Generator[None]:
    """The product logs what happens to it, and here that is a great deal."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _chance(rng: Random) -> Generator[None]:
    """Whatever asks the system for chance gets what the seed says."""
    real, os.urandom = os.urandom, rng.randbytes
    try:
        yield
    finally:
        os.urandom = real


@contextmanager
def _no_collector() -> Generator[None]:
    """A world keeps its tasks until it ends: to look for garbage before is in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _tear_down(loop: SimLoop) -> None:
    """Bury what the dead left behind: what it does in its `finally` is of no interest."""
    told, sys.unraisablehook = sys.unraisablehook, _ignore
    try:
        loop.forget()
        gc.collect()
        loop.close()
    finally:
        sys.unraisablehook = told


def _ignore(_: object) -> None:
    pass
