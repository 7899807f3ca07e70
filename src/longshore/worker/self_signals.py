"""Refuses SIGTERM and SIGINT that a job sends to the process of its own worker.

Such a signal looks like an operator's stop: the worker would drain, release the job uncharged,
and the next worker would start it. Python raises an audit event before it sends a signal, in
the context of whoever sends it, so a hook can tell which job that is, refuse the call and
charge the job a crash. The functions that raise no audit event are wrapped, and raise one of
ours. What C code or another process sends raises no event, and counts as sent by an operator.
"""

import _thread
import errno
import logging
import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from longshore.job_context import CURRENT
from longshore.worker.own_tasks import EXIT_BROKEN, charge_crash, end_process

__all__ = ["STOP_SIGNALS", "auditing_all_signals", "refusing_self_signals"]

log = logging.getLogger("longshore.worker")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""The signals that ask a worker to stop, or a child process to stop its job."""
_OURS = "longshore.kill"
"""Audit event with the arguments of `os.kill`, for functions that Python raises none for."""
_EVERYONE = -1

_TARGETS: dict[str, Callable[[int], int]] = {
    "os.kill": lambda pid: pid,
    "os.killpg": lambda group: -group,
    "signal.pthread_kill": lambda _: os.getpid(),
    _OURS: lambda pid: pid,
}
"""For each audit event, what its first argument means as the first argument of `os.kill`."""


class _Guard:
    """Whether the audit hook is installed, which is for good, and where it refuses signals."""

    is_installed = False
    pid = 0
    """The process that jobs may not signal; 0: none. A process that a job forks is another."""


@contextmanager
def refusing_self_signals() -> Generator[None]:
    """Inside the block, refuse the stop signals that this process sends to itself.

    A job that sends one gets a PermissionError and is charged a crash. If no job is known,
    because a thread without context sends it, the process ends with `EXIT_BROKEN`. Only for a
    process of Longshore's own: an audit hook cannot be removed, and other programs may signal
    themselves.
    """
    if not _Guard.is_installed:
        _Guard.is_installed = True
        sys.addaudithook(_audit)
    before, _Guard.pid = _Guard.pid, os.getpid()
    try:
        yield
    finally:
        _Guard.pid = before


@contextmanager
def auditing_all_signals() -> Generator[None]:
    """Inside the block, the functions that send signals unaudited raise an audit event first.

    To be entered before an app is imported, since the app may import the functions by name.
    What it has imported so can still be called after the block.
    """
    originals = {
        (module, name): getattr(module, name)
        for module, name in _UNAUDITED
        if hasattr(module, name)
    }
    for (module, name), original in originals.items():
        setattr(module, name, wraps(original)(_UNAUDITED[module, name](original)))
    try:
        yield
    finally:
        for (module, name), original in originals.items():
            setattr(module, name, original)


def _audited_raise_signal(send: Callable[[int], None]) -> Callable[[int], None]:
    def raise_signal(number: int, /) -> None:
        sys.audit(_OURS, os.getpid(), number)
        send(number)

    return raise_signal


def _audited_interrupt_main(send: Callable[[int], None]) -> Callable[[int], None]:
    def interrupt_main(number: int = signal.SIGINT, /) -> None:
        sys.audit(_OURS, os.getpid(), number)
        send(number)

    return interrupt_main


def _audited_pidfd_send_signal(send: Callable[..., None]) -> Callable[..., None]:
    def pidfd_send_signal(pidfd: int, number: int, *more: Any) -> None:
        pid = _process_of(pidfd)
        if pid is not None:
            sys.audit(_OURS, pid, number)
        send(pidfd, number, *more)

    return pidfd_send_signal


_UNAUDITED: dict[tuple[ModuleType, str], Callable[..., Callable[..., None]]] = {
    (signal, "raise_signal"): _audited_raise_signal,
    (signal, "pidfd_send_signal"): _audited_pidfd_send_signal,
    (_thread, "interrupt_main"): _audited_interrupt_main,
}
"""The functions of Python that send a signal and raise no audit event, and their wrappers."""


def _process_of(pidfd: int) -> int | None:
    """The process that a descriptor refers to; None if it is no descriptor of a process."""
    try:
        lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
    except OSError:
        return None
    return next((int(one[4:]) for one in lines if one.startswith("Pid:")), None)


def _audit(event: str, arguments: Sequence[Any]) -> None:
    """The audit hook. Called for every event of the process, so it returns early."""
    if event not in _TARGETS:
        return
    target, number = _TARGETS[event](arguments[0]), arguments[1]
    if number in STOP_SIGNALS and _Guard.pid == os.getpid() and _reaches_us(target):
        _refuse(signal.Signals(number).name)


def _reaches_us(target: int) -> bool:
    """Whether `os.kill` with this first argument signals this process, or all there are."""
    return target in (os.getpid(), 0, -os.getpgrp(), _EVERYONE)


def _refuse(name: str) -> None:
    if charge_crash(CURRENT.get()):
        raise PermissionError(errno.EPERM, f"a job may not send its own worker {name}")
    log.critical("a thread sent its own worker a signal, process ended", extra={"signal": name})
    end_process(EXIT_BROKEN)
