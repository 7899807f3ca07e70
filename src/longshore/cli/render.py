"""Put documents and tables on the screen. Here rich is imported only when it is used."""

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from shutil import get_terminal_size

import click
import msgspec

__all__ = [
    "Document",
    "Sheet",
    "Table",
    "document",
    "lines",
    "note",
    "plain",
    "progress",
    "sheet",
    "table",
    "warning",
]

Document = dict[str, object]
"""What `--json` prints: names that stay, ids as text, times as RFC 3339."""

# What a task wrote must not move the cursor, change colours, or turn the line around.
_TURNS = chain(range(0x202A, 0x202F), range(0x2066, 0x206A))
_CONTROLS = {
    code: "\ufffd" for code in chain(range(32), range(127, 160), _TURNS) if chr(code) != "\n"
}


_FOLDED = 6
"""Characters of a word that are still read as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows for people. A column whose title ends in `#` holds numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    empty: str
    """What to say when there are no rows."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One thing, field by field; empty fields are left out."""

    fields: Sequence[tuple[str, str | None]]


def document(it: Document | msgspec.Struct) -> None:
    """One JSON document on one line."""
    click.echo(msgspec.json.encode(it))


def lines(them: Iterable[Document | msgspec.Struct]) -> None:
    """JSON lines: one document each."""
    for one in them:
        document(one)


def plain(text: str) -> str:
    """The text without what would steer a terminal."""
    return text.translate(_CONTROLS)


def note(text: str) -> None:
    """A remark for whoever is watching; not part of the output."""
    click.echo(plain(text), err=True)


def warning(text: str) -> None:
    """A remark that should not be missed."""
    note(f"warning: {text}")


def table(it: Table) -> None:
    """The table, or the remark that there is nothing."""
    if not it.rows:
        note(it.empty)
    elif sys.stdout.isatty() and _least_width(it) <= get_terminal_size().columns:
        _print_grid(it)
    else:
        _print_columns(it)


def sheet(it: Sheet) -> None:
    """The fields below each other."""
    shown = [(name, text) for name, text in it.fields if text]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        first, *rest = plain(text).split("\n")
        click.echo(f"{click.style(name.ljust(width), bold=True)}  {first}")
        for line in rest:
            click.echo(f"{'':{width}}  {line}")


@contextmanager
def progress() -> Generator[Callable[[str], None]]:
    """A line that says how far a long command is; seen only on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    # As below: most commands are over before rich is imported.
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(plain(text))


def _least_width(it: Table) -> int:
    """With less, a grid would cut the first column, or fold the others to a letter a line."""
    first, *others = [max(map(len, column)) for column in _columns(it)]
    return first + sum(2 + min(width, _FOLDED) for width in others)


def _print_columns(it: Table) -> None:
    """For a pipe, a file or a narrow terminal: aligned, and never cut or folded."""
    columns = _columns(it)
    widths = [max(map(len, column)) for column in columns]
    for row in zip(*columns, strict=True):
        cells = [
            cell.rjust(width) if column.endswith("#") else cell.ljust(width)
            for cell, width, column in zip(row, widths, it.columns, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def _columns(it: Table) -> list[tuple[str, ...]]:
    """Each column from its title down."""
    titles = [column.rstrip("#") for column in it.columns]
    rows = [titles, *([_one_line(cell) for cell in row] for row in it.rows)]
    return list(zip(*rows, strict=True))


def _print_grid(it: Table) -> None:
    # Importing rich takes longer than most commands run, and only a terminal needs it.
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=None, header_style="bold", pad_edge=False)
    for number, column in enumerate(it.columns):
        justify = "right" if column.endswith("#") else "left"
        # What stands first is a name or an id: it must stay fit for copying.
        title = column.rstrip("#")
        grid.add_column(title, justify=justify, no_wrap=number == 0, overflow="fold")
    for row in it.rows:
        grid.add_row(*(Text(_one_line(cell)) for cell in row))
    Console().print(grid)


def _one_line(cell: str) -> str:
    return plain(cell).replace("\n", " ")
