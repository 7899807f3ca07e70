"""`longshore breakers`: which types are not handed out because they fail, and when."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from longshore.cli import render, setting_layers, tables, wiring
from longshore.cli.broken import warn_of_broken
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import duration, given
from longshore.cli.render import Table
from longshore.core import units
from longshore.operations.backend import Backend
from longshore.operations.breakers import BreakerSettingsView, BreakerView


def _seconds(text: str) -> float:
    return duration(text).total_seconds()


_OPTIONS: setting_layers.Fields = {
    "failures": (int, "JOBS", "Failures in a row that open it."),
    "ratio": (float, "SHARE", "The share of failures that opens it, 0 to 1."),
    "window_seconds": (_seconds, "TIME", "The time over which the ratio is taken."),
    "least": (int, "JOBS", "Outcomes below which the ratio says nothing."),
    "cooldown_seconds": (_seconds, "TIME", "How long it stays open, such as 30s."),
    "probes": (int, "JOBS", "Jobs that try it then, and have to succeed."),
}


@click.group("breakers", cls=Group)
def command() -> None:
    """List, show, set and reset the circuit breakers of types."""


@command.command("list")
@click.pass_obj
def list_breakers(shared: Shared) -> None:
    """Every type that has a breaker, and how it stands."""

    async def look(backend: Backend) -> None:
        found = await backend.breakers()
        if shared.as_json:
            render.lines(found)
        else:
            render.table(_list(found, await backend.now()))
        await warn_of_broken(backend, "breaker")

    wiring.run(shared, look)


@command.command()
@click.argument("type_name", metavar="TYPE")
@click.pass_obj
def show(shared: Shared, type_name: str) -> None:
    """What is set for a type's breaker, and whether code or an operator says so."""
    _say(shared, wiring.run(shared, lambda backend: backend.breaker(type_name)))


@command.command("set")
@click.argument("type_name", metavar="TYPE")
@setting_layers.options(_OPTIONS)
@click.pass_obj
def set_breaker(shared: Shared, type_name: str, **settings: Any) -> None:
    """Override settings of a type's breaker, whatever code declares."""
    changes = given(settings)
    if not changes:
        raise click.UsageError("say what to set")

    async def store(backend: Backend) -> BreakerView:
        return await backend.set_breaker(type_name, changes)

    _say(shared, wiring.run(shared, store, creates=True))


@command.command()
@click.argument("type_name", metavar="TYPE")
@setting_layers.flags(_OPTIONS)
@click.pass_obj
def unset(
    shared: Shared, type_name: str, *, is_all: bool, is_declared: bool, **settings: bool
) -> None:
    """Take overrides away: what code declares holds again."""
    changes = setting_layers.removals(settings, is_all=is_all, is_declared=is_declared)

    async def store(backend: Backend) -> BreakerView:
        return await backend.set_breaker(type_name, changes, forgets_declared=is_declared)

    _say(shared, wiring.run(shared, store))


@command.command()
@click.argument("type_name", metavar="TYPE")
@click.pass_obj
def reset(shared: Shared, type_name: str) -> None:
    """Close a type's breaker now, and forget what it has counted."""
    _say(shared, wiring.run(shared, lambda backend: backend.reset_breaker(type_name)))


def _say(shared: Shared, it: BreakerView) -> None:
    if shared.as_json:
        render.document(it)
    else:
        render.table(_table(it))


def _list(found: Sequence[BreakerView], now: datetime) -> Table:
    return Table(
        columns=("type", "breaker", "since", "tried again", "opens"),
        rows=[
            (
                it.type,
                it.phase.value.replace("_", "-"),
                tables.ago(it.since, now),
                tables.ago(it.until, now),
                _opens(it.settings),
            )
            for it in found
        ],
        empty="no type has a breaker",
    )


def _opens(settings: BreakerSettingsView) -> str:
    parts: list[str] = []
    if settings.failures is not None:
        parts.append(f"{settings.failures} failures")
    if settings.ratio is not None:
        parts.append(f"{settings.ratio:.0%} failed")
    return " or ".join(parts) or "never"


def _table(it: BreakerView) -> Table:
    phase = ("phase", it.phase.value.replace("_", "-"), "", "")
    rows = [phase, *setting_layers.rows(it, _OPTIONS, _text)]
    return Table(columns=setting_layers.COLUMNS, rows=rows, empty="")


def _text(field: str, value: object) -> str:
    if field.endswith("_seconds") and isinstance(value, int | float):
        return units.duration_text(timedelta(seconds=value))
    return "-" if value is None else f"{value}"
