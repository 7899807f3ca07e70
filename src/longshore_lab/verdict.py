"""The judgement over a trial: every checker's finding, and the figures worth telling."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

from longshore.core.state import State
from longshore_lab import ledger
from longshore_lab.checkers import Finding, check
from longshore_lab.effects import Effects
from longshore_lab.history import History, Run, gather
from longshore_lab.records import Fault, FaultKind, Outcome
from longshore_lab.survey import Seen, Store, Survey, survey
from longshore_lab.trial import Trial

__all__ = ["Case", "Figures", "Verdict", "collect", "decide", "judge", "misplaced"]

_POSTGRES = ("postgresql://", "postgres://")
_ADDRESS = "longshore.engines.postgres.address"
_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was counted. None of these is good or bad by itself."""

    accepted: int
    unanswered: int
    """Jobs that were sent and never answered for: they may exist or not."""
    succeeded: int
    dead: int
    runs: int
    retries: int
    """Runs that followed a failed one."""
    redelivered: int
    """Runs that followed one that was cut off."""
    in_flight: int
    """Jobs that were held by a worker at the moment it was hit: the most that may run again."""
    stale_refused: int
    """Settlements of workers that had lost their lease."""
    past_lease: int
    """Runs longer than the lease on workers that nobody hurt: renewed, and not taken away."""
    effects_asked: int
    effects_applied: int
    effects_once: int
    """Orders that were applied exactly once."""
    overcharged: int
    """Jobs with more failures than their handlers raised, more attempts than they began, or a
    crash or lapse though no process was killed or stopped."""
    kills: int
    stops: int
    terminations: int
    slowest_leave: float
    """Seconds from asking a process to leave until it was gone, at the most."""
    torn: int
    """Ledgers whose last line was cut off by a kill."""
    seconds: float
    """From the first submission to the last settlement."""
    best_second: int
    """The most settlements that were accepted within one second."""

    @property
    def jobs_per_s(self) -> float:
        """Finished jobs per second, faults included."""
        return (self.succeeded + self.dead) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """All findings, all figures."""

    findings: dict[str, Finding]
    figures: Figures

    @property
    def holds(self) -> bool:
        """No checker found anything, and there was something to look at."""
        return self.figures.accepted > 0 and all(one.holds for one in self.findings.values())

    def document(self) -> dict[str, Any]:
        """As one flat object: the figures, the violations of each promise, and examples."""
        broken = {name: one.examples for name, one in self.findings.items() if not one.holds}
        return {
            "holds": self.holds,
            **asdict(self.figures),
            "jobs_per_s": round(self.figures.jobs_per_s, 1),
            **{name: one.violations for name, one in self.findings.items()},
            **({"examples": broken} if broken else {}),
        }


@dataclass(frozen=True, slots=True)
class Case:
    """All that a judgement rests on."""

    history: History
    survey: Survey
    torn: list[str]
    """The actors whose last line was cut off by their death."""


async def collect(trial: Trial, store: Store) -> Case:
    """Read the ledgers, and ask the store and the world."""
    pages = ledger.read(trial.ledgers)
    history = gather(pages.entries)
    world = Effects(trial.world)
    sent = max((one.seq for one in history.submissions.values()), default=-1) + 1
    try:
        found = await survey(store, world, range(max(sent, world.size)))
    finally:
        world.close()
    return Case(history, found, pages.torn)


def decide(trial: Trial, case: Case) -> Verdict:
    """Compare what the ledgers say with what store and world show."""
    figures = _figures(trial, case.history, case.survey, torn=case.torn)
    return Verdict(check(case.history, case.survey), figures)


async def judge(trial: Trial, store: Store) -> Verdict:
    """Collect and decide; where the store is PostgreSQL, look into its tables as well."""
    verdict = decide(trial, await collect(trial, store))
    if trial.url.startswith(_POSTGRES):
        verdict.findings["misplaced"] = await misplaced(trial.url)
    return verdict


async def misplaced(url: str) -> Finding:
    """Every job is in exactly one place of PostgreSQL's tables."""
    # The driver is an option of the package, and a proof of SQLite has to run without it.
    driver, address = (import_module(name) for name in ("asyncpg", _ADDRESS))
    connection = await driver.connect(address.parse(url).dsn)
    try:
        jobs = await connection.fetchval("select sum(size) from longshore.segment")
        wrong = await connection.fetch("select * from longshore.misplaced()")
    finally:
        await connection.close()
    examples = [f"{row['id']} is in {row['places']}" for row in wrong[:_EXAMPLES]]
    return Finding("misplaced", jobs or 0, len(wrong), examples)


def _figures(trial: Trial, history: History, found: Survey, *, torn: list[str]) -> Figures:
    states = Counter(seen.state for seen in found.jobs.values())
    faults = [fault for faults in history.faults.values() for fault in faults]
    kinds = Counter(fault.kind for fault in faults)
    hits = [fault for fault in faults if fault.kind in (FaultKind.KILL, FaultKind.STOP)]
    lease = trial.lease_seconds * 1e6
    runs = [run for runs in history.runs.values() for run in runs]
    pairs = [pair for runs in history.runs.values() for pair in pairwise(runs)]
    retries = sum(first.outcome is Outcome.RAISED for first, _ in pairs)
    settles = [settle for settles in history.settles.values() for _, settle in settles]
    ends = [settle.at for settle in settles if settle.is_accepted]
    return Figures(
        accepted=len(history.accepted),
        unanswered=len(history.unanswered),
        succeeded=states[State.SUCCEEDED],
        dead=states[State.DEAD],
        runs=len(runs),
        retries=retries,
        redelivered=len(pairs) - retries,
        in_flight=sum(len(history.in_flight(hit)) for hit in hits),
        stale_refused=sum(not settle.is_accepted for settle in settles),
        past_lease=sum(
            run.ended is not None
            and run.ended - run.began > lease
            and not history.was_hurt(run, run.ended)
            for run in runs
        ),
        effects_asked=sum(cell.asked for cell in found.cells.values()),
        effects_applied=sum(cell.applied for cell in found.cells.values()),
        effects_once=sum(cell.applied == 1 for cell in found.cells.values()),
        overcharged=sum(
            _is_overcharged(seen, history.runs.get(job, ()), was_hit=bool(hits))
            for job, seen in found.jobs.items()
        ),
        kills=kinds[FaultKind.KILL],
        stops=kinds[FaultKind.STOP],
        terminations=kinds[FaultKind.TERMINATE],
        slowest_leave=max(map(_leave, history.faults.values()), default=0.0),
        torn=len(torn),
        seconds=round((max(ends, default=0) - history.began_at) / 1e6, 3),
        best_second=max(Counter(at // 1_000_000 for at in ends).values(), default=0),
    )


def _is_overcharged(seen: Seen, runs: Sequence[Run], *, was_hit: bool) -> bool:
    raised = sum(run.outcome is Outcome.RAISED for run in runs)
    is_hurt = bool(seen.crashes or seen.lapses) and not was_hit
    return is_hurt or seen.failures > raised or seen.attempt > len(runs) + seen.crashes


def _leave(faults: Sequence[Fault]) -> float:
    """How long the process took to leave; 0 for one that was not asked, or was killed."""
    asked = [one.at for one in faults if one.kind is FaultKind.TERMINATE]
    gone = [one.at for one in faults if one.kind is FaultKind.GONE]
    was_killed = any(one.kind is FaultKind.KILL for one in faults)
    if not asked or not gone or was_killed:
        return 0.0
    return round((min(gone) - min(asked)) / 1e6, 3)
