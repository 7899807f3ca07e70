"""Draws a view: lines that fit the window, whatever its size."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import StringIO

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from longshore.cli import render, tables
from longshore.cli.top import sections, words
from longshore.cli.top.facts import Facts, Opened
from longshore.cli.top.sections import Cell, Row, Section
from longshore.cli.top.view import Page, Target, View
from longshore.operations.rates import Rates

__all__ = ["Canvas", "draw", "whole"]

_ASCII = str.maketrans("▸…·▁▂▃▄▅▆▇█", ">~|_.-=+*%#")
_LEAST_HEIGHT = 5
"""With less, there is room for nothing but figures."""
_KEYS = (
    ("up, down, k, j", "choose a queue or a dead job, or scroll"),
    ("page up, page down", "by a screen; home and end go all the way"),
    ("tab", "to the dead jobs, and back to the queues"),
    ("enter, right, l", "open: the jobs of a queue, all about a job"),
    ("esc, left, h", "back"),
    ("p, space", "pause or resume the queue; asks first"),
    ("f", "among the jobs of a queue: only those in the next state"),
    ("q, ctrl-c", "leave"),
)
_HINTS = {
    Page.OVERVIEW: "q leave  ? keys  enter open  p pause/resume",
    Page.JOBS: "q leave  ? keys  enter open  esc back  f state  p pause/resume",
    Page.JOB: "q leave  ? keys  esc back",
    Page.HELP: "q leave  esc back",
}


@dataclass(frozen=True, slots=True)
class Canvas:
    """A window, and what it can show."""

    width: int
    height: int
    is_coloured: bool = True
    is_ascii: bool = False

    def lines(self, them: Iterable[Text | Grid]) -> list[str]:
        """As they are written to the terminal, none wider than the window."""
        console = Console(
            file=StringIO(),
            width=self.width,
            force_terminal=self.is_coloured,
            color_system="standard" if self.is_coloured else None,
            no_color=not self.is_coloured,
            legacy_windows=False,
            highlight=False,
        )
        with console.capture() as captured:
            for one in them:
                console.print(one, overflow="ellipsis", no_wrap=True, crop=True)
        text = captured.get()
        return (text.translate(_ASCII) if self.is_ascii else text).split("\n")[:-1]


def draw(view: View, rates: Rates, canvas: Canvas) -> list[str]:
    """The whole window: as many lines as it has."""
    view.height = canvas.height
    is_tiny = canvas.height < _LEAST_HEIGHT
    room = canvas.height if is_tiny else canvas.height - 3
    body = canvas.lines(_body(view, rates, canvas, room))[:room]
    if is_tiny:
        return body
    head = canvas.lines([_head(view.facts, view.trouble), _totals(view.facts, rates)])
    foot = canvas.lines([_foot(view, canvas.width)])
    return [*head, *body, *[""] * (room - len(body)), *foot]


def whole(facts: Facts, rates: Rates, canvas: Canvas) -> list[str]:
    """The overview from end to end, for a pipe or a page."""
    head: list[Text | Grid] = [_head(facts, ""), _totals(facts, rates)]
    for section in sections.overview(facts, rates):
        if section.rows or section.empty:
            head += [Text(""), _grid(section, section.rows[: section.most], canvas.width)]
            head += _remarks(section)
    return [line.rstrip() for line in canvas.lines(head)]


def _body(view: View, rates: Rates, canvas: Canvas, room: int) -> list[Text | Grid]:
    match view.page:
        case Page.OVERVIEW:
            return _overview(view, rates, canvas, room)
        case Page.JOBS:
            return _jobs(view, canvas, room)
        case Page.JOB:
            return _text(view, _opened(view, canvas.width), room)
        case Page.HELP:
            return _text(view, _help(), room)


def _head(facts: Facts, trouble: str) -> Text:
    text = Text.assemble(
        ("longshore top", "bold"),
        " · ",
        f"{facts.now:%H:%M:%S} UTC",
        " · ",
        (render.plain(facts.url), "dim"),
    )
    if not trouble:
        return text
    first = render.plain(trouble).split("\n", 1)[0]
    return Text.assemble((f" as of {facts.now:%H:%M:%S} UTC: {first} ", "bold white on red"))


def _totals(facts: Facts, rates: Rates) -> Text:
    each = [rates.of(one.queue) for one in facts.queues]
    coming = [one.submitted for one in each if one.submitted is not None]
    going = [one.ended for one in each if one.ended is not None]
    dead = sum(one.dead for one in facts.queues)
    parts = [
        (f"ready {words.count(sum(one.ready for one in facts.queues))}", ""),
        (f"running {words.count(sum(one.running for one in facts.queues))}", ""),
        (f"in {words.rate(sum(coming) if coming else None)}/s", ""),
        (f"out {words.rate(sum(going) if going else None)}/s", ""),
        (f"dead {words.count(dead)}", "bold red" if dead else ""),
        (f"sched {words.count(sum(one.scheduled for one in facts.queues))}", ""),
    ]
    if facts.workers is not None:
        none = "" if facts.workers else "bold red"
        parts.insert(4, (f"workers {words.count(len(facts.workers))}", none))
    return Text(" · ").join(Text(text, style) for text, style in parts)


def _foot(view: View, width: int) -> Text:
    if view.asked is not None:
        verb = "pause" if view.asked.pauses else "resume"
        words_, style = f"{verb} the queue {view.asked.queue}? y/n", "bold black on yellow"
    else:
        words_, style = view.remark or _HINTS[view.page], "reverse"
    line = Text(f" {render.plain(words_)}", style)
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


def _overview(view: View, rates: Rates, canvas: Canvas, room: int) -> list[Text | Grid]:
    shown = [one for one in sections.overview(view.facts, rates) if one.rows or one.empty]
    lines: list[Text | Grid] = []
    for section, rows in zip(shown, _shares(shown, room, view.chosen), strict=True):
        if rows:
            lines += [Text("")] if lines else []
            lines += _window(section, view, rows, canvas.width)
    return lines


def _shares(shown: Sequence[Section], room: int, chosen: Target) -> list[int]:
    """Rows for each section: the one with the cursor is served first, then all in turn."""
    given = [0] * len(shown)
    left = room
    for number in sorted(range(len(shown)), key=lambda one: not _has(shown[one], chosen)):
        section = shown[number]
        # Its titles, and a line above them.
        above = 2 if any(given) else 1
        least = min(section.least, max(len(section.rows), 1), max(room - 1, 1))
        if left >= above + least:
            given[number] = least
            left -= above + least
    while hungry := [
        number for number, section in enumerate(shown) if 0 < given[number] < len(section.rows)
    ][: max(left, 0)]:
        for number in hungry:
            given[number] += 1
        left -= len(hungry)
    return given


def _has(section: Section, chosen: Target) -> bool:
    return any(row.target == chosen for row in section.rows)


def _jobs(view: View, canvas: Canvas, room: int) -> list[Text | Grid]:
    kind = f"{view.state}" if view.state else "newest"
    section = sections.jobs(view.jobs, view.facts.now, f"{view.queue}: {kind} jobs")
    return _window(section, view, room - 1, canvas.width)


def _window(section: Section, view: View, height: int, width: int) -> list[Text | Grid]:
    """The rows around the cursor."""
    targets = [row.target for row in section.rows]
    chosen = view.chosen
    at = targets.index(chosen) if chosen in targets else 0
    start = min(max(at - height // 2, 0), max(len(section.rows) - height, 0))
    rows = section.rows[start : start + height]
    return [_grid(section, rows, width, chosen=chosen), *_remarks(section)]


def _remarks(section: Section) -> list[Text | Grid]:
    return [] if section.rows else [Text(f"  {section.empty}", "dim")]


def _grid(
    section: Section,
    rows: Sequence[Row],
    width: int,
    chosen: Target = (None, None),
) -> Grid:
    shown = [number for number, one in enumerate(section.columns) if one.from_width <= width]
    grid = Grid(box=None, expand=True, pad_edge=False, header_style="bold blue")
    for number in shown:
        column = section.columns[number]
        title = f"  {column.title}" if number == 0 else column.title
        grid.add_column(
            Text(render.plain(title)),
            justify="right" if column.is_number else "left",
            ratio=column.share or None,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        is_chosen = row.target is not None and row.target == chosen
        cells = [_cell(row.cells[number], number == 0, is_chosen) for number in shown]
        grid.add_row(*cells, style="reverse" if is_chosen else "")
    return grid


def _cell(cell: Cell, is_first: bool, is_chosen: bool) -> Text:
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    mark = "" if not is_first else "▸ " if is_chosen else "  "
    # In the chosen row colours would be backgrounds.
    return Text(mark + render.plain(text).replace("\n", " "), "" if is_chosen else style)


def _text(view: View, lines: list[Text], room: int) -> list[Text | Grid]:
    view.scroll = min(view.scroll, max(len(lines) - room, 0))
    return [*lines[view.scroll : view.scroll + room]]


def _help() -> list[Text]:
    return [Text(""), *(Text.assemble((f"  {keys:20}", "bold"), does) for keys, does in _KEYS)]


def _opened(view: View, width: int) -> list[Text]:
    it = view.opened
    if it is None:
        return [Text(""), Text("  looking …", "dim")]
    sheet = tables.job(it.job, view.facts.now)
    shown = [(name, text) for name, text in sheet.fields if text]
    lines = [Text(""), *_folded([("why", reason) for reason in it.reasons], width)]
    lines += [Text(""), *_folded(shown, width)]
    return lines + _history(it, view.facts.now, width)


def _history(it: Opened, now: datetime, width: int) -> list[Text]:
    if not it.attempts:
        return []
    table = tables.attempts(it.attempts, now)
    rows = [
        (f"#{row[0]}", " ".join(word for word in row[1:] if word and word != "-"))
        for row in table.rows
    ]
    return [Text(""), Text("  ATTEMPTS", "bold blue"), *_folded(rows, width)]


def _folded(fields: Sequence[tuple[str, str]], width: int) -> list[Text]:
    """Each field on as many lines as it needs: nothing of a job is cut."""
    widest = max((len(name) for name, _ in fields), default=0)
    room = max(width - widest - 4, 8)
    lines: list[Text] = []
    for name, text in fields:
        parts = [
            line[start : start + room]
            for line in render.plain(text).split("\n")
            for start in range(0, max(len(line), 1), room)
        ]
        for number, part in enumerate(parts):
            label = name if number == 0 else ""
            lines.append(Text.assemble((f"  {label:{widest}}  ", "bold"), part))
    return lines
