"""What is on the screen, and what a key changes. Nothing here asks or draws anything."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from longshore.cli.top.facts import Facts, Opened
from longshore.cli.top.keys import Key
from longshore.core.state import State
from longshore.operations.job_documents import JobDocument

__all__ = ["Cursor", "Order", "Page", "Target", "View"]

Target = tuple[str | None, str | None]
"""A row that can be chosen: a queue by its name, or a job by its id."""

_STATES: tuple[State | None, ...] = (None, *State)


class Page(StrEnum):
    """The screens there are."""

    OVERVIEW = "overview"
    JOBS = "jobs"
    JOB = "job"
    HELP = "help"


@dataclass(frozen=True, slots=True)
class Order:
    """What the view asks of whoever runs it."""

    leaves: bool = False
    queue: str | None = None
    """To be paused, or resumed."""
    pauses: bool = False


LOOK = Order()
"""Ask the backend again: something else is shown now."""


@dataclass(slots=True)
class Cursor:
    """Stays with the row it is on while rows come and go."""

    at: Target | None = None
    _index: int = 0

    def index(self, rows: Sequence[Target]) -> int:
        """Where it is, after it was moved to the nearest row if its own is gone."""
        if self.at in rows:
            self._index = rows.index(self.at)
        elif rows:
            self._index = min(self._index, len(rows) - 1)
            self.at = rows[self._index]
        else:
            self.at = None
        return self._index

    def move(self, rows: Sequence[Target], by: int) -> None:
        """Up or down, to the first or last row at most."""
        if rows:
            self._index = min(max(self.index(rows) + by, 0), len(rows) - 1)
            self.at = rows[self._index]


@dataclass(slots=True)
class View:
    """One person's screen."""

    facts: Facts
    jobs: Sequence[JobDocument] = ()
    opened: Opened | None = None

    page: Page = Page.OVERVIEW
    queue: str | None = None
    """Whose jobs are listed."""
    state: State | None = None
    """Of the jobs that are listed; None: any."""
    job_id: str | None = None
    scroll: int = 0
    """Lines above the window, on pages of text."""
    height: int = 24
    asked: Order | None = None
    """Waits for a yes."""
    remark: str = ""
    """What became of the last order."""
    trouble: str = ""
    """Why the figures are old."""
    _cursors: dict[Page, Cursor] = field(default_factory=dict[Page, Cursor])
    _trail: list[Page] = field(default_factory=list[Page])

    @property
    def rows(self) -> list[Target]:
        """What can be chosen on this page."""
        if self.page is Page.OVERVIEW:
            dead: list[Target] = [(None, one.id) for one in self.facts.dead]
            return [*((one.queue, None) for one in self.facts.queues), *dead]
        return [(None, one.id) for one in self.jobs] if self.page is Page.JOBS else []

    @property
    def chosen(self) -> Target:
        """The row under the cursor; nothing, where there is none."""
        self.cursor.index(self.rows)
        return self.cursor.at or (None, None)

    @property
    def cursor(self) -> Cursor:
        """Each page keeps its own."""
        return self._cursors.setdefault(self.page, Cursor())

    def press(self, key: str) -> Order | None:
        """Change what is shown; an order, where that is not all."""
        self.remark = ""
        if self.asked is not None and key not in ("q", "Q"):
            order, self.asked = self.asked, None
            return order if key in ("y", "Y") else None
        match key:
            case "q" | "Q":
                return Order(leaves=True)
            case "?":
                return self._go(Page.HELP) if self.page is not Page.HELP else self._back()
            case Key.BACK:
                return self._back()
            case Key.ENTER:
                return self._open()
            case "p" | " ":
                self._ask_to_pause()
            case "f":
                return self._filter()
            case _:
                return self._move(key)
        return None

    def _move(self, key: str) -> Order | None:
        steps = {
            Key.UP: -1,
            Key.DOWN: 1,
            Key.PAGE_UP: -max(self.height - 5, 1),
            Key.PAGE_DOWN: max(self.height - 5, 1),
            Key.HOME: -(10**9),
            Key.END: 10**9,
        }
        if key in steps and self.page in (Page.JOB, Page.HELP):
            self.scroll = max(self.scroll + steps[Key(key)], 0)
        elif key in steps:
            self.cursor.move(self.rows, steps[Key(key)])
        elif key == Key.NEXT and self.page is Page.OVERVIEW:
            self._jump()
        return None

    def _jump(self) -> None:
        """From the queues to the dead jobs, and back."""
        queues = len(self.facts.queues)
        is_on_queue = self.chosen[0] is not None
        if is_on_queue and self.facts.dead:
            self.cursor.at = self.rows[queues]
        elif queues:
            self.cursor.at = self.rows[0]

    def _open(self) -> Order | None:
        queue, job_id = self.chosen
        if queue is not None:
            self.queue, self.state, self.jobs = queue, None, ()
            self._cursors.pop(Page.JOBS, None)
            return self._go(Page.JOBS)
        if job_id is not None:
            self.job_id, self.opened = job_id, None
            return self._go(Page.JOB)
        return None

    def _go(self, page: Page) -> Order:
        self._trail.append(self.page)
        self.page, self.scroll = page, 0
        return LOOK

    def _back(self) -> Order | None:
        if not self._trail:
            return None
        self.page, self.scroll = self._trail.pop(), 0
        return LOOK

    def _filter(self) -> Order | None:
        if self.page is not Page.JOBS:
            return None
        self.state = _STATES[(_STATES.index(self.state) + 1) % len(_STATES)]
        self.jobs = ()
        return LOOK

    def _ask_to_pause(self) -> None:
        queue = self.queue if self.page is Page.JOBS else self.chosen[0]
        if queue is None or self.page in (Page.JOB, Page.HELP):
            return
        counts = [one for one in self.facts.queues if one.queue == queue]
        is_paused = bool(counts) and counts[0].is_paused
        self.asked = Order(queue=queue, pauses=not is_paused)
