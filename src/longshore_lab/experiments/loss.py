"""Experiment 3, the headline: steady load, `kill -9` again and again, and every job counted."""

from longshore_lab.board import Board
from longshore_lab.experiments import evidence
from longshore_lab.experiments.experiment import Config, Experiment, Stage, placed
from longshore_lab.experiments.findings import Findings, Promise, Table
from longshore_lab.proof.evidence import QUESTIONS
from longshore_lab.proof.plan import Plan
from longshore_lab.proof.run import prove, scene_of
from longshore_lab.proof.verdict import Proof
from longshore_lab.records import FaultKind

__all__ = ["EXPERIMENT"]

_MOST_AFTER_KILL_MS = 5_000.0
"""Longer than the lease of 3 s and its grace nobody may wait."""


class Kills(Config, frozen=True, kw_only=True):
    """How many jobs, and how often a worker is killed."""

    minutes: float = 6.0
    rate: float = 1_000.0
    """Jobs that arrive a second."""
    every: float = 4.0
    """Seconds between two kills, on average."""
    workers: int = 5
    """Enough that those which are left have slots for the jobs of one that is killed."""
    least_kills: int = 50


def run(stage: Stage, config: Kills) -> Findings:
    """A proof in which nothing but kill -9 happens, and what its ledgers say."""
    url = stage.url
    plan = Plan(
        url=url,
        minutes=config.minutes,
        seed=config.seed,
        rate=config.rate,
        every=config.every,
        workers=config.workers,
        only=(FaultKind.KILL,),
    )
    stage.say(f"{config.rate:g} jobs a second for {config.minutes:g} min")
    with stage.sampled(url if stage.is_postgres else None) as sampler:
        proof = prove(plan, Board(), scene_of(plan))
    figures, counts, after = proof.verdict.figures, proof.counts, proof.times.after_kill
    return Findings(
        headline=(
            f"{counts['lost']} of {counts['accepted']:,} jobs lost over {figures.kills}"
            f" × `kill -9`, {counts['double effects']} double effects"
        ),
        promises=[
            *_promises(proof),
            Promise(
                f"workers were killed at least {config.least_kills} times",
                f"{figures.kills} times",
                figures.kills >= config.least_kills,
            ),
            Promise(
                f"jobs of a killed worker run elsewhere within {_MOST_AFTER_KILL_MS:,.0f} ms",
                f"p50 {after.p50_ms:,.0f} ms, p99 {after.p99_ms:,.0f} ms of {after.count:,}",
                after.count > 0 and after.p99_ms <= _MOST_AFTER_KILL_MS,
                is_speed=True,
            ),
        ],
        # Where its evidence was kept is a place of this machine, and nobody else's.
        results={name: one for name, one in proof.document().items() if name != "kept"},
        tables=[_counts(proof)],
        bounds=evidence.bound(sampler.samples),
    )


def _promises(proof: Proof) -> list[Promise]:
    forbidden = [
        Promise(
            f"{one.name}: {one.means}",
            f"{proof.counts[one.name]:,}",
            proof.counts[one.name] == 0,
        )
        for one in QUESTIONS
        if one.is_forbidden
    ]
    findings = proof.verdict.findings
    broken = [name for name, one in findings.items() if not one.holds]
    return [
        *forbidden,
        Promise(
            "every checker of the ledgers agrees, and so does SQL",
            f"{len(findings)} checkers; broken: {', '.join(broken) or 'none'}",
            proof.holds,
        ),
        *placed([one for one in findings.values() if one.name == "misplaced"]),
    ]


def _counts(proof: Proof) -> Table:
    rows = [
        [one.name, f"{proof.counts[one.name]:,}", one.means, f"`{one.sql}`"]
        for one in QUESTIONS
    ]
    return Table("What was counted, and the query behind it", ["", "", "means", "query"], rows)


EXPERIMENT = Experiment(
    name="loss",
    page="e13-job-loss",
    promise="No accepted job is lost, and no effect doubled, over kills of workers",
    full=Kills(),
    quick=Kills(minutes=0.4, rate=300.0, every=2.0, least_kills=5),
    takes="8 min",
    run=run,
    plant="loss",
)
