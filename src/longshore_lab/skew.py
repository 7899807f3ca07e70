"""Processes whose wall clock is wrong.

    skew = Skew.build(folder)
    wrong = skew.clock("ahead", seconds=300)
    subprocess.Popen(command, env={**os.environ, **wrong.environment})
    wrong.set(-300)

Only CLOCK_REALTIME is shifted, as a badly set machine would have it; monotonic clocks stay
true. Needs Linux and a C compiler.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from longshore.runtime.clock import SystemClock

__all__ = ["Clocks", "MachinesClock", "Skew", "SkewedClock"]

_SECOND = 1_000_000

_SOURCE = Path(__file__).with_name("skew.c")
_COMPILERS = ("cc", "gcc", "clang")
_PATIENCE = 60


@dataclass(frozen=True, slots=True)
class SkewedClock:
    """One clock, for the processes that are started with its environment."""

    library: Path
    file: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a process must have in its environment to be shown this clock."""
        return {"LD_PRELOAD": str(self.library), "SKEW_FILE": str(self.file)}

    def set(self, seconds: int) -> None:
        """Set it this far ahead of the machine's clock, at once, in running processes too."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{seconds}\n")
        # Replaced, not written to: a reader never sees it empty.
        fresh.replace(self.file)


@dataclass(frozen=True, slots=True)
class Skew:
    """The library that shifts clocks."""

    library: Path

    @classmethod
    def build(cls, folder: Path) -> "Skew | None":
        """Compile it into the folder; None where that is not possible."""
        compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
        if compiler is None or not sys.platform.startswith("linux"):
            return None
        library = folder / "skew.so"
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
        subprocess.run(command, check=True, timeout=_PATIENCE)
        return cls(library)

    def clock(self, name: str, *, seconds: int) -> SkewedClock:
        """A clock of its own, set this far ahead."""
        clock = SkewedClock(self.library, self.library.with_name(f"{name}.skew"))
        clock.set(seconds)
        return clock


class Clocks:
    """The clocks of a fleet, one for each process.

    With a `spread` they disagree: each is wrong by up to so many seconds of its own.
    """

    def __init__(self, skew: Skew, seed: int, *, spread: int = 0) -> None:
        self._skew = skew
        self._random = Random(seed)
        self._spread = spread
        self.ahead = 0
        """Seconds by which the machine's clock was set, which all of them share."""
        self._clocks: list[SkewedClock] = []

    def of(self, name: str) -> SkewedClock:
        """The clock of a process that is about to start."""
        clock = self._skew.clock(name, seconds=self._offset())
        self._clocks.append(clock)
        return clock

    def scatter(self) -> None:
        """Set each anew, each differently."""
        for clock in self._clocks:
            clock.set(self._offset())

    def set_back(self, seconds: int) -> None:
        """Set them all back, as on one machine, and those of later processes too."""
        self.ahead -= seconds
        self.scatter()

    def _offset(self) -> int:
        return self.ahead + self._random.randint(-self._spread, self._spread)


class MachinesClock(SystemClock):
    """The clock of whoever looks on from the same machine as the fleet.

    With the true time it would find every lease of a fleet over whose clocks were set back.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks

    def now(self) -> int:
        """Microseconds since the epoch."""
        return super().now() + self._clocks.ahead * _SECOND
