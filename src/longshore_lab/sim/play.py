"""One world, from its seed to its verdict."""

import asyncio
import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from random import Random

from longshore.core.schedule import CatchUp, Schedule, declared
from longshore.engine import Engine
from longshore_lab.batch import open_batches
from longshore_lab.checkers import Finding, check
from longshore_lab.clerk import TYPE
from longshore_lab.firing import Beaten, judge
from longshore_lab.history import History, gather
from longshore_lab.records import (
    Claimed,
    DueRan,
    Entry,
    Fault,
    FaultKind,
    Outcome,
    RunBegan,
)
from longshore_lab.sim.cast import Part, Player, Script
from longshore_lab.sim.engines import ENGINES, Opener
from longshore_lab.sim.loop import Actor, SimLoop
from longshore_lab.sim.stage import Chronicle, Faults, Line, SimClock, SimWorld
from longshore_lab.survey import Survey, survey

__all__ = ["Result", "play"]

_QUIET = 600.0
"""Seconds of peace in which everything has to come to its end."""
_MOST_TURNS = 250_000
_TOO_LATE = 1_000_000
"""Microseconds in which a worker that goes on past its lease has to stop its handlers."""
_SKEW = 300_000_000
_STEP = 3_000_000
_BEAT = Beaten(
    Schedule(name="beat", type=TYPE, every=_STEP, catch_up=CatchUp.ALL, catch_up_limit=1_000),
    _STEP,
)


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
        return all(finding.holds for finding in self.findings.values())


def play(seed: int, opener: Opener = ENGINES["model"]) -> Result:
    """Play the world of this seed."""
    loop = SimLoop(Random(f"order {seed}"))
    with _silence(), _chance(Random(f"chance {seed}")):
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
        self._engine = opener(SimClock(loop))
        self._faults = Faults.drawn(self._rng, lease=self._script.trial.lease_seconds)
        self._chronicle = Chronicle(loop)
        self._book = self._chronicle.book("director")
        self._world = SimWorld()
        self._names = count(1)
        self._players: list[Player] = []
        self._due: set[tuple[str, int]] = set()
        """The due times that have come."""

    async def run(self) -> Result:
        """Trouble first, then peace, then the judgement."""
        await self._engine.migrate()
        script = self._script
        begun = await self._engine.now()
        if script.schedulers:
            await self._engine.put_schedule(declared(_BEAT.schedule, now=begun))
        self._cast("producer", 2)
        self._cast("scheduler", script.schedulers)
        self._cast("worker", script.workers)
        async with asyncio.TaskGroup() as troubles:
            while self._loop.time() < script.seconds:
                await asyncio.sleep(self._rng.expovariate(0.5))
                troubles.create_task(self._trouble())
                self._replace()
        self._faults.end()
        self._replace()
        if script.schedulers:
            await self._stop_the_beat(begun)
        await self._end()
        return await self._judge(self._engine)

    async def _stop_the_beat(self, begun: int) -> None:
        moment, until = await self._engine.now(), self._loop.time() + _QUIET
        next_due = 0
        while next_due <= moment and self._loop.time() < until and not self._is_too_long():
            await asyncio.sleep(1.0)
            self._replace()
            next_due = (await self._engine.schedules())[0].next_due or 0
        await self._engine.delete_schedule(_BEAT.schedule.name)
        name = _BEAT.schedule.name
        self._due = {(name, due) for due in _BEAT.due_times(begun, next_due)}

    def _cast(self, role: str, players: int) -> None:
        for _ in range(players):
            name = f"{role}-{next(self._names)}"
            rng = Random(f"{self._seed} {name}")
            line = Line(self._engine, self._faults, self._chronicle, rng)
            part = Part(
                self._script,
                line.engine,
                self._chronicle.book(name),
                SimClock(self._loop, skew=rng.randint(-_SKEW, _SKEW)),
                rng,
                self._chronicle,
                self._world,
            )
            self._players.append(Player(role, Actor(name), line, part))

    def _replace(self) -> None:
        """Who is gone has a successor."""
        for player in [one for one in self._players if one.is_over]:
            self._players.remove(player)
            if player.role != "producer" or self._is_order_open():
                self._cast(player.role, 1)

    async def _trouble(self) -> None:
        """One thing that happens to somebody."""
        rng = self._rng
        able = [one for one in self._players if not one.is_over and not _is_hit(one)]
        if not able:
            return
        player = rng.choice(able)
        match rng.choice(("kill", "kill", "stop", "stop", "cut", "cut", "drain")):
            case "kill":
                self._note(player, FaultKind.KILL)
                player.actor.is_dead = True
            case "stop":
                self._note(player, FaultKind.STOP)
                player.actor.is_stopped = True
                await self._while_away(player, rng)
                self._note(player, FaultKind.RESUME)
                self._loop.resume(player.actor)
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
                raise AssertionError

    async def _while_away(self, player: Player, rng: Random) -> None:
        """Some time; or until another runs what was the player's, the moment to come back."""
        lease = self._script.trial.lease_seconds
        until = self._loop.time() + rng.random() * rng.choice((0.2, 1.0, 3.0)) * lease
        if rng.random() < 0.5:
            since = len(self._chronicle.entries)
            until = self._loop.time() + 3 * lease
            seconds = 0.02
            while seconds:
                await asyncio.sleep(seconds)
                is_over = self._loop.time() >= until or self._is_taken_over(player, since)
                seconds = 0.0 if is_over else 0.02
            until = self._loop.time() + rng.random() * rng.choice((0.0, 0.05, 2.0))
        await asyncio.sleep(max(until - self._loop.time(), 0.0))

    def _is_taken_over(self, player: Player, since: int) -> bool:
        name, entries = player.actor.name, self._chronicle.entries
        mine = {
            one.record.job
            for one in entries[:since]
            if one.actor == name and isinstance(one.record, Claimed)
        }
        return any(
            isinstance(one.record, RunBegan) and one.record.job in mine and one.actor != name
            for one in entries[since:]
        )

    def _note(self, player: Player, kind: FaultKind) -> None:
        at = self._book.now()
        self._book.write(Fault(at, player.actor.name, kind))
        self._chronicle.seen[f"{player.role} {kind}"] += 1

    def _is_order_open(self) -> bool:
        entries = self._chronicle.entries
        written = [one for one in entries if one.actor.startswith("producer")]
        return any(open_batches(self._script.trial, written))

    async def _end(self) -> None:
        """Wait until nothing is left to do."""
        until = self._loop.time() + _QUIET
        while self._loop.time() < until and not self._is_too_long():
            await asyncio.sleep(1.0)
            self._replace()
            counts = await self._engine.counts()
            is_busy = any(one.ready or one.running or one.scheduled for one in counts)
            if not is_busy and not self._is_order_open():
                return

    def _is_too_long(self) -> bool:
        """So much goes on in peace only where nothing comes to its end."""
        return self._loop.turns > _MOST_TURNS

    async def _judge(self, engine: Engine) -> Result:
        history = gather(self._chronicle.entries)
        found = await survey(engine, self._world, range(self._script.trial.jobs))
        # Jobs of the schedule carry no order.
        found.jobs = {job: seen for job, seen in found.jobs.items() if seen.seq is not None}
        findings = check(history, found)
        findings["beats"] = self._beats()
        findings["lingering"] = lingering(history, found)
        findings["refused"] = refused(history, found)
        findings["faults"] = _faults(self._loop)
        return Result(
            self._seed,
            findings,
            self._chronicle.seen + _sometimes(history, found),
            self._chronicle.entries,
            self._loop.time(),
            self._loop.turns,
        )

    def _beats(self) -> Finding:
        """Every due time of a schedule has one job."""
        ran = [one.record for one in self._chronicle.entries if isinstance(one.record, DueRan)]
        verdict = judge(self._due, ran)
        wrong = [
            f"{due} {how}"
            for how, those in (
                ("was missed", verdict.missed),
                ("had two jobs", verdict.doubled),
                ("is no due time", verdict.strange),
            )
            for _, due in those
        ]
        return Finding("beats", len(self._due), len(wrong), wrong[:5])


def _is_hit(player: Player) -> bool:
    return player.actor.is_stopped or player.line.is_cut


def lingering(history: History, _: Survey) -> Finding:
    """A worker that lost its lease stops its handlers as soon as it can run."""
    late: list[str] = []
    for job, runs in history.runs.items():
        for first, second in pairwise(runs):
            if first.actor == second.actor or first.ended is None:
                continue
            able = max([second.began, *_resumed(history, first.actor, first.ended)])
            if first.ended > able + _TOO_LATE:
                late.append(
                    f"{job} ran on {first.actor} until {first.ended},"
                    f" and on {second.actor} since {second.began}"
                )
    return Finding("lingering", len(history.runs), len(late), late[:5])


def refused(history: History, _: Survey) -> Finding:
    """A worker that nobody hurt is never told that a job is no longer its own."""
    runs = {
        (run.actor, job, run.delivery): run
        for job, all_of in history.runs.items()
        for run in all_of
    }
    wrong = [
        f"{job}: {actor} was refused delivery {settle.delivery}, though it was unharmed"
        for job, settles in history.settles.items()
        for actor, settle in settles
        if not settle.is_accepted
        and (run := runs.get((actor, job, settle.delivery))) is not None
        and not history.was_hurt(run, settle.at)
    ]
    return Finding("refused", len(runs), len(wrong), wrong[:5])


def _resumed(history: History, actor: str, until: int) -> list[int]:
    return [
        fault.at
        for fault in history.faults[actor]
        if fault.kind is FaultKind.RESUME and fault.at <= until
    ]


def _faults(loop: SimLoop) -> Finding:
    told = [f"{one.get('message')}: {one.get('exception')!r}" for one in loop.faults]
    return Finding("faults", loop.turns, len(told), told[:5])


def _sometimes(history: History, found: Survey) -> Counter[str]:
    """What has to happen in some worlds, or the worlds are too easy."""
    seen: Counter[str] = Counter()
    for settles in history.settles.values():
        seen["stale settle refused"] += sum(not one.is_accepted for _, one in settles)
        told = Counter((actor, one.delivery) for actor, one in settles if one.is_accepted)
        seen["settle sent again"] += sum(times > 1 for times in told.values())
    for runs in history.runs.values():
        seen["ran again after its worker was hurt"] += sum(
            first.outcome is not Outcome.RAISED for first, _ in pairwise(runs)
        )
        seen["retried"] += sum(first.outcome is Outcome.RAISED for first, _ in pairwise(runs))
        seen["handler stopped"] += sum(run.outcome is Outcome.STOPPED for run in runs)
        seen["two runs at once"] += sum(
            first.ended is not None and first.ended > second.began
            for first, second in pairwise(runs)
        )
    for call in history.calls.values():
        seen["submit answered as repeated"] += "repeated" in call.verdicts.values()
        seen["submit not answered"] += call.why_unknown is not None
    for job in found.jobs.values():
        seen["dead after its last failure"] += job.reason == "exhausted"
        seen["crash charged"] += job.crashes > 0
        seen["lapse charged"] += job.lapses > 0
    return +seen


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
