"""The settings of queues as options, and as people see them."""

from datetime import timedelta

import click

from longshore.cli import setting_layers
from longshore.cli.parameters import duration
from longshore.cli.render import Table
from longshore.core import units
from longshore.core.limit_settings import OnDead, Order
from longshore.operations.queues import QueueView

__all__ = ["flags", "options", "table"]


def _rate(text: str) -> float:
    try:
        return units.rate(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _order(text: str) -> Order:
    try:
        return Order(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not {', '.join(Order)}") from None


def _on_dead(text: str) -> OnDead:
    try:
        return OnDead(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not {' or '.join(OnDead)}") from None


def _seconds(text: str) -> float:
    return duration(text).total_seconds()


_OPTIONS: setting_layers.Fields = {
    "order": (_order, "ORDER", "Who goes first: strict, aging or fair."),
    "aging_seconds": (
        _seconds,
        "TIME",
        "With aging: what a priority is worth, such as 30s.",
    ),
    "max_running": (int, "JOBS", "Jobs of the queue that run at once, in the whole fleet."),
    "rate": (_rate, "RATE", "Jobs that start, in the whole fleet, such as 100/s or 30/m."),
    "burst": (int, "JOBS", "Jobs that may start at once after a pause."),
    "retry_rate": (_rate, "RATE", "Retries that come back, in the whole fleet, such as 50/s."),
    "max_depth": (int, "JOBS", "Jobs that may wait; past it submits are refused."),
    "max_depth_per_tenant": (int, "JOBS", "The same of the jobs of one tenant."),
    "max_running_per_key": (int, "JOBS", "Jobs of one ordering key that run at once."),
    "rate_per_key": (_rate, "RATE", "Jobs of one ordering key that start, such as 30/m."),
    "burst_per_key": (int, "JOBS", "Those that may start at once after a pause."),
    "on_dead": (_on_dead, "WHAT", "What a dead job does to its key: continue or block."),
}
"""What each field that is enforced is asked for as."""


options = setting_layers.options(_OPTIONS)
flags = setting_layers.flags(_OPTIONS)


def table(it: QueueView) -> Table:
    """Every setting of a queue, and where it comes from."""
    return Table(
        columns=setting_layers.COLUMNS,
        rows=setting_layers.rows(it, _OPTIONS, _text),
        empty="nothing can be set",
    )


def _text(field: str, value: object) -> str:
    if value is None:
        return "-"
    if field == "aging_seconds" and isinstance(value, float):
        return units.duration_text(timedelta(seconds=value))
    return units.rate_text(value) if isinstance(value, float) else f"{value}"
