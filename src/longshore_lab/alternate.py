"""Compare the speed of two checkouts, in turn, on this machine.

    python -m longshore_lab.alternate ../before . --engine sqlite --rounds 10

runs `longshore bench` of each tree, one after the other, as many rounds as asked, and prints
the medians of the CPU microseconds per job of producer, worker and server, and of jobs per
second, with the spread of each. On a noisy machine jobs per second say little; CPU time per
job says more, since it does not count waiting. One interpreter and its packages serve both.
"""

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from longshore_lab.servers import PostgresServer

__all__ = ["main"]

Found = dict[tuple[str, str], tuple[list[float], list[float]]]
"""By profile and figure, what the old and the new tree had in each round."""


class Row(msgspec.Struct, frozen=True):
    """One figure of both trees: medians, and the half of the rounds nearest to them."""

    profile: str
    figure: str
    unit: str
    old: float
    new: float
    ratio: float
    """The median over all rounds of new to old, each pair measured one after the other."""
    low: float
    high: float
    """Between these the ratio was in the middle half of the rounds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 if the CPU time of a job grew by more than `--within` per cent."""
    options = _options(arguments)
    with ExitStack() as stack:
        found = _measured(options, _store(options.engine, stack))
    rows = [_row(profile, figure, *both) for (profile, figure), both in found.items()]
    if options.json:
        print(msgspec.json.encode(rows).decode())
    else:
        _show(rows)
    most = 1 + options.within / 100
    return int(any(row.unit == "us/job" and row.ratio > most for row in rows))


def _measured(options: argparse.Namespace, store: Callable[[], str]) -> Found:
    found: Found = defaultdict(lambda: ([], []))
    trees = Path(options.old).resolve(), Path(options.new).resolve()
    for number in range(options.rounds):
        # Who goes first takes turns: the machine changes while a round lasts.
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            for run in _bench(trees[side], store(), options):
                for part, cpu in run["cpu_us_per_job"].items():
                    found[run["profile"], part][side].append(cpu)
                found[run["profile"], "jobs"][side].append(run["jobs_per_s"])
        print(f"  round {number + 1} of {options.rounds}", file=sys.stderr)
    return found


def _bench(tree: Path, store: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    command = [
        *(sys.executable, "-m", "longshore", "--engine", store, "bench", "--json"),
        *("--profile", options.profile, "--mode", options.mode),
        *("--seconds", str(options.seconds), "--jobs", str(options.jobs)),
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    report: dict[str, Any] = msgspec.json.decode(done.stdout.strip().splitlines()[-1])
    return [report, report["real"]] if "real" in report else [report]


def _store(engine: str, stack: ExitStack) -> Callable[[], str]:
    """What gives each run a store of its own."""
    if engine == "sqlite":
        return lambda: "sqlite"
    server = stack.enter_context(PostgresServer(durable=True))
    server.wear_in()
    numbers = count()
    return lambda: server.create(f"run_{next(numbers)}")


def _row(profile: str, figure: str, old: list[float], new: list[float]) -> Row:
    ratios = sorted(after / before for before, after in zip(old, new, strict=True) if before)
    unit = "jobs/s" if figure == "jobs" else "us/job"
    if not ratios:
        return Row(profile, figure, unit, 0, 0, 1, 1, 1)
    low, high = ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]
    return Row(profile, figure, unit, median(old), median(new), median(ratios), low, high)


def _show(rows: Sequence[Row]) -> None:
    print(f"{'profile':8} {'figure':9} {'old':>10} {'new':>10} {'new/old':>8}  middle half")
    for row in rows:
        print(
            f"{row.profile:8} {row.figure:9} {row.old:10,.2f} {row.new:10,.2f}"
            f" {row.ratio:8.3f}  {row.low:.3f} to {row.high:.3f} {row.unit}"
        )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m longshore_lab.alternate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", help="the folder of a checkout")
    parser.add_argument("new", nargs="?", default=".", help="another; by default this one")
    parser.add_argument("--engine", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--profile", choices=["noop", "real", "mix", "both"], default="both")
    parser.add_argument("--mode", choices=["steady", "drain"], default="steady")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--jobs", type=int, default=100_000, help="of a drain")
    parser.add_argument("--within", type=float, default=3.0, help="per cent that CPU may grow")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
