"""Everything at once: store, disk, wire, clocks and processes, hit by a seeded plan."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from longshore_lab import aftermath, chaos
from longshore_lab.checkers import CHECKERS
from longshore_lab.experiments.experiment import Config, Experiment, Stage
from longshore_lab.experiments.findings import Findings, Promise, Table
from longshore_lab.relayed import relayed
from longshore_lab.strokes import Harm

__all__ = ["EXPERIMENT"]

_NAMES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}
_COUNTED = {
    "accepted": "accepted",
    "succeeded": "succeeded",
    "dead": "dead, as planned",
    "unanswered": "sent and never answered for, then sent again",
    "runs": "runs of handlers",
    "retries": "retries",
    "redelivered": "runs after one that was cut off",
    "stale_refused": "late results refused",
    "past_lease": "runs longer than the lease, renewed and not taken away",
    "overcharged": "jobs charged for what was done to their workers",
    "seconds": "seconds from the first submit to the last settlement",
}
_PROMISES = {
    **{one.__name__: one.__doc__ or one.__name__ for one in CHECKERS},
    "relayed": relayed.__doc__ or "",
    "misplaced": "Every job is in exactly one place of the tables.",
    **{
        one.__name__: one.__doc__ or one.__name__
        for one in (aftermath.slow, aftermath.idle, aftermath.untold)
    },
}
_FOLLOWED = {
    "back_p50": "seconds from whole again to the next claim or settlement, p50",
    "back_longest": "the same, at the most",
    "back_last_worker": "the same for the last worker, after faults of store and wire",
    "taken_longest": "seconds from then until a submission was accepted, at the most",
    "refused_when_full": "submit calls refused while the disk was full",
    "no_room": "the server's log says that there was no room",
    "sent_again": "events shipped twice",
}


class Chaos(Config, frozen=True, kw_only=True):
    """How long, on what, and how much arrives meanwhile."""

    seed: int = 7
    engines: Sequence[str] = ("postgresql", "sqlite")
    minutes: float = 5.0
    rate: float = 200.0
    """Jobs a second."""


def run(stage: Stage, config: Chaos) -> Findings:
    """The same plan on each engine; what cannot be done to one is left out of its plan."""
    found = {name: _tried(stage, config, name) for name in config.engines}
    lost = sum(one["lost"] + one["doubles"] for one in found.values())
    accepted = sum(one["accepted"] for one in found.values())
    done = sum(_times(one) for one in found.values())
    engines = " and ".join(_NAMES[name] for name in found)
    return Findings(
        headline=f"{lost} of {accepted:,} jobs lost or doubled over {done} faults on {engines}",
        promises=[*_promises(found), *_breadth(found)],
        results=found,
        tables=[_counts(found), _faults(found), _aftermath(found)],
    )


def _tried(stage: Stage, config: Chaos, engine: str) -> dict[str, Any]:
    harms = chaos.HARMS[engine]
    strokes = chaos.plan(config.seed, config.minutes * 60, of=harms)
    with tempfile.TemporaryDirectory(prefix="longshore-chaos-") as name:
        _, verdict, told = asyncio.run(
            chaos.run(
                strokes,
                Path(name),
                Console(quiet=True),
                kind=engine,
                load=chaos.Load(config.seed, config.rate),
            )
        )
    stage.say(f"{_NAMES[engine]}: {verdict.figures.accepted:,} jobs, {len(strokes)} faults")
    checked = {name: one.checked for name, one in verdict.findings.items()}
    return {**verdict.document(), **told, "planned": len(strokes), "checked": checked}


def _times(one: dict[str, Any]) -> int:
    """How many faults were done."""
    return sum(one["faults"].values())


def _promises(found: dict[str, dict[str, Any]]) -> list[Promise]:
    return [
        Promise(
            words.rstrip("."),
            ", ".join(
                f"{_NAMES[name]} {one[check]} of {one['checked'][check]:,}"
                for name, one in told
            ),
            not any(one[check] for _, one in told),
        )
        for check, words in _PROMISES.items()
        if (told := [(name, one) for name, one in found.items() if check in one["checked"]])
    ]


def _breadth(found: dict[str, dict[str, Any]]) -> list[Promise]:
    return [
        Promise(
            f"on {_NAMES[name]} every fault of the plan was done",
            f"{_times(one)} of {one['planned']}",
            _times(one) == one["planned"],
            is_speed=True,
        )
        for name, one in found.items()
    ]


def _counts(found: dict[str, dict[str, Any]]) -> Table:
    rows = [
        [words, *(f"{one[name]:,}" for one in found.values())]
        for name, words in _COUNTED.items()
    ]
    return Table("What was counted", ["what", *(_NAMES[name] for name in found)], rows)


def _faults(found: dict[str, dict[str, Any]]) -> Table:
    rows = [
        [str(harm), *(str(one["faults"].get(harm.name.lower(), "–")) for one in found.values())]
        for harm in Harm
    ]
    head = ["what", *(_NAMES[name] for name in found)]
    return Table("What was done, and how often", head, rows)


def _aftermath(found: dict[str, dict[str, Any]]) -> Table:
    rows = [
        [words, *("–" if one[name] is None else f"{one[name]:,}" for one in found.values())]
        for name, words in _FOLLOWED.items()
    ]
    return Table("What followed", ["what", *(_NAMES[name] for name in found)], rows)


EXPERIMENT = Experiment(
    name="chaos",
    page="e22-chaos",
    promise="Nothing is lost or doubled, whatever is done to server, wire, disk, clocks and"
    " processes",
    full=Chaos(),
    quick=Chaos(minutes=0.3, rate=50.0),
    takes="14 min",
    run=run,
    plant="loss",
    store="PostgreSQL and SQLite, each on a small disk of its own",
)
