"""What the first process of a container owes the others, when a worker is that process.

The kernel hands orphans to process 1, which has to reap them, gives it no signal that it does
not ask for, and kills everyone when it ends. So process 1 does nothing else: it forks at once,
and the worker is its child. What the worker leaves behind, a keeper that reports its death
above all, may finish before the container is gone.
"""

import os
import signal
import time
from contextlib import suppress
from types import FrameType

__all__ = ["step_aside", "step_aside_if_first"]

_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_WAKING = (*_FORWARDED, signal.SIGCHLD)
_LINGER = 5.0
"""Seconds that others have after the worker's end. A keeper needs some milliseconds, if its
store can be reached."""


def step_aside_if_first() -> None:
    """As process 1, go on in a child; anywhere else, nothing."""
    if os.getpid() == 1:
        step_aside()


def step_aside() -> None:
    """Return in a child. Its parent forwards signals, reaps, and ends with the child's code.

    To be called before there are threads. The child has a group of its own, so that Ctrl-C in
    a terminal reaches it once, from its parent.
    """
    # Blocked in both until each is set up, so that none is lost to a default.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAKING)
    child = os.fork()
    if child:
        os._exit(_stand_by(child))
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stand_by(child: int) -> int:
    # Without a handler the kernel would drop some of these, and SIGCHLD, before they are seen.
    for number in _WAKING:
        signal.signal(number, _note)
    code: int | None = None
    ends = float("inf")
    while time.monotonic() < ends:
        left = min(ends - time.monotonic(), _LINGER)
        found = signal.sigtimedwait(_WAKING, max(left, 0.0))
        if found is not None and found.si_signo in _FORWARDED and code is None:
            with suppress(ProcessLookupError):
                os.kill(child, found.si_signo)
        ended, is_alone = _reap()
        if child in ended:
            code, ends = ended[child], time.monotonic() + _LINGER
        if code is not None and is_alone:
            break
    return 0 if code is None else code


def _reap() -> tuple[dict[int, int], bool]:
    """Everyone who has ended, by process, as a shell would tell their codes; if all have."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(found[1])
            ended[found[0]] = 128 - code if code < 0 else code
        return ended, False
    return ended, True


def _note(_: int, __: FrameType | None) -> None:
    """Never called: the signals are blocked, and waited for."""
