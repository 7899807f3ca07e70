"""Log lines that nobody reads hold up nobody."""

import fcntl
import logging
import os
from collections.abc import Iterator

import pytest

from longshore.runtime.log_writer import Outlet
from longshore.runtime.logs import Lines, TextLines


class Pipe:
    """A pipe, and what was written into it."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self._size = fcntl.fcntl(self.writer, fcntl.F_GETPIPE_SZ)

    def fill(self) -> None:
        os.write(self.writer, b"." * self._size)

    def read(self) -> str:
        """All that is in it."""
        os.set_blocking(self._reader, False)
        return os.read(self._reader, 2 * self._size).decode()

    def close(self) -> None:
        os.close(self._reader)
        os.close(self.writer)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def a_line(words: str) -> logging.LogRecord:
    return logging.makeLogRecord({"levelname": "INFO", "msg": words})


def test_lines_without_room_are_left_out_and_counted(pipe: Pipe):
    lines = Lines(Outlet(pipe.writer))
    lines.setFormatter(TextLines())
    pipe.fill()
    for _ in range(3):
        lines.emit(a_line("lost"))
    pipe.read()

    lines.emit(a_line("heard"))
    lines.emit(a_line("heard again"))

    told = [line[9:] for line in pipe.read().splitlines()]
    assert told == ["warning log lines left out lines=3", "info heard", "info heard again"]


def test_a_line_that_was_cut_short_does_not_run_into_the_next(pipe: Pipe):
    outlet = Outlet(pipe.writer)
    outlet.write("a" * 1_000_000 + "\n")
    first = pipe.read()

    outlet.write("whole\n")

    assert set(first) == {"a"}
    assert pipe.read() == "\nwhole\n"
