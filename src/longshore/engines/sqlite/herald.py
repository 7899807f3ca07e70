"""Tells the waiting processes of others that there is work: a thread that sends wake-ups.

The writer asks for them before it commits, while it holds the write lock. So the others get up
while the disk is busy, and whoever gets up early waits for the lock and then finds the work.
Sent by the writer itself at that moment they gain nothing, for the commit takes as much longer
(docs/experiments/e01-sqlite-end-to-end.md).
"""

import os
import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["CANCEL", "WORK", "Herald"]

WORK = b"!"
"""Jobs are ready."""
CANCEL = b"x"
"""Running jobs are to be cancelled."""

_LONGEST_CLOSE = 1.0


class Herald:
    """Sends one byte, which says why, to every socket in the folder, when it is asked to.

    Nothing here fails a call: whoever is not told looks for work at the next poll.
    """

    def __init__(self, folder: Path, own: Callable[[], set[str]]) -> None:
        self._folder = str(folder)
        self._own = own
        """Names of the sockets of this process, which need no telling."""
        self._known: frozenset[str] = frozenset()
        """The sockets that others had at the last look."""
        self._asked: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._is_asked: set[bytes] = set()
        self._thread: threading.Thread | None = None

    def tell(self, why: bytes = WORK) -> None:
        """Wake the others soon. Called by the writer's thread, and returns at once."""
        if why in self._is_asked:
            return
        self._is_asked.add(why)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="longshore-sqlite-herald", daemon=True
            )
            try:
                self._thread.start()
            except RuntimeError:  # no room for a thread: polling has to do, until the next
                self._thread = None
                self._is_asked.clear()
                return
        self._asked.put(why)

    def close(self) -> None:
        """Send what was asked for, and end. Safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._asked.put(None)
            thread.join(_LONGEST_CLOSE)

    def _run(self) -> None:
        sender: socket.socket | None = None
        while (why := self._asked.get()) is not None:
            # Before the look: what is asked for from now on needs another.
            self._is_asked.discard(why)
            with suppress(OSError):  # nobody ever waited, or we may not look
                sender = sender or _open()
                self._tell_all(sender, why)
        if sender is not None:
            sender.close()

    def _tell_all(self, sender: socket.socket, why: bytes) -> None:
        known = self._known
        for name in known:  # first, for the look takes longer than their wake-up
            self._send(sender, name, why)
        self._known = frozenset(os.listdir(self._folder)) - self._own()
        for name in self._known - known:
            self._send(sender, name, why)

    def _send(self, sender: socket.socket, name: str, why: bytes) -> None:
        address = f"{self._folder}/{name}"
        try:
            sender.sendto(why, address)
        except ConnectionRefusedError:  # its process is gone
            with suppress(OSError):
                os.unlink(address)
        except OSError:
            return  # it has wake-ups enough, left, or is not ours to wake


def _open() -> socket.socket:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.setblocking(False)
    return sender
