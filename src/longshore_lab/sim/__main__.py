"""Play the worlds of some seeds, and tell which promise one of them broke."""

import argparse
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence

import msgspec

from longshore_lab import sim
from longshore_lab.sim.engines import ENGINES
from longshore_lab.sim.mutants import MUTANTS
from longshore_lab.sim.play import Result, play

_HASHES = "PYTHONHASHSEED"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit with 1 if a promise was broken, and with 0 if not."""
    parser = argparse.ArgumentParser(prog="longshore_lab.sim", description=sim.__doc__)
    parser.add_argument("--seeds", default="0:100", help="one seed, or first:end")
    parser.add_argument("--engine", choices=ENGINES, default="model")
    parser.add_argument("--mutant", choices=MUTANTS, help="an engine that is wrong on purpose")
    parser.add_argument("--seconds", type=float, help="stop after so long, whatever is left")
    parser.add_argument("--history", action="store_true", help="tell all that happened")
    options = parser.parse_args(arguments)
    first, _, end = options.seeds.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    opener = MUTANTS[options.mutant] if options.mutant else ENGINES[options.engine]
    began, seen = time.monotonic(), Counter[str]()
    worlds, broken = 0, list[int]()
    for seed in seeds:
        if options.seconds and time.monotonic() - began > options.seconds:
            break
        result = play(seed, opener)
        worlds += 1
        seen += result.seen
        if options.history:
            _tell(result)
        if not result.holds:
            broken.append(seed)
            _complain(result)
            if options.mutant:
                break
    spent = round(time.monotonic() - began, 1)
    figures = {"worlds": worlds, "broken": broken, "seconds": spent, "seen": dict(seen)}
    print(msgspec.json.encode(figures).decode())
    return 1 if broken else 0


def _tell(result: Result) -> None:
    for entry in sorted(result.entries, key=lambda one: one.record.at):
        record = entry.record
        facts = msgspec.structs.asdict(record)
        at = facts.pop("at") / 1e6
        facts.pop("pid", None)
        told = " ".join(f"{name}={value}" for name, value in facts.items())
        print(f"{at:11.6f}  {entry.actor:14} {type(record).__name__:20} {told}")


def _complain(result: Result) -> None:
    print(f"seed {result.seed} broke a promise:", file=sys.stderr)
    for name, finding in result.findings.items():
        for example in () if finding.holds else finding.examples:
            print(f"  {name}: {example}", file=sys.stderr)


if __name__ == "__main__":
    if os.environ.get(_HASHES) != "0":
        # Sets of texts have another order in every process, and a seed has to mean one world.
        os.environ[_HASHES] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "longshore_lab.sim", *sys.argv[1:]])
    # What the dead leave behind is found by the collector, who complains.
    sys.unraisablehook = lambda _: None
    warnings.simplefilter("ignore")
    sys.exit(main())
