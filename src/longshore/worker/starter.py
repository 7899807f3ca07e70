"""How the child processes of a worker come to be: as fresh interpreters, or forks of one."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from longshore.worker import child_protocol, fork_server
from longshore.worker.spawned import Process, Spawned

__all__ = ["Start", "Starter"]

_PATIENCE = 2.0
"""Seconds in which a fork has to be there; it takes a few thousandths of one."""


class Start(Protocol):
    """Starts one child process."""

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_message: Callable[[Spawned, child_protocol.FromChild], None],
        on_gone: Callable[[Spawned], None],
    ) -> Spawned:
        """A child that was told its setup, and is not ready yet. OSError if there is none."""
        ...


class Starter:
    """Starts child processes for one worker.

    A worker whose children live long never pays for a template. One that has started more
    of them than can be there at once has lost some, and will lose more.
    """

    def __init__(self, most: int) -> None:
        """`most` children may be there at once."""
        self._fresh_ones_left = most
        self._template: _Template | None = None
        self._is_possible = fork_server.is_possible()

    def of(self, setup: child_protocol.Setup) -> Start:
        """What starts children with this setup."""

        def start(
            loop: asyncio.AbstractEventLoop,
            *,
            on_message: Callable[[Spawned, child_protocol.FromChild], None],
            on_gone: Callable[[Spawned], None],
        ) -> Spawned:
            child = Spawned(loop, self._start, on_message=on_message, on_gone=on_gone)
            child.send(setup)
            return child

        return start

    def close(self) -> None:
        """End the template, if there is one."""
        if self._template is not None:
            self._template.close()
            self._template = None

    def _start(self, connection: int, line: int) -> Process:
        pid = self._fork(connection, line) if self._is_possible else None
        if pid is not None:
            return _Forked(pid)
        module, words = "longshore.worker.child_reaper", (connection, line, os.getpid())
        return _interpreter(module, words, pass_fds=(connection, line))

    def _fork(self, connection: int, line: int) -> int | None:
        if self._template is not None and not self._template.is_current:
            self.close()
        if self._template is not None:
            return self._forked(self._template, connection, line)
        self._fresh_ones_left -= 1
        if self._fresh_ones_left < 0:
            with suppress(OSError):
                self._template = _Template()
        return None

    def _forked(self, parent: "_Template", connection: int, line: int) -> int | None:
        try:
            return parent.fork(connection, line)
        except _NoTemplateError as error:
            self.close()
            self._is_possible = error.is_for_now
            return None
        except OSError:
            self.close()
            raise


class _NoTemplateError(Exception):
    """Nothing was forked, and nothing will be."""

    def __init__(self, *, is_for_now: bool) -> None:
        super().__init__("there is no template")
        self.is_for_now = is_for_now
        """Another may do better."""


class _Template:
    """The process of that name, as its worker sees it."""

    def __init__(self) -> None:
        """OSError if the system gives no process."""
        self._is_ready = False
        self._surroundings = _surroundings()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            module, words = "longshore.worker.fork_server", (theirs.fileno(), os.getpid())
            try:
                self._process = _interpreter(module, words, pass_fds=(theirs.fileno(),))
            except OSError:
                self._socket.close()
                raise

    @property
    def is_current(self) -> bool:
        """What it forks would have the environment and the folder that the worker has now."""
        return self._surroundings == _surroundings()

    def fork(self, connection: int, line: int) -> int | None:
        """The number of a process at this connection; None while there is nobody to fork it.

        OSError where it is not known whether there is one.
        """
        if not self._is_ready and not self._becomes_ready():
            return None
        try:
            socket.send_fds(self._socket, [b"f"], [connection, line])
        except OSError as error:
            # It has left, for want of work.
            raise _NoTemplateError(is_for_now=True) from error
        self._socket.settimeout(_PATIENCE)
        answer = self._socket.recv(fork_server.ANSWER.size)
        if not answer:
            raise ConnectionError("the template of child processes ended")
        (pid,) = fork_server.ANSWER.unpack(answer)
        if not pid:
            raise _NoTemplateError(is_for_now=False)
        return pid

    def close(self) -> None:
        """End it, and wait for that."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _becomes_ready(self) -> bool:
        self._socket.settimeout(0)
        try:
            said = self._socket.recv(len(fork_server.READY))
        except BlockingIOError:
            return False
        except OSError:
            said = b""
        if not said:
            raise _NoTemplateError(is_for_now=False)
        self._is_ready = True
        return True


class _Forked:
    """A child process that somebody else has forked in this one's name."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended, as `subprocess` tells it; None as long as it has not."""
        with suppress(ChildProcessError):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _surroundings() -> tuple[dict[bytes, bytes], str | None]:
    try:
        folder = os.getcwd()
    except OSError:
        folder = None
    # Compared, and never read.
    return dict(os.environb), folder


def _interpreter(
    module: str, words: tuple[int, ...], *, pass_fds: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise OSError("an embedded interpreter has no program to start child processes with")
    # -P: a module of the user's in the working directory must not stand in for one of Python's.
    flags = ["-P", *(f"-W{one}" for one in sys.warnoptions), *["-O"] * sys.flags.optimize]
    return subprocess.Popen(
        [sys.executable, *flags, "-m", module, *map(str, words)],
        stdin=subprocess.DEVNULL,
        pass_fds=pass_fds,
        start_new_session=True,
    )
