"""A process from which child processes are forked: it has imported what each of them needs.

Started by `worker.starter` as `python -m longshore.worker.fork_server SOCKET WORKER`. It has
imported Longshore and no app: what an app opens or starts while it is imported, every child
has to itself. Nothing else ever happens here, so a fork of this is as good as an interpreter
that was started, and is there in a fraction of the time. What is forked has the worker for its
parent, as if that had started it.
"""

import ctypes
import gc
import os
import platform
import signal
import socket
import struct
import sys
from importlib import import_module

from longshore.worker import child_reaper, parent_death

__all__ = ["ANSWER", "READY", "is_possible", "main"]

READY = b"ready"
ANSWER = struct.Struct("@i")
"""The number of the process that was forked; 0 where the kernel refused."""

_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT = 0x8000
_IMPORTED = ("longshore.worker.child", "longshore.app")
"""By name: an app is above its worker, and is what every child imports first."""
_IDLE = 60.0
"""Seconds without a fork, after which this process is not worth its memory."""


def is_possible() -> bool:
    """Whether such a process can be on this system."""
    return sys.platform == "linux" and platform.machine() in _CLONE


def main() -> None:
    """Fork as often as the worker asks; in what was forked, be its child."""
    connection, worker = map(int, sys.argv[1:3])
    del sys.argv[1:]
    parent_death.follow(worker)
    requests = socket.socket(fileno=connection)
    for name in _IMPORTED:
        import_module(name)
    # What is never collected is never written to, and stays shared.
    gc.collect()
    gc.freeze()
    requests.send(READY)
    requests.settimeout(_IDLE)
    while fds := _next(requests):
        pid = _clone()
        if pid == 0:
            # Before anybody knows of it, so that whoever kills its group finds it there.
            os.setsid()
            requests.send(ANSWER.pack(os.getpid()))
            requests.close()
            child_reaper.stand_in(*fds, worker)
            return
        for fd in fds:
            os.close(fd)
        if pid < 0:
            requests.send(ANSWER.pack(0))


def _next(requests: socket.socket) -> tuple[int, int] | None:
    """The socket and the lifeline of the next child; None when there will be no more."""
    try:
        message, fds, _, _ = socket.recv_fds(requests, 1, 2)
    except TimeoutError:
        return None
    return (fds[0], fds[1]) if message else None


def _clone() -> int:
    """Fork, but a sibling: 0 there, and its number here, or less than 0.

    As `os.fork` it would do nothing of what Python does after one. There is one thread and no
    lock is held, and the sibling does little before a real fork: see `worker.child_reaper`.
    """
    number, flags = _CLONE[platform.machine()], _CLONE_PARENT | signal.SIGCHLD
    # Not CDLL, which would let go of the interpreter.
    return ctypes.PyDLL(None).syscall(number, flags, 0, 0, 0, 0)


if __name__ == "__main__":
    main()
