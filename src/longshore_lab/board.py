"""What a demonstration shows while it runs: a live board, or plain lines without a terminal."""

import time
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

__all__ = ["Board", "LiveBoard", "PlainBoard", "Scene"]

_BAR = 36
_MARKS = {
    "at work": ("●", "green"),
    "frozen": ("❄", "cyan"),
    "killed": ("✗", "red"),
    "done": ("✓", "dim"),
}


@dataclass(slots=True)
class Scene:
    """The state of the play."""

    jobs: int
    began: float = field(default_factory=time.monotonic)
    waiting: int = 0
    delayed: int = 0
    running: int = 0
    succeeded: int = 0
    dead: int = 0
    workers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Name and condition of each."""
    news: list[str] = field(default_factory=list[str])
    """What has happened, oldest first."""
    shown: int = 8
    """How much of the news, and how many workers, a board has room for."""
    rhythm: float = 1.0
    """Seconds between two lines where there is no terminal."""

    @property
    def finished(self) -> int:
        """Jobs that will not run again."""
        return self.succeeded + self.dead

    @property
    def seconds(self) -> float:
        """Since the curtain rose."""
        return time.monotonic() - self.began

    def tell(self, what: str) -> None:
        """Add to the news."""
        self.news.append(f"{self.seconds:5.1f} s  {what}")


class Board:
    """Shows a scene, again and again. This one shows nothing: only the figures are wanted."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state where it is."""

    def update(self) -> None:
        """Show the scene as it is now."""


class PlainBoard(Board):
    """One line per second, and one per piece of news."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._console = console
        self._scene = scene
        self._told = 0
        self._spoke = 0.0

    def __exit__(self, *_: object) -> None:
        self._spoke = 0.0
        self.update()

    def update(self) -> None:
        """Print what is new."""
        scene = self._scene
        for line in scene.news[self._told :]:
            self._console.print(line, highlight=False)
        self._told = len(scene.news)
        if time.monotonic() - self._spoke >= scene.rhythm:
            self._spoke = time.monotonic()
            self._console.print(
                f"{scene.seconds:5.1f} s  {scene.finished:,} of {scene.jobs:,} jobs finished, "
                f"{scene.running:,} running, {scene.delayed:,} wait for a retry",
                highlight=False,
            )


class LiveBoard(Board):
    """A board that redraws itself in place."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._scene = scene
        self._live = Live(
            console=console, get_renderable=self._render, refresh_per_second=8, transient=False
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self) -> None:
        """Nothing to do: the board looks at the scene by itself."""

    def _render(self) -> RenderableType:
        return Group(self._progress(), self._counts(), self._workers(), Text(), *self._news())

    def _progress(self) -> Table:
        scene = self._scene
        line = Table.grid(padding=(0, 1))
        line.add_row(
            " ",
            ProgressBar(total=scene.jobs, completed=scene.finished, width=_BAR),
            Text(f"{scene.finished:,} of {scene.jobs:,} jobs finished", "bold"),
            Text(f"{scene.seconds:.0f} s", "dim"),
        )
        return line

    def _counts(self) -> Text:
        scene = self._scene
        return Text.assemble(
            ("  waiting ", "dim"),
            f"{scene.waiting:,}",
            ("   running ", "dim"),
            f"{scene.running:,}",
            ("   wait for a retry ", "dim"),
            f"{scene.delayed:,}",
            ("   succeeded ", "dim"),
            (f"{scene.succeeded:,}", "green"),
            ("   dead ", "dim"),
            (f"{scene.dead:,}", "yellow"),
        )

    def _workers(self) -> Text:
        line = Text("  ")
        for name, condition in self._scene.workers:
            mark, style = _MARKS[condition]
            line.append(f"{mark} {name}", style).append("   ")
        return line

    def _news(self) -> list[Text]:
        return [Text(f"  {line}") for line in self._scene.news[-self._scene.shown :]]
