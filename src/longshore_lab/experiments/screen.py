"""A look at the queue as people have it: `longshore top`, as a picture."""

import fcntl
import math
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Sequence
from html import escape
from io import StringIO
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

__all__ = ["Glance", "drawn", "picture"]

_COLUMNS, _LINES = 110, 30
_LOOK = 12.0
"""Seconds: top tells rates over the last ten."""
_END = 3.0
"""Seconds before the end of the load by which it has seen enough."""
_PATIENCE = 10.0
# Top writes a line from its first column to its end, and nothing else.
_LINE = re.compile(r"\x1b\[(\d+);1H(.*?)\x1b\[0m\x1b\[K", re.DOTALL)
_PLACE = re.compile(r"(\w+)://[^\s\x1b]*")
_THEME = TerminalTheme(
    (255, 255, 255),
    (38, 38, 38),
    [
        *((0, 0, 0), (178, 34, 34), (34, 120, 60), (160, 110, 0)),
        *((11, 110, 153), (144, 101, 176), (0, 128, 128), (200, 200, 200)),
    ],
)
_CELL, _ROW, _EDGE = 7.3, 17, 12


class Glance:
    """Looks at the end of a load that lasts so many seconds, beside what the block does."""

    def __init__(self, url: str, seconds: float, *, look: float = _LOOK) -> None:
        self._url = url
        self._look = look
        self._after = max(seconds - look - _END, 0.0)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.lines: list[str] = []
        """Of the last window that was drawn, with their colours; none if nothing was."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self.wait(_PATIENCE)

    def wait(self, seconds: float) -> None:
        """Return when it has looked, after `seconds` at the latest."""
        self._thread.join(seconds)

    def _run(self) -> None:
        if not self._is_over.wait(self._after):
            self.lines = drawn(self._shown())

    def _shown(self) -> str:
        """All that top writes in so many seconds since it began to draw."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-m", "longshore", "--url", self._url, "top"],
            env={**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"},
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        written, until = b"", math.inf
        try:
            while time.monotonic() < until and not self._is_over.is_set():
                if select.select([ours], [], [], 0.2)[0]:
                    written += os.read(ours, 65_536)
                    until = min(until, time.monotonic() + self._look)
        except OSError:
            pass  # it has left, and its terminal with it
        finally:
            process.terminate()
            process.wait()
            os.close(ours)
        return written.decode(errors="replace")


def drawn(written: str) -> list[str]:
    """The window as it was last, without the place of the store."""
    lines = [""] * _LINES
    for number, line in _LINE.findall(written):
        if 1 <= int(number) <= _LINES:
            lines[int(number) - 1] = line
    return [_PLACE.sub(r"\1://…", line) for line in lines] if any(lines) else []


def picture(lines: Sequence[str]) -> str:
    """The window as SVG: the same lines give the same file."""
    width, height = _CELL * _COLUMNS + 2 * _EDGE, _ROW * len(lines) + 2 * _EDGE
    console = Console(file=StringIO(), width=_COLUMNS, color_system="standard")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        'font-family="monospace" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff" stroke="#ccc"/>',
    ]
    for number, line in enumerate(lines):
        parts += _row(Text.from_ansi(line), _EDGE + number * _ROW, console)
    return "\n".join([*parts, "</svg>", ""])


def _row(line: Text, top: int, console: Console) -> list[str]:
    parts, column = list[str](), 0
    for words, style, _ in line.render(console):
        x, wide = _EDGE + column * _CELL, len(words) * _CELL
        column += len(words)
        color, back = "#262626", ""
        if style and style.color:
            color = style.color.get_truecolor(_THEME).hex
        if style and style.bgcolor:
            back = style.bgcolor.get_truecolor(_THEME, foreground=False).hex
        if style and style.reverse:
            color, back = back or "#ffffff", color
        if back:
            parts.append(
                f'<rect x="{x:.1f}" y="{top}" width="{wide:.1f}" height="{_ROW}" '
                f'fill="{back}"/>'
            )
        if words.strip():
            weight = ' font-weight="bold"' if style and style.bold else ""
            parts.append(
                f'<text x="{x:.1f}" y="{top + 13}" textLength="{wide:.1f}" '
                f'xml:space="preserve" fill="{color}"{weight}>{escape(words)}</text>'
            )
    return parts
