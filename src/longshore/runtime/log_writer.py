"""Lines to a pipe or terminal that nobody may read: who writes them is not held up."""

import os
import select

__all__ = ["Outlet"]

_PATIENCE_MS = 200
"""How long a line waits for a reader that was not late before."""


class Outlet:
    """A stream of lines to a descriptor. Those for which there is no room are left out.

    A reader that lags is waited for once; after that, until there is room again, each line
    costs one question. The descriptor stays as it is: others write to the same pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._is_cut = False
        """The last line that was begun has no end."""
        self.left_out = 0
        """Lines since the last for which there was room."""

    def has_room(self) -> bool:
        """Whether a short line would be written at once."""
        return bool(self._poll.poll(0))

    def write(self, line: str) -> None:
        """Write the line, or leave it out: the rest of it, where it was begun."""
        text = f"\n{line}" if self._is_cut else line
        rest = memoryview(text.encode(errors="backslashreplace"))
        while rest:
            # Where there is room for anything, there is for so much.
            if not self._poll.poll(0 if self.left_out else _PATIENCE_MS):
                self.left_out += 1
                return
            written = os.write(self._descriptor, rest[: select.PIPE_BUF])
            self._is_cut = written < len(rest)
            rest = rest[written:]
        self.left_out = 0
