"""Processes as the system shows them: who descends from whom, and how much memory one has."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["kill_tree", "rss_bytes"]

_ROUNDS = 5


def kill_tree(pid: int) -> None:
    """Kill a process that leads its group, everyone in the group, and all its descendants.

    The caller has not reaped the process, so its number is not another's yet. Descendants
    outside the group go first, while their ancestry still shows; those who left both the group
    and their parent are not found.
    """
    # Who is stopped starts nobody new.
    _signal_group(pid, signal.SIGSTOP)
    for _ in range(_ROUNDS):
        strangers = [one for one in _descendants(pid) if _group(one) != pid]
        for one in strangers:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        if not strangers:
            break
    _signal_group(pid, signal.SIGKILL)


def rss_bytes(pid: int | None = None) -> int:
    """The memory that a process holds, or this one; 0 if the system does not tell."""
    try:
        with open(f"/proc/{pid or 'self'}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _signal_group(pid: int, number: int) -> None:
    # A process that was just started may not have reached its own group yet.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def _descendants(pid: int) -> list[int]:
    if sys.platform != "linux":
        return []
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found[1:]


def _parent(entry: Path) -> int | None:
    """The parent of a process that runs: a zombie is nobody's concern any more."""
    try:
        # The name in front may hold anything, brackets too.
        state, parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state == b"Z" else int(parent)
