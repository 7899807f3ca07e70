"""Play the worlds of some seeds, and tell which promise one of them broke.

SIGTERM ends it after the world that is being played; `left` are the seeds that were not.
"""

import argparse
import os
import shlex
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from longshore_lab import sim
from longshore_lab.sim.engines import ENGINES
from longshore_lab.sim.mutants import MUTANTS
from longshore_lab.sim.play import Result, play
from longshore_lab.sim.sometimes import COMMON, RARE
from longshore_lab.sim.telling import about, story, told

_HASHES = "PYTHONHASHSEED"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit with 1 if a promise was broken, and with 0 if not."""
    options = _options(arguments)
    first, _, end = options.seeds.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    mutant = MUTANTS.get(options.mutant)
    opener = mutant.opener if mutant else ENGINES[options.engine]
    began, seen, found = time.monotonic(), Counter[str](), Counter[str]()
    worlds, broken, is_over = 0, list[int](), _ending()
    for seed in seeds:
        if is_over() or (options.seconds and time.monotonic() - began > options.seconds):
            break
        result = play(seed, opener)
        worlds += 1
        seen += result.seen
        if options.history:
            print(*told(result.entries), sep="\n")
        if not result.holds:
            broken.append(seed)
            found.update(result.broken)
            _complain(result, options)
            if mutant and mutant.finders & result.broken:
                break
    spent = time.monotonic() - began
    figures = {
        "worlds": worlds,
        "left": f"{seeds.start + worlds}:{seeds.stop}" if worlds < len(seeds) else "",
        "broken": broken,
        "found": dict(found),
        "seconds": round(spent, 1),
        "per_second": round(worlds / spent, 2),
        "unseen": [point for point in (*COMMON, *RARE) if not seen[point]],
        "seen": dict(seen),
    }
    print(msgspec.json.encode(figures).decode())
    return 1 if broken else 0


def _ending() -> Callable[[], bool]:
    """Whether somebody has asked to end; the world at hand is played to its end."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    return lambda: bool(asked)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="longshore_lab.sim", description=sim.__doc__)
    parser.add_argument("--seeds", default="0:100", help="one seed, or first:end")
    parser.add_argument("--engine", choices=ENGINES, default="model")
    parser.add_argument("--mutant", choices=MUTANTS, help="an engine that is wrong on purpose")
    parser.add_argument("--seconds", type=float, help="stop after so long, whatever is left")
    parser.add_argument("--history", action="store_true", help="tell all that happened")
    return parser.parse_args(arguments)


def _complain(result: Result, options: argparse.Namespace) -> None:
    """Name what was broken, tell the story of the first job of each, and how to see more."""

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    say(f"seed {result.seed} broke a promise:")
    jobs: list[str] = []
    for name in sorted(result.broken):
        examples = result.findings[name].examples
        for example in examples:
            say(f"  {name}: {example}")
        jobs += about(" ".join(examples))[:1]
    for job in dict.fromkeys(jobs):
        say(f"the story of {job}:")
        for line in told(story(result.entries, job)):
            say(f"  {line}")
    say(f"again, with all that happened: {_replay(result.seed, options)}")


def _replay(seed: int, options: argparse.Namespace) -> str:
    words = ["python", "-m", "longshore_lab.sim", "--seeds", str(seed)]
    if options.mutant:
        words += ["--mutant", options.mutant]
    else:
        words += ["--engine", options.engine]
    return shlex.join([*words, "--history"])


if __name__ == "__main__":
    if os.environ.get(_HASHES) != "0":
        # Sets of texts have another order in every process, and a seed has to mean one world.
        os.environ[_HASHES] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "longshore_lab.sim", *sys.argv[1:]])
    # What the dead leave behind is found by the collector, who complains.
    sys.unraisablehook = lambda _: None
    warnings.simplefilter("ignore")
    sys.exit(main())
