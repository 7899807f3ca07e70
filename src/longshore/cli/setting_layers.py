"""Settings that code declares and operators override: as options, and as rows of a table."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import click
import msgspec

__all__ = ["COLUMNS", "Fields", "flags", "options", "removals", "rows", "said", "title"]

Fields = dict[str, tuple[Callable[[str], Any], str, str]]
"""How each field of the document is read, what stands for its value, and what it means."""

Command = Callable[..., None]


class Layered(Protocol):
    """A document with what code declares and what an operator overrides."""

    @property
    def declared(self) -> msgspec.Struct:
        """What code says."""
        ...

    @property
    def overridden(self) -> msgspec.Struct:
        """What an operator says."""
        ...


COLUMNS = ("setting", "value", "from", "declared")


def options(fields: Fields) -> Callable[[Command], Command]:
    """An option with a value for each setting."""

    def add(function: Command) -> Command:
        for field, (kind, metavar, text) in reversed(fields.items()):
            option = click.option(_flag(field), field, type=kind, metavar=metavar, help=text)
            function = option(function)
        return function

    return add


def flags(fields: Fields) -> Callable[[Command], Command]:
    """An option without a value for each setting, `--all` and `--declared`."""

    def add(function: Command) -> Command:
        text = "What code declared, once no code does so any more."
        function = click.option("--declared", "is_declared", is_flag=True, help=text)(function)
        function = click.option("--all", "is_all", is_flag=True, help="Every override.")(
            function
        )
        for field in reversed(fields):
            option = click.option(_flag(field), field, is_flag=True, help=f"{title(field)}.")
            function = option(function)
        return function

    return add


def removals(
    settings: Mapping[str, bool], *, is_all: bool, is_declared: bool
) -> dict[str, None]:
    """The overrides that are to be taken away, of the flags that were given."""
    changes = {field: None for field, is_meant in settings.items() if is_meant or is_all}
    if not changes and not is_declared:
        raise click.UsageError("say what to take away, or --all")
    return changes


def rows(
    it: Layered, fields: Iterable[str], text: Callable[[str, object], str]
) -> list[tuple[str, ...]]:
    """Each setting: what holds, who said so, and what code declares."""
    declared, overridden = said(it.declared), said(it.overridden)
    return [
        (
            title(field),
            text(field, overridden.get(field, declared.get(field))),
            "override" if field in overridden else "code" if field in declared else "",
            text(field, declared.get(field)),
        )
        for field in fields
    ]


def said(settings: msgspec.Struct) -> dict[str, object]:
    """The settings of a layer that say something."""
    found = msgspec.structs.asdict(settings)
    return {name: value for name, value in found.items() if value is not None}


def title(field: str) -> str:
    """A setting's name for people."""
    return field.removesuffix("_seconds").replace("_", " ")


def _flag(field: str) -> str:
    return f"--{field.removesuffix('_seconds').replace('_', '-')}"
