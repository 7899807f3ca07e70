"""The settings of queues as options, and as programs and people see them."""

import click
from msgspec.structs import asdict

from longshore.cli import layers
from longshore.cli.documents import Document
from longshore.cli.render import Table
from longshore.core import flow, quantity
from longshore.core.flow import QueueFlow

__all__ = ["document", "flags", "options", "table"]


def _rate(text: str) -> float:
    try:
        return quantity.rate(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_OPTIONS: layers.Fields = {
    "max_running": (int, "JOBS", "Jobs of the queue that run at once, in the whole fleet."),
    "rate": (_rate, "RATE", "Jobs that start, in the whole fleet, such as 100/s or 30/m."),
    "burst": (int, "JOBS", "Jobs that may start at once after a pause."),
    "max_depth": (int, "JOBS", "Jobs that may wait; past it submits are refused."),
}
"""What each field that is enforced is asked for as."""


options = layers.options(_OPTIONS)
flags = layers.flags(_OPTIONS)


def document(it: QueueFlow) -> Document:
    """What holds for a queue, and who said what."""
    return {
        "queue": it.queue,
        "settings": {field: asdict(it.effective)[field] for field in _OPTIONS},
        "declared": flow.said(it.declared),
        "overridden": flow.said(it.overridden),
    }


def table(it: QueueFlow) -> Table:
    """Every setting of a queue, and where it comes from."""
    shown = {*_OPTIONS, *flow.said(it.declared)}
    fields = [field for field in asdict(it.effective) if field in shown]
    return Table(
        columns=layers.COLUMNS,
        rows=layers.rows(it, fields, _text),
        empty="nothing can be set",
    )


def _text(field: str, value: object) -> str:
    if value is None:
        return "-"
    return quantity.rate_text(value) if isinstance(value, float) else f"{value}"
