"""Processor time of a tree of processes, read from /proc."""

import os
from pathlib import Path

__all__ = ["busy_seconds", "cpu_seconds", "descendants"]

_TICKS = os.sysconf("SC_CLK_TCK")


def descendants(root: int) -> list[int]:
    """A process and all that it and its children started, as far as they live."""
    found = [root]
    for pid in found:
        for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += [int(child) for child in tasks.read_text().split()]
            except OSError:
                continue
    return found


def cpu_seconds(roots: list[int]) -> float:
    """User and system time of the trees, with that of children which ended meanwhile."""
    return sum(_used(pid) for root in roots for pid in descendants(root))


def busy_seconds() -> float:
    """What the whole machine has worked so far, all cores together, and its host took away."""
    # user, nice, system, idle, iowait, irq, softirq, steal: see proc(5).
    fields = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    return sum(int(one) for at, one in enumerate(fields) if at not in (3, 4)) / _TICKS


def _used(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    # The name before the last parenthesis may hold spaces. Fields 14 to 17 of proc(5): own
    # user and system time, then the same of all children that were waited for.
    fields = text.rpartition(")")[2].split()
    return sum(int(one) for one in fields[11:15]) / _TICKS
