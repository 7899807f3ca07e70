"""Play the worlds of some seeds, and tell which promise one of them broke.

SIGTERM ends it after the next world; `left` are the seeds that were not played.
"""

import argparse
import math
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing

import msgspec

from longshore.runtime.process import available_cores
from longshore_lab import sim
from longshore_lab.sim.engines import ENGINES
from longshore_lab.sim.mutants import MUTANTS
from longshore_lab.sim.sometimes import COMMON, RARE
from longshore_lab.sim.troupe import Piece, Told, hush, played

_HASHES = "PYTHONHASHSEED"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit with 1 if a promise was broken, and with 0 if not."""
    options = _options(arguments)
    first, _, end = options.seeds.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    piece = Piece(engine=options.engine, mutant=options.mutant, tells_all=options.history)
    finders = MUTANTS[piece.mutant].finders if piece.mutant else frozenset[str]()
    tally, is_over = _Tally(seeds), _ending(options.seconds)
    with closing(played(piece, seeds, processes=options.processes)) as worlds:
        while tally.worlds < len(seeds) and not is_over():
            world = next(worlds)
            tally.add(world)
            print(*world.history, sep="\n", end="\n" if world.history else "")
            if world.broken:
                print(*world.complaint, sep="\n", file=sys.stderr)
            if not finders.isdisjoint(world.broken):
                break
    print(msgspec.json.encode(tally.figures()).decode())
    return 1 if tally.broken else 0


class _Tally:
    def __init__(self, seeds: range) -> None:
        self._seeds = seeds
        self._began = time.monotonic()
        self._seen, self._found = Counter[str](), Counter[str]()
        self.worlds = 0
        self.broken: list[int] = []

    def add(self, world: Told) -> None:
        """Count the world of the next seed."""
        if world.broken:
            self.broken.append(self._seeds[self.worlds])
        self._found.update(world.broken)
        self._seen += world.seen
        self.worlds += 1

    def figures(self) -> dict[str, object]:
        """What is told at the end."""
        seeds, spent = self._seeds, time.monotonic() - self._began
        return {
            "worlds": self.worlds,
            "left": f"{seeds.start + self.worlds}:{seeds.stop}" if seeds[self.worlds :] else "",
            "broken": self.broken,
            "found": dict(self._found),
            "seconds": round(spent, 1),
            "per_second": round(self.worlds / spent, 2),
            "unseen": [point for point in (*COMMON, *RARE) if not self._seen[point]],
            "seen": dict(self._seen),
        }


def _ending(seconds: float | None) -> Callable[[], bool]:
    """Whether somebody has asked to end, or time is up."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    until = time.monotonic() + (seconds or math.inf)
    return lambda: bool(asked) or time.monotonic() > until


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="longshore_lab.sim", description=sim.__doc__)
    parser.add_argument("--seeds", default="0:100", help="one seed, or first:end")
    parser.add_argument("--engine", choices=ENGINES, default="model")
    parser.add_argument("--mutant", choices=MUTANTS, help="an engine that is wrong on purpose")
    parser.add_argument("--seconds", type=float, help="stop after so long, whatever is left")
    parser.add_argument("--history", action="store_true", help="tell all that happened")
    parser.add_argument(
        "--processes",
        type=int,
        default=available_cores(),
        help="that play at once, by default one for each core; they change nothing else",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    if os.environ.get(_HASHES) != "0":
        # Sets of texts have another order in every process, and a seed has to mean one world.
        os.environ[_HASHES] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "longshore_lab.sim", *sys.argv[1:]])
    hush()
    sys.exit(main())
