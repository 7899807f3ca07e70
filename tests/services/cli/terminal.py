"""A program on a terminal of ours: what it shows, what is typed, and how it leaves."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

PATIENCE = 20.0

_TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([^\x1b])", re.DOTALL)


class Emulator:
    """As much of a terminal as the program uses; anything else fails the test."""

    def __init__(self, columns: int, lines: int) -> None:
        self.resize(columns, lines)
        self.modes: set[str] = set()
        self.row = self.column = 0

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.cells = [[" "] * columns for _ in range(lines)]

    @property
    def text(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def feed(self, text: str) -> None:
        end = 0
        for token in _TOKEN.finditer(text):
            assert token.start() == end, f"not understood: {text[end : end + 20]!r}"
            end = token.end()
            if token[3] is not None:
                self._put(token[3])
            else:
                self._obey(token[1], token[2])
        assert end == len(text), f"not understood: {text[end:]!r}"

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
        elif self.row < self.lines and self.column < self.columns:
            # Past the end nothing is drawn: wrapping is off.
            self.cells[self.row][self.column] = character
            self.column += 1
        else:
            assert "7" not in self.modes, "drawn past the edge of a window that wraps"

    def _obey(self, arguments: str, order: str) -> None:
        match order, arguments:
            case "m", _:
                pass
            case "H", place:
                row, column = (int(one) for one in place.split(";"))
                self.row, self.column = row - 1, column - 1
            case "J", "2":
                self.resize(self.columns, self.lines)
            case "K", "":
                if self.row < self.lines:
                    count = self.columns - self.column
                    self.cells[self.row][self.column :] = [" "] * count
            case (("h" | "l"), mode) if mode.startswith("?"):
                (self.modes.add if order == "h" else self.modes.discard)(mode[1:])
            case _:
                raise AssertionError(f"not understood: {arguments}{order}")


class Terminal:
    """`longshore` on a terminal."""

    def __init__(
        self, folder: Path, *words: str, columns: int = 80, lines: int = 24, **environ: str
    ) -> None:
        self._master, self.slave = pty.openpty()
        self.emulator = Emulator(columns, lines)
        self.raw = ""
        self._partial = b""
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        names = ("COLUMNS", "LINES", "NO_COLOR")
        clean = {name: value for name, value in os.environ.items() if name not in names}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "longshore", *words],
            cwd=folder,
            env={**clean, "TERM": "xterm-256color", **environ},
            stdin=self.slave,
            stdout=self.slave,
            stderr=subprocess.PIPE,
            start_new_session=True,
            # Its own terminal, so that Ctrl-C and Ctrl-Z reach it as signals.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self.slave)
        os.close(self._master)

    def resize(self, columns: int, lines: int) -> None:
        self.emulator.resize(columns, lines)
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def shows(self, *words: str, without: str | None = None) -> str:
        """The screen, once all these words are on it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            text = self.emulator.text
            if all(one in text for one in words) and (without is None or without not in text):
                return text
            assert time.monotonic() < deadline, f"no {words} in\n{text}"
            assert self._receive(0.1) or self.process.poll() is None, self._last_words()

    def left(self) -> int:
        """The exit code, when it has ended and all it wrote was read."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not end"
            self._receive(0.05)
        self.read()
        return self.process.returncode

    def read(self) -> None:
        """Take in all that was written; the terminal passes it on a moment later."""
        while self._receive(0.3):
            pass

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal is as it was found: its settings, its screen, its cursor."""
        return (
            termios.tcgetattr(self.slave) == self.before
            and "1049" not in self.emulator.modes
            and {"25", "7"} <= self.emulator.modes
        )

    def _receive(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        self._partial += os.read(self._master, 65_536)
        # A read may end inside a character or a sequence.
        whole = self._partial.decode(errors="ignore")
        cut = whole.rfind("\x1b")
        if cut >= 0 and not _TOKEN.match(whole, cut):
            whole = whole[:cut]
        self._partial = self._partial[len(whole.encode()) :]
        self.raw += whole
        self.emulator.feed(whole)
        return True

    def _last_words(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()
