"""`longshore breakers`: which types are not handed out because they fail, and when."""

from datetime import timedelta
from typing import Any

import click
from msgspec.structs import asdict

from longshore import breakers
from longshore.cli import documents, layers, render, tables, wiring
from longshore.cli.broken import warn_of_broken
from longshore.cli.documents import Document
from longshore.cli.parameters import duration, given
from longshore.cli.render import Table
from longshore.cli.shared import Group, Shared
from longshore.core import quantity
from longshore.core.flow import BreakerFlow, BreakerSettings
from longshore.engine import Engine

_DURATIONS = ("window", "cooldown")


def _microseconds(text: str) -> int:
    return quantity.microseconds(duration(text))


_OPTIONS: layers.Fields = {
    "failures": (int, "JOBS", "Failures in a row that open it."),
    "ratio": (float, "SHARE", "The share of failures that opens it, 0 to 1."),
    "window": (_microseconds, "TIME", "The time over which the ratio is taken."),
    "least": (int, "JOBS", "Outcomes below which the ratio says nothing."),
    "cooldown": (_microseconds, "TIME", "How long it stays open, such as 30s."),
    "probes": (int, "JOBS", "Jobs that try it then, and have to succeed."),
}


@click.group("breakers", cls=Group)
def command() -> None:
    """List, show, set and reset the circuit breakers of types."""


@command.command("list")
@click.pass_obj
def list_breakers(shared: Shared) -> None:
    """Every type that has a breaker, and how it stands."""

    async def look(engine: Engine) -> None:
        found = await engine.breaker_settings()
        if shared.as_json:
            render.lines(_document(one) for one in found)
        else:
            render.table(_list(found, await engine.now()))
        await warn_of_broken(engine, "breaker")

    wiring.ask(shared, look)


@command.command()
@click.argument("type_name", metavar="TYPE")
@click.pass_obj
def show(shared: Shared, type_name: str) -> None:
    """What is set for a type's breaker, and whether code or an operator says so."""

    async def look(engine: Engine) -> None:
        _say(shared, await breakers.get(engine, type_name))

    wiring.ask(shared, look)


@command.command("set")
@click.argument("type_name", metavar="TYPE")
@layers.options(_OPTIONS)
@click.pass_obj
def set_breaker(shared: Shared, type_name: str, **settings: Any) -> None:
    """Override settings of a type's breaker, whatever code declares."""
    changes = given(settings)
    if not changes:
        raise click.UsageError("say what to set")

    async def store(engine: Engine) -> None:
        _say(shared, await breakers.override(engine, type_name, changes))

    wiring.ask(shared, store, creates=True)


@command.command()
@click.argument("type_name", metavar="TYPE")
@layers.flags(_OPTIONS)
@click.pass_obj
def unset(
    shared: Shared, type_name: str, *, is_all: bool, is_declared: bool, **settings: bool
) -> None:
    """Take overrides away: what code declares holds again."""
    changes = layers.removals(settings, is_all=is_all, is_declared=is_declared)

    async def store(engine: Engine) -> None:
        if is_declared:
            await breakers.forget(engine, type_name)
        _say(shared, await breakers.override(engine, type_name, changes))

    wiring.ask(shared, store)


@command.command()
@click.argument("type_name", metavar="TYPE")
@click.pass_obj
def reset(shared: Shared, type_name: str) -> None:
    """Close a type's breaker now, and forget what it has counted."""

    async def close(engine: Engine) -> None:
        await engine.reset_breaker(type_name)
        _say(shared, await breakers.get(engine, type_name))

    wiring.ask(shared, close)


def _say(shared: Shared, it: BreakerFlow) -> None:
    if shared.as_json:
        render.document(_document(it))
    else:
        render.table(_table(it))


def _document(it: BreakerFlow) -> Document:
    return {
        "type": it.type,
        "phase": it.phase.value,
        "since": documents.instant(it.since or None),
        "until": documents.instant(it.until or None),
        "settings": _settings(it.effective),
        "declared": _settings(it.declared),
        "overridden": _settings(it.overridden),
    }


def _settings(settings: BreakerSettings) -> Document:
    return {
        f"{field}_seconds" if field in _DURATIONS else field: value / 1_000_000
        if field in _DURATIONS and isinstance(value, int)
        else value
        for field, value in asdict(settings).items()
    }


def _list(found: list[BreakerFlow], now: int) -> Table:
    return Table(
        columns=("type", "breaker", "since", "tried again", "opens"),
        rows=[
            (
                it.type,
                it.phase.value.replace("_", "-"),
                tables.when(it.since or None, now),
                tables.when(it.until or None, now),
                _opens(it.effective),
            )
            for it in found
        ],
        empty="no type has a breaker",
    )


def _opens(settings: BreakerSettings) -> str:
    parts: list[str] = []
    if settings.failures is not None:
        parts.append(f"{settings.failures} failures")
    if settings.ratio is not None:
        parts.append(f"{settings.ratio:.0%} failed")
    return " or ".join(parts) or "never"


def _table(it: BreakerFlow) -> Table:
    phase = ("phase", it.phase.value.replace("_", "-"), "", "")
    rows = [phase, *layers.rows(it, _OPTIONS, _text)]
    return Table(columns=layers.COLUMNS, rows=rows, empty="")


def _text(field: str, value: object) -> str:
    if field in _DURATIONS and isinstance(value, int):
        return quantity.duration_text(timedelta(microseconds=value))
    return "-" if value is None else f"{value}"
