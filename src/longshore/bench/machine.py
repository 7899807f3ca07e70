"""What the host took away: on a shared machine a figure is as good as the time it was given."""

from pathlib import Path

import msgspec

__all__ = ["Hours"]

_IDLE, _WAITING, _STOLEN = 3, 4, 7
_KINDS = 8
"""user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already."""


class Hours(msgspec.Struct, frozen=True):
    """The time of all processors since the machine was started, in ticks."""

    total: int
    idle: int
    stolen: int

    @classmethod
    def now(cls) -> "Hours | None":
        """As it is now; None where it is not told."""
        try:
            fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
        except OSError:
            return None
        ticks = [int(one) for one in fields[:_KINDS]]
        if len(ticks) < _KINDS:
            return None
        return cls(sum(ticks), ticks[_IDLE] + ticks[_WAITING], ticks[_STOLEN])

    def stolen_since(self, before: "Hours") -> float:
        """Of the time that anybody here wanted to run, the share that the host gave away.

        Idle time is left out: nobody can steal what nobody wants, and an idle benchmark would
        look as if it had had the whole machine.
        """
        wanted = (self.total - before.total) - (self.idle - before.idle)
        return round((self.stolen - before.stolen) / wanted, 3) if wanted > 0 else 0.0
