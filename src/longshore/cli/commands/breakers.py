"""`longshore breakers`: which types are not handed out because they fail, and when."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click
from msgspec.structs import asdict

from longshore import breakers
from longshore.cli import documents, render, tables, wiring
from longshore.cli.documents import Document
from longshore.cli.parameters import duration, given
from longshore.cli.render import Table
from longshore.cli.shared import Group, Shared
from longshore.core import flow, quantity
from longshore.core.flow import BreakerFlow, BreakerSettings
from longshore.engine import Engine

_DURATIONS = ("window", "cooldown")


def _microseconds(text: str) -> int:
    return quantity.microseconds(duration(text))


_OPTIONS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "failures": (int, "JOBS", "Failures in a row that open it."),
    "ratio": (float, "SHARE", "The share of failures that opens it, 0 to 1."),
    "window": (_microseconds, "TIME", "The time over which the ratio is taken."),
    "least": (int, "JOBS", "Outcomes below which the ratio says nothing."),
    "cooldown": (_microseconds, "TIME", "How long it stays open, such as 30s."),
    "probes": (int, "JOBS", "Jobs that try it then, and have to succeed."),
}


def _options(function: Callable[..., None]) -> Callable[..., None]:
    for field, (kind, metavar, text) in reversed(_OPTIONS.items()):
        function = click.option(f"--{field}", type=kind, metavar=metavar, help=text)(function)
    return function


def _flags(function: Callable[..., None]) -> Callable[..., None]:
    for field in reversed(_OPTIONS):
        function = click.option(f"--{field}", is_flag=True, help=f"{field}.")(function)
    return function


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
@_options
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
@_flags
@click.option("--all", "is_all", is_flag=True, help="Every override.")
@click.option(
    "--declared",
    "is_declared",
    is_flag=True,
    help="What code declared, once no code does so any more.",
)
@click.pass_obj
def unset(
    shared: Shared, type_name: str, *, is_all: bool, is_declared: bool, **settings: bool
) -> None:
    """Take overrides away: what code declares holds again."""
    changes = {field: None for field, is_meant in settings.items() if is_meant or is_all}
    if not changes and not is_declared:
        raise click.UsageError("say what to take away, or --all")

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
    declared, overridden = flow.said(it.declared), flow.said(it.overridden)
    rows = [("phase", it.phase.value.replace("_", "-"), "", "")]
    rows += [
        (
            field,
            _text(field, overridden.get(field, declared.get(field))),
            "override" if field in overridden else "code" if field in declared else "",
            _text(field, declared.get(field)),
        )
        for field in _OPTIONS
    ]
    return Table(columns=("setting", "value", "from", "declared"), rows=rows, empty="")


def _text(field: str, value: object) -> str:
    if field in _DURATIONS and isinstance(value, int):
        return quantity.duration_text(timedelta(microseconds=value))
    return "-" if value is None else f"{value}"
