"""Tells the waiting processes of others that there is work, or something to cancel."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["CANCEL", "WORK", "Herald"]

WORK = b"!"
"""Jobs are ready."""
CANCEL = b"x"
"""Running jobs are to be cancelled."""

_COARSE = 0.05
"""Seconds. Two changes of a folder may bear the same time, if they are this close."""


class Herald:
    """Sends one byte, which says why, to every socket in the folder.

    For the writer's thread alone. Nothing here fails a call: whoever is not told looks for work
    at the next poll.
    """

    def __init__(self, folder: Path, own: Callable[[], set[str]]) -> None:
        self._folder = str(folder)
        self._own = own
        """Names of the sockets of this process, which need no telling."""
        self._names: frozenset[str] = frozenset()
        self._changed_at = 0
        """By the file system, when the folder had these names."""
        self._seen_at = 0.0
        self._is_sure = False
        """No change since can bear the same time."""
        self._sender: socket.socket | None = None

    def tell(self, why: bytes = WORK) -> None:
        """Wake the others."""
        with suppress(OSError):  # nobody ever waited, or we may not look
            self._look()
            if self._names:
                sender = self._sender = self._sender or _open()
                for name in self._names - self._own():
                    self._send(sender, name, why)

    def close(self) -> None:
        """Let go of the socket. Safe to call twice."""
        if self._sender is not None:
            self._sender.close()
            self._sender = None

    def _look(self) -> None:
        """Read the folder again if it may have changed; mostly it has not."""
        changed_at, now = os.stat(self._folder).st_mtime_ns, time.monotonic()
        is_changed = changed_at != self._changed_at
        if self._is_sure and not is_changed:
            return
        self._names = frozenset(os.listdir(self._folder))
        self._changed_at = changed_at
        self._seen_at = now if is_changed else self._seen_at
        self._is_sure = now - self._seen_at > _COARSE

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
