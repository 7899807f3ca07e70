"""The workers of a store that run on this machine, and how to hit one of them.

A session says which process it belongs to, by the name of its worker: host and process id. The
number alone could be another program's by now. So a process has to be older than its session,
and signals go through a descriptor of it (pidfd), which can never mean another one.
"""

import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longshore.contract import SessionView
from longshore.errors import ConfigError, NotFoundError

__all__ = ["Victim", "chosen", "hit", "on_this_machine"]

_SECOND = 1_000_000
_DRIFT = 60.0
"""Seconds by which the clocks of this machine and of the store may differ."""
_ENDED = "ZX"
"""States of a process that has ended, and whose parent has not asked how: it takes signals."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A worker that may be hit."""

    worker: str
    pid: int
    session: int
    holding: int


def on_this_machine(
    sessions: Sequence[SessionView], *, host: str | None = None
) -> tuple[list[Victim], list[str]]:
    """Whom we may signal, and for every other worker why not."""
    if sys.platform != "linux":
        raise ConfigError("only on Linux can a process be told from another of its number")
    here = host or socket.gethostname()
    victims: list[Victim] = []
    reasons: list[str] = []
    for one in sessions:
        pid, why = _process_of(one, here)
        if pid is None:
            reasons.append(f"{one.worker}: {why}")
        else:
            victims.append(Victim(one.worker, pid, one.token, one.holding))
    return victims, reasons


def chosen(victims: Sequence[Victim], reasons: Sequence[str], worker: str | None) -> Victim:
    """The one that is named; without a name the first. NotFoundError if there is none."""
    for one in victims:
        if worker in (None, one.worker, str(one.pid)):
            return one
    wanted = "no worker of this store" if worker is None else f"no worker {worker!r}"
    listed = "; ".join(reasons) or "the store lists no worker at all"
    raise NotFoundError(f"{wanted} can be hit from here ({listed})")


def hit(victim: Victim, number: signal.Signals, *, since: int) -> None:
    """Signal the process of a session that was opened then; NotFoundError if it is gone."""
    try:
        process = os.pidfd_open(victim.pid)
    except OSError as error:
        raise NotFoundError(f"{victim.worker} is gone") from error
    try:
        # Looked at again, now that the descriptor holds on to it.
        if not _is_older(victim.pid, since):
            raise NotFoundError(f"{victim.worker} is gone, and its number is another's")
        signal.pidfd_send_signal(process, number)
    except ProcessLookupError as error:
        raise NotFoundError(f"{victim.worker} is gone") from error
    finally:
        os.close(process)


def _process_of(session: SessionView, here: str) -> tuple[int | None, str]:
    host, _, number = session.worker.rpartition(":")
    if not host or not number.isdecimal():
        return None, "has a name of its own, which does not tell its process"
    if host != here:
        return None, "runs on another machine"
    pid = int(number)
    if pid <= 1 or pid == os.getpid() or not _is_older(pid, session.opened_at):
        return None, "its process is gone"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None, "its process is gone"
    except PermissionError:
        return None, "belongs to another user"
    return pid, ""


def _is_older(pid: int, since: int) -> bool:
    """Whether the process was there when the session was opened, and still runs."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
    except (OSError, StopIteration):
        return False
    if fields[0] in _ENDED:
        return False
    began = boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return began <= since / _SECOND + _DRIFT
