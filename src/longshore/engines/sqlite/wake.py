"""Wake-ups between processes: a datagram socket per waiting process, beside the file.

SQLite cannot notify. Whoever commits ready jobs sends one byte to every socket in the folder;
a lost byte costs at most one poll. A socket whose process is gone is removed by the first
sender that meets it.
"""

import asyncio
import hashlib
import os
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["Waker", "wake_folder"]

_LONGEST_ADDRESS = 100
"""A Unix socket's address has room for 107 bytes on Linux and 103 elsewhere."""


class Waker:
    """Lets sessions wait for work, and tells the waiting ones of other processes."""

    def __init__(self, path: str) -> None:
        self._folder = None if path == ":memory:" else wake_folder(path)
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()
        self._lock = threading.Lock()
        self._listener: tuple[socket.socket, Path, asyncio.AbstractEventLoop] | None = None
        self._sender: socket.socket | None = None

    async def wait(self, seconds: float) -> None:
        """Return at the next wake-up, after `seconds` at the latest."""
        self._listen()
        loop = asyncio.get_running_loop()
        waiter = (loop, loop.create_future())
        alarm = loop.call_later(seconds, _end, waiter[1])
        with self._lock:
            self._waiters.add(waiter)
        try:
            await waiter[1]
        finally:
            alarm.cancel()
            with self._lock:
                self._waiters.discard(waiter)

    def wake(self) -> None:
        """Something is ready. Called from any thread, after the commit."""
        self._wake_here()
        if self._folder is not None:
            self._wake_others(self._folder)

    def close(self) -> None:
        """Stop listening. Safe to call twice."""
        listener, self._listener = self._listener, None
        if listener is not None:
            receiver, address, loop = listener
            if not loop.is_closed():
                loop.remove_reader(receiver.fileno())
            receiver.close()
            address.unlink(missing_ok=True)
            with suppress(OSError):  # others still listen there
                address.parent.rmdir()
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    def _wake_here(self, here: asyncio.AbstractEventLoop | None = None) -> None:
        """Wake those who wait in this process; `here` is the loop of the calling thread."""
        with self._lock:
            waiters = list(self._waiters)
        for loop, waiter in waiters:
            if loop is here:
                _end(waiter)
            else:
                with suppress(RuntimeError):  # its loop was closed meanwhile
                    loop.call_soon_threadsafe(_end, waiter)

    def _wake_others(self, folder: Path) -> None:
        if self._sender is None:
            self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sender.setblocking(False)
        own = self._listener[1].name if self._listener else None
        with suppress(FileNotFoundError):
            for name in os.listdir(folder):
                if name != own:
                    self._send(self._sender, folder / name)

    def _send(self, sender: socket.socket, address: Path) -> None:
        try:
            sender.sendto(b"!", str(address))
        except (BlockingIOError, FileNotFoundError, PermissionError):
            return  # it has wake-ups enough, or left
        except OSError:
            address.unlink(missing_ok=True)

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        if self._folder is None or (self._listener and self._listener[2] is loop):
            return
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setblocking(False)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        address = self._folder / f"{os.getpid()}-{id(self):x}"
        address.unlink(missing_ok=True)
        try:
            receiver.bind(str(address))
        except OSError:
            receiver.close()  # no place for a socket here: polling has to do
            self._folder = None
            return
        loop.add_reader(receiver.fileno(), self._receive, receiver)
        self._listener = (receiver, address, loop)

    def _receive(self, receiver: socket.socket) -> None:
        with suppress(BlockingIOError):
            while receiver.recv(64):
                pass
        self._wake_here(asyncio.get_running_loop())


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def wake_folder(path: str) -> Path:
    """Where the sockets of this file's waiting processes are."""
    real = Path(os.path.realpath(path))
    beside = real.with_name(real.name + "-wake")
    if len(str(beside)) + 32 <= _LONGEST_ADDRESS:
        return beside
    digest = hashlib.sha256(str(real).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"longshore-{digest}-wake"
