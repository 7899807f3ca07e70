"""Who uses the processors of this machine, by role, read from /proc."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Processors", "role_of"]

_TICKS = os.sysconf("SC_CLK_TCK")
_ROLES = ("producer", "worker", "scheduler")


class _Process(NamedTuple):
    pid: int
    parent: int
    ticks: int


class Processors:
    """Seconds of processor since the last look, by role.

    The process that asks is the producer, for it has nothing else to do: experiments that have
    a producer of their own leave it idle. What a process used after the last look before its
    end is not seen.
    """

    def __init__(self, server: int | None) -> None:
        self._server = server
        self._own = os.getpid()
        self._seen: dict[int, int] = {}
        self._roles: dict[int, str] = {}
        self.look()

    def look(self) -> dict[str, float]:
        """Seconds by role, since this was asked last."""
        found = {one.pid: one for one in _processes()}
        used: dict[str, float] = {}
        for one in found.values():
            role = self._role(one, found)
            if role is not None:
                before = self._seen.get(one.pid, 0)
                used[role] = used.get(role, 0.0) + (one.ticks - before) / _TICKS
        self._seen = {pid: one.ticks for pid, one in found.items()}
        self._roles = {pid: role for pid, role in self._roles.items() if pid in found}
        return used

    def _role(self, one: _Process, found: dict[int, _Process]) -> str | None:
        """None for a process that has nothing to do with it."""
        if one.pid not in self._roles:
            if self._server is not None and self._server in (one.pid, one.parent):
                self._roles[one.pid] = "server"
            elif one.pid == self._own:
                self._roles[one.pid] = "producer"
            elif self._is_ours(one, found):
                self._roles[one.pid] = role_of(_command(one.pid))
        return self._roles.get(one.pid)

    def _is_ours(self, one: _Process, found: dict[int, _Process]) -> bool:
        while one.parent in found:
            one = found[one.parent]
            if one.pid == self._own:
                return True
        return False


def role_of(command: list[str]) -> str:
    """What a process of ours is, by its command line."""
    _, _, words = (" ".join(command)).partition(" -m ")
    module, *rest = words.split(" ") if words else [""]
    if module.startswith("longshore.keeper"):
        return "worker"
    return next((one for one in rest[:1] if one in _ROLES), "other")


def _command(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return text.rstrip("\0").split("\0")


def _processes() -> Iterator[_Process]:
    for name in os.listdir("/proc") if Path("/proc/self").exists() else ():
        if name.isdecimal():
            try:
                text = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue  # it has ended since
            # The name before the last parenthesis may hold spaces; see proc(5).
            fields = text.rpartition(")")[2].split()
            yield _Process(int(name), int(fields[1]), int(fields[11]) + int(fields[12]))
