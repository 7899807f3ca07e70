"""All experiments, in the order of their pages, and which two a day has."""

from collections.abc import Sequence
from datetime import date

from longshore_lab.experiments import (
    batches,
    chaos,
    crashing,
    drain,
    engines,
    figures,
    firing,
    leases,
    leaving,
    loss,
    outage,
    poison,
    punctual,
    sustained,
    transfers,
    workers,
    worlds,
)
from longshore_lab.experiments.experiment import Experiment

__all__ = ["EXPERIMENTS", "of_the_day"]

EXPERIMENTS: Sequence[Experiment] = (
    workers.EXPERIMENT,
    batches.EXPERIMENT,
    loss.EXPERIMENT,
    drain.EXPERIMENT,
    outage.EXPERIMENT,
    poison.EXPERIMENT,
    punctual.EXPERIMENT,
    leaving.EXPERIMENT,
    leases.EXPERIMENT,
    engines.EXPERIMENT,
    sustained.EXPERIMENT,
    chaos.EXPERIMENT,
    worlds.EXPERIMENT,
    firing.EXPERIMENT,
    transfers.EXPERIMENT,
    crashing.EXPERIMENT,
    figures.EXPERIMENT,
)
"""Experiment 1 has page E11, and so on; then come the sustained run, chaos and simulation, and
one for each promise that none of those tries by itself."""


def of_the_day(day: date) -> list[Experiment]:
    """Two of them, other ones each day, until all had their turn."""
    first = 2 * day.toordinal()
    return [EXPERIMENTS[(first + one) % len(EXPERIMENTS)] for one in range(2)]
