"""The terminal itself: taken over, drawn on, and always given back as it was."""

import os
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

__all__ = ["Screen"]

# The other buffer, so that what was on the screen comes back; no cursor; no wrapping, because
# a window that has just become narrower would fold every line.
_TAKE = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_GIVE_BACK = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_CLEAR = "\x1b[0m\x1b[2J"


class Screen:
    """A terminal in full. Keys are read as they are pressed; Ctrl-C stays a signal."""

    def __init__(self, keyboard: int, display: int) -> None:
        self.keyboard = keyboard
        self._display = display
        self._before: list[Any] = []
        self._shown: list[str] = []
        self._size = (0, 0)

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.give_back()

    def take(self) -> None:
        """Begin to draw."""
        self._before = termios.tcgetattr(self.keyboard)
        tty.setcbreak(self.keyboard)
        self._shown, self._size = [], (0, 0)
        self._write(_TAKE)

    def give_back(self) -> None:
        """Leave everything as it was found, as far as the terminal is still there."""
        with suppress(OSError):
            self._write(_GIVE_BACK)
        with suppress(termios.error, OSError):
            termios.tcsetattr(self.keyboard, termios.TCSADRAIN, self._before)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now; some terminals say nothing."""
        found = os.get_terminal_size(self._display)
        return found.columns or 80, found.lines or 24

    def draw(self, lines: Sequence[str], size: tuple[int, int]) -> None:
        """Write the lines that changed: over a slow line that is most of the time few."""
        if size != self._size:
            self._write(_CLEAR)
            self._shown, self._size = [], size
        before = [*self._shown, *[""] * (len(lines) - len(self._shown))]
        changed = [
            f"\x1b[{number};1H{line}\x1b[0m\x1b[K"
            for number, (line, old) in enumerate(zip(lines, before, strict=False), 1)
            if line != old
        ]
        self._write("".join(changed))
        self._shown = list(lines)

    def _write(self, text: str) -> None:
        rest = text.encode(errors="replace")
        while rest:
            rest = rest[os.write(self._display, rest) :]
