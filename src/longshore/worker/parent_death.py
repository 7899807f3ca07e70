"""No child process outlives its worker, however that ends.

The worker holds one end of a pipe into which nobody writes. When the worker is gone, the kernel
closes that end and, having been told so beforehand, kills everyone in the group of whoever
holds the other: the child and what it has started, even while the child runs C code that never
comes back. Where the kernel has no such service, a thread of the child waits for the end.
"""

import ctypes
import fcntl
import os
import select
import signal
import sys
import threading

__all__ = ["follow", "hold"]

_PR_SET_PDEATHSIG = 1


def hold(fd: int, parent: int) -> None:
    """Have this process and its group killed when the other end of the pipe is closed.

    Nobody else may be in its group but what it has started, or who started it for this; and
    `parent` has to be the process that started it.
    """
    if not _ask_kernel(fd):
        threading.Thread(target=_await_end, args=(fd,), daemon=True).start()
    # The kernel tells of what happens from now on; the worker may have gone before.
    if os.getppid() != parent or select.select([fd], [], [], 0)[0]:
        _kill_group()


def follow(parent: int) -> None:
    """Have this process killed when the one that started it ends. Linux only."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _ask_kernel(fd: int) -> bool:
    if sys.platform != "linux":
        return False
    # A second way, because a process that the worker forked without exec keeps the pipe open.
    # Not SIGKILL, which would come first (a worker's threads die one by one, and its files are
    # closed with the last), and would leave the rest of the group alone.
    signal.signal(signal.SIGRTMAX, _kill_group)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGRTMAX)
    try:
        fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:
        return False
    return True


def _await_end(fd: int) -> None:
    os.read(fd, 1)
    _kill_group()


def _kill_group(*_: object) -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)
