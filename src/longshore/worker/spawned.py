"""One child process as its worker sees it: started, spoken to, told to stop, killed, reaped."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import msgspec

from longshore.worker import child_protocol
from longshore.worker.own_tasks import EXIT_BROKEN
from longshore.worker.process_tree import kill_tree

__all__ = ["Process", "Spawned"]

_CHUNK = 1 << 18
_LOOK = 0.05
"""Seconds between two looks for a dead child, where the system does not tell."""
_SILENCE = 1.0
"""Seconds that a child may live on after it has closed its end of the socket."""
_HINTS = {
    "SIGKILL": "; if nobody did that, memory ran out",
    "SIGSYS": "; it sent a signal to its worker, or used a call that is forbidden here",
    f"exit code {EXIT_BROKEN}": "; it sent itself a signal, cancelled all tasks or stopped the "
    "event loop",
}


class Process(Protocol):
    """A child process of this one's."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    @property
    def returncode(self) -> int | None:
        """How it ended, as `subprocess` tells it; None before it was reaped."""
        ...

    def poll(self) -> int | None:
        """Reap it if it has ended; its return code."""
        ...


class Spawned:
    """An interpreter in a session of its own, at the other end of a socket.

    `on_message` and `on_gone` are called on the loop; `on_gone` once, when the process has
    ended and everything it had sent was read. Its standard output and error are the worker's.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        start: Callable[[int, int], Process],
        *,
        on_message: Callable[["Spawned", child_protocol.FromChild], None],
        on_gone: Callable[["Spawned"], None],
    ) -> None:
        """`start` gets its socket and lifeline. OSError if the system gives no process."""
        self._loop = loop
        self._on_message = on_message
        self._on_gone = on_gone
        self._frames = child_protocol.Frames()
        self._unsent = bytearray()
        self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._pidfd: int | None = None
        self.was_reset = False
        """It ended with something unread: an order that it had not begun."""
        self.is_gone = False
        self._socket, theirs = socket.socketpair()
        line, self._lifeline = os.pipe()
        try:
            self._process = start(theirs.fileno(), line)
        except OSError:
            self._socket.close()
            os.close(self._lifeline)
            raise
        finally:
            theirs.close()
            os.close(line)
        # The first is of the stand-in, which leads the group of all that the child consists of;
        # the second, once it is ready, of the process in which handlers run.
        self.pid = self.runs_as = self._process.pid
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._read)
        self._watch()

    def send(self, message: child_protocol.ToChild) -> None:
        """Have it sent, now or as fast as the child reads."""
        self._unsent += child_protocol.encode(message)
        self._write()

    def terminate(self) -> None:
        """Tell it to stop what it does."""
        # Not through Popen, which would look whether it still runs, and reap it.
        if not self.is_gone:
            os.kill(self.pid, signal.SIGTERM)

    def leave(self, patience: float) -> None:
        """Let it end by itself, for so many seconds."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self.kill_after(patience)

    def kill_after(self, seconds: float) -> None:
        """Kill it then, if it is still there. The first such deadline stands."""
        if self._timer is None and not self.is_gone:
            self._timer = self._loop.call_later(seconds, self.kill)

    def hurry(self, seconds: float) -> None:
        """Kill it then, whatever was said before."""
        self.spare()
        self.kill_after(seconds)

    def spare(self) -> None:
        """Forget that deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def kill(self) -> None:
        """Kill it, and whatever it has started."""
        if not self.is_gone:
            kill_tree(self.pid)

    @property
    def epitaph(self) -> str:
        """How the process ended, for people."""
        code = self._process.returncode
        if code is None:
            return "its process ended"
        if code >= 0:
            how = f"exit code {code}"
            return f"its process left with {how}{_HINTS.get(how, '')}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"its process was killed by {name}{_HINTS.get(name, '')}"

    def _write(self) -> None:
        try:
            sent = self._socket.send(self._unsent) if self._unsent else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            # It is dead or dying; its end tells the rest.
            self._unsent.clear()
            self.was_reset = True
            sent = 0
        del self._unsent[:sent]
        if self._unsent and not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._socket, self._write)
        elif self._is_writing and not self._unsent:
            self._is_writing = False
            self._loop.remove_writer(self._socket)

    def _read(self) -> bool:
        """Take what is there; False if there was nothing, or there will be nothing more."""
        try:
            chunk = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            self.was_reset = True
            chunk = b""
        if not chunk:
            self._loop.remove_reader(self._socket)
            # It has closed its end: either it is about to die, or it cannot answer.
            self.kill_after(_SILENCE)
            return False
        try:
            for body in self._frames.feed(chunk):
                self._on_message(self, child_protocol.decode_report(body))
        except (ValueError, msgspec.DecodeError):
            # Someone else has written into the socket; nothing it says can be trusted now.
            self._loop.remove_reader(self._socket)
            self.kill()
            return False
        return True

    def _watch(self) -> None:
        if sys.platform == "linux":
            with suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)
        if self._pidfd is None:
            self._loop.call_later(_LOOK, self._look)
        else:
            self._loop.add_reader(self._pidfd, self._ended)

    def _look(self) -> None:
        try:
            done = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            done = self
        if done is None:
            self._loop.call_later(_LOOK, self._look)
        else:
            self._ended()

    def _ended(self) -> None:
        """It is dead, but not yet reaped: its number still names its group."""
        while self._read():
            pass
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.poll()
        self._release()
        self.is_gone = True
        self._on_gone(self)

    def _release(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        os.close(self._lifeline)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self.spare()
