"""Wake-ups between processes: a datagram socket per waiting process, beside the file.

SQLite cannot notify. Whoever commits ready jobs, or asks for running ones to stop, sends one
byte to every socket in the folder (herald.py); a lost byte costs at most one poll. A socket
whose process is gone is removed by the first sender that meets it.

Nothing here may fail a call: where there is no room for a socket, polling has to do, until the
next wait tries again.
"""

import asyncio
import hashlib
import os
import secrets
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from longshore.engines.sqlite.peer_notify import CANCEL, WORK, Herald

__all__ = ["Waker", "wake_folder"]

_Listener = tuple[socket.socket, Path]
_Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Future[bool]]
_TRIES = 200
"""Of making the folder and a socket in it, some 20 µs each, while another process leaves and
removes the folder in between. On a busy machine twenty in a row were lost once."""
_LONGEST_ADDRESS = 100
"""A Unix socket's address has room for 107 bytes on Linux and 103 elsewhere."""


class Waker:
    """Lets sessions wait for work, and tells the waiting ones of other processes."""

    def __init__(self, path: str) -> None:
        self._folder = None if path == ":memory:" else wake_folder(path)
        self._waiters: dict[bytes, dict[_Waiter, None]] = {WORK: {}, CANCEL: {}}
        """By what they wait for, in the order in which they came."""
        self._lock = threading.Lock()
        self._listeners: dict[asyncio.AbstractEventLoop, _Listener] = {}
        self._herald = None if self._folder is None else Herald(self._folder, self._own)
        self._proven: socket.socket | None = None
        """The socket that a wake-up came through since the last wait: it is still in place."""
        self._rings = 0

    def mark(self) -> int:
        """Now, for `wait_since`, which misses nothing from then on."""
        return self._rings if self._is_listening else -1

    async def wait(self, seconds: float, why: bytes = WORK) -> None:
        """Return at the next wake-up of this kind, after `seconds` at the latest."""
        self._listen()
        await self._wait(seconds, why, asyncio.get_running_loop().create_future())

    async def wait_since(
        self, mark: int, seconds: float, waiter: "asyncio.Future[bool]"
    ) -> bool:
        """Whether there was a wake-up for work since the mark, or within `seconds`.

        Whoever ends the waiter before, by True or False, decides.
        """
        self._listen()
        return await self._wait(seconds, WORK, waiter, mark if self._is_listening else None)

    @property
    def _is_listening(self) -> bool:
        return self._folder is None or asyncio.get_running_loop() in self._listeners

    async def _wait(
        self,
        seconds: float,
        why: bytes,
        future: "asyncio.Future[bool]",
        mark: int | None = None,
    ) -> bool:
        loop = asyncio.get_running_loop()
        waiter = (loop, future)
        with self._lock:
            if mark is not None and mark != self._rings:
                return True
            self._waiters[why][waiter] = None
        alarm = loop.call_later(seconds, _end, future, False)
        try:
            return await future
        finally:
            alarm.cancel()
            with self._lock:
                self._waiters[why].pop(waiter, None)

    def wake(self, why: bytes = WORK) -> None:
        """Something is there to do, or will be with the commit that is about to be made.

        Called by the writer's thread while it holds the write lock: whoever looks for work
        waits for the lock, and so finds what the commit brings.
        """
        self._wake_here(why)
        if self._herald is not None:
            self._herald.tell(why)

    def close(self) -> None:
        """Stop listening. Safe to call twice."""
        for loop in list(self._listeners):
            self._stop(loop)
        if self._herald is not None:
            self._herald.close()

    def _own(self) -> set[str]:
        return {address.name for _, address in list(self._listeners.values())}

    def _wake_here(self, why: bytes, here: asyncio.AbstractEventLoop | None = None) -> None:
        """Wake those who wait in this process; `here` is the loop of the calling thread."""
        with self._lock:
            self._rings += why == WORK
            waiters = list(self._waiters.get(why, ()))
        for loop, waiter in waiters:
            if loop is here:
                _end(waiter)
            else:
                with suppress(RuntimeError):  # its loop was closed meanwhile
                    loop.call_soon_threadsafe(_end, waiter)

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        if self._folder is None:
            return
        listener = self._listeners.get(loop)
        proven, self._proven = self._proven, None
        if listener is not None and (listener[0] is proven or listener[1].exists()):
            return
        for old in list(self._listeners):
            if old is loop or old.is_closed():
                self._stop(old)
        with suppress(OSError):
            receiver, address = _bind(self._folder)
            loop.add_reader(receiver.fileno(), self._receive, receiver)
            self._listeners[loop] = (receiver, address)
            with self._lock:
                self._rings += 1  # for what came while nobody listened

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        receiver, address = self._listeners.pop(loop)
        with suppress(OSError):
            address.unlink()
            address.parent.rmdir()  # unless others still listen there
        if loop is asyncio.get_running_loop():
            _close(loop, receiver)
            return
        try:
            # In its own thread: the loop may be looking at the socket right now.
            loop.call_soon_threadsafe(_close, loop, receiver)
        except RuntimeError:  # the loop is closed
            receiver.close()

    def _receive(self, receiver: socket.socket) -> None:
        why = WORK
        with suppress(BlockingIOError):
            # One at a time: the loop calls again if there is more, and usually there is not.
            why = receiver.recv(64)
            self._proven = receiver
        self._wake_here(why, asyncio.get_running_loop())


def _bind(folder: Path) -> _Listener:
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)
    address = folder / f"{os.getpid()}-{secrets.token_hex(4)}"
    try:
        for tries_left in reversed(range(_TRIES)):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                receiver.bind(str(address))
                break
            except (FileNotFoundError, FileExistsError):
                # Whoever left last removed the folder just now; or it never was a folder.
                if not tries_left:
                    raise
    except OSError:
        receiver.close()
        raise
    return receiver, address


def _close(loop: asyncio.AbstractEventLoop, receiver: socket.socket) -> None:
    loop.remove_reader(receiver.fileno())
    receiver.close()


def _end(waiter: asyncio.Future[bool], is_rung: bool = True) -> None:
    if not waiter.done():
        waiter.set_result(is_rung)


def wake_folder(path: str) -> Path:
    """Where the sockets of this file's waiting processes are."""
    real = Path(os.path.realpath(path))
    beside = real.with_name(real.name + "-wake")
    if len(str(beside)) + 32 <= _LONGEST_ADDRESS:
        return beside
    digest = hashlib.sha256(str(real).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"longshore-{digest}-wake"
