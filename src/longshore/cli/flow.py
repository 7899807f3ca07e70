"""The settings of queues as options, and as programs and people see them."""

from collections.abc import Callable
from typing import Any

import click
from msgspec.structs import asdict

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


_OPTIONS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "max_running": (int, "JOBS", "Jobs of the queue that run at once, in the whole fleet."),
    "rate": (_rate, "RATE", "Jobs that start, in the whole fleet, such as 100/s or 30/m."),
    "burst": (int, "JOBS", "Jobs that may start at once after a pause."),
    "max_depth": (int, "JOBS", "Jobs that may wait; past it submits are refused."),
}
"""What each field that is enforced is asked for as."""


def options(function: Callable[..., None]) -> Callable[..., None]:
    """An option with a value for each setting."""
    for field, (kind, metavar, text) in reversed(_OPTIONS.items()):
        function = click.option(_flag(field), field, type=kind, metavar=metavar, help=text)(
            function
        )
    return function


def flags(function: Callable[..., None]) -> Callable[..., None]:
    """An option without a value for each setting."""
    for field in reversed(_OPTIONS):
        function = click.option(_flag(field), field, is_flag=True, help=f"{_title(field)}.")(
            function
        )
    return function


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
    declared, overridden = flow.said(it.declared), flow.said(it.overridden)
    fields = [field for field in asdict(it.effective) if field in {*_OPTIONS, *declared}]
    return Table(
        columns=("setting", "value", "from", "declared"),
        rows=[
            (
                _title(field),
                _text(field, overridden.get(field, declared.get(field))),
                "override" if field in overridden else "code" if field in declared else "",
                _text(field, declared.get(field)),
            )
            for field in fields
        ],
        empty="nothing can be set",
    )


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _title(field: str) -> str:
    return field.replace("_", " ")


def _text(field: str, value: object) -> str:
    if value is None:
        return "-"
    return quantity.rate_text(value) if isinstance(value, float) else f"{value}"
