"""Three schedulers, one killed or stopped every few seconds, and every due time counted."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence

from longshore_lab import firing
from longshore_lab.experiments.experiment import Config, Experiment, ExperimentError, Stage
from longshore_lab.experiments.findings import Findings, Promise, Table
from longshore_lab.firing import Beaten, FiringVerdict
from longshore_lab.fleet import ActorFailedError
from longshore_lab.trial import Trial

__all__ = ["EXPERIMENT", "findings"]

_SECOND = 1_000_000
_PATIENCE = 120.0


class Due(Config, frozen=True, kw_only=True):
    """How often something is due, and how often a scheduler is hit."""

    tenths: int = 1
    """Schedules with ten due times a second, beside six with fewer."""
    faults: int = 44
    every: float = 4.0
    """Seconds between two faults, on average."""
    stopped_seconds: float = 7.0
    """How long a scheduler stands still, if it is not killed."""
    least_due: int = 1_000


def run(stage: Stage, config: Due) -> Findings:
    """Declare the schedules, hit the schedulers, and compare ledger and arithmetic."""
    schedules = firing.beaten(config.tenths)
    blows = firing.blows_for(config.seed, config.faults, every=config.every)
    rate = sum(_SECOND / one.step for one in schedules)
    stage.say(f"{rate:.1f} due times a second, {len(blows)} faults")
    with stage.store() as url, tempfile.TemporaryDirectory(dir=stage.folder) as folder:
        trial = Trial(url=url, folder=folder, lease_seconds=config.stopped_seconds / 2)
        within = 2 * config.faults * config.every + _PATIENCE
        try:
            verdict = asyncio.run(firing.run(trial, schedules, blows, within=within))
        except (TimeoutError, ActorFailedError) as error:
            raise ExperimentError(f"the trial did not come to its end: {error}") from error
    return findings(verdict, schedules, config)


def findings(verdict: FiringVerdict, schedules: Sequence[Beaten], config: Due) -> Findings:
    """What the ledger says of the due times."""
    return Findings(
        headline=(
            f"{len(verdict.doubled)} of {verdict.due:,} due times fired twice and"
            f" {len(verdict.missed)} never, over {verdict.kills} × `kill -9` and"
            f" {verdict.stops} × SIGSTOP of three schedulers"
        ),
        promises=[
            Promise("no due time has two jobs", f"{len(verdict.doubled)}", not verdict.doubled),
            Promise("no due time is missed", f"{len(verdict.missed)}", not verdict.missed),
            Promise(
                "no job runs for a time that is none",
                f"{len(verdict.strange)}",
                not verdict.strange,
            ),
            Promise(
                f"there were at least {config.least_due:,} due times",
                f"{verdict.due:,}",
                verdict.due >= config.least_due,
            ),
            Promise(
                "every fault of the plan was done",
                f"{verdict.kills + verdict.stops} of {config.faults}",
                verdict.kills + verdict.stops == config.faults,
            ),
        ],
        results=verdict.document(),
        tables=[_by_schedule(verdict, schedules), _lateness(verdict)],
    )


def _by_schedule(verdict: FiringVerdict, schedules: Sequence[Beaten]) -> Table:
    twice = Counter(name for name, _ in verdict.doubled)
    never = Counter(name for name, _ in verdict.missed)
    rows = [
        [
            one.schedule.name,
            f"`{one.schedule.cron}`" if one.schedule.cron else f"{one.step / _SECOND:g} s",
            f"{verdict.due_of.get(one.schedule.name, 0):,}",
            f"{twice[one.schedule.name]:,}",
            f"{never[one.schedule.name]:,}",
        ]
        for one in schedules
    ]
    head = ["schedule", "due every", "due times", "fired twice", "missed"]
    return Table("Due times by schedule", head, rows)


def _lateness(verdict: FiringVerdict) -> Table:
    rows = [[name, f"{late:,.1f}"] for name, late in verdict.late_ms.items()]
    return Table("From the due time to the first line of its handler", ["", "ms"], rows)


EXPERIMENT = Experiment(
    name="firing",
    page="e24-firing",
    promise="A due time fires once, whatever is done to the schedulers",
    full=Due(),
    quick=Due(tenths=5, faults=8, every=1.5, stopped_seconds=3.0, least_due=300),
    takes="5 min",
    run=run,
    plant="refire",
)
