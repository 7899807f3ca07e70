"""Runs experiments: python -m longshore_lab.experiments NAME… | all | today [--quick]."""

import argparse
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from longshore.errors import LongshoreError, NotOverHttpError
from longshore.wire.address import refuse_service
from longshore_lab import docs
from longshore_lab.experiments.catalogue import EXPERIMENTS, of_the_day
from longshore_lab.experiments.experiment import Experiment, ExperimentError
from longshore_lab.experiments.findings import Record
from longshore_lab.experiments.plants import fault_of, soundly, start_again
from longshore_lab.experiments.runner import DATA, keep, perform
from longshore_lab.servers import ServerError

__all__ = ["judge", "main"]

_MODULE = "longshore_lab.experiments"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 if a promise did not hold, 2 if a run failed."""
    options = _parser().parse_args(arguments)
    chosen = _chosen(options.names)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # there is much to put away
    try:
        refuse_service(options.url or "", "an experiment")
    except NotOverHttpError as error:
        _tell(f"error: {error}")
        return 2
    try:
        if options.breaks:
            return _break(chosen, options, sys.argv[1:] if arguments is None else arguments)
        return _perform(chosen, options)
    except KeyboardInterrupt:
        _tell("  ended before it was done; nothing of it is kept")
        return 130


def _perform(chosen: Sequence[Experiment], options: argparse.Namespace) -> int:
    worst = 0
    for one in chosen:
        _tell(f"{one.name}: {one.promise}")
        try:
            record = perform(
                one,
                is_quick=options.quick,
                url=options.url,
                changes=_changes(options),
                say=lambda words: _tell(f"  {words}"),
            )
        except (ExperimentError, LongshoreError, ServerError) as error:
            _tell(f"  could not be done: {error}")
            worst = 2
            continue
        _tell(f"  written: {keep(record, options.out)}")
        worst = max(worst, judge(record))
    if options.out.resolve() == DATA and docs.main([]):
        return 2
    return worst


def _parser() -> argparse.ArgumentParser:
    names = ", ".join(one.name for one in EXPERIMENTS)
    parser = argparse.ArgumentParser(
        prog="python -m longshore_lab.experiments",
        description=f"Ask a real queue, and keep the answer. Experiments: {names}.",
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="or all, or today: two of them"
    )
    parser.add_argument("--quick", action="store_true", help="a minute or less of each")
    parser.add_argument(
        "--break",
        action="store_true",
        dest="breaks",
        help="plant a fault in a short run; exit code 1 if it was not found",
    )
    parser.add_argument("--url", help="a PostgreSQL to use, or sqlite; else one of its own")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--workers", type=int, help="worker processes, where one would do")
    parser.add_argument("--out", type=Path, default=DATA, help="where data and plots go")
    return parser


def _changes(options: argparse.Namespace) -> dict[str, object]:
    asked = {"seed": options.seed, "workers": options.workers}
    return {name: value for name, value in asked.items() if value is not None}


def _chosen(names: Sequence[str]) -> Sequence[Experiment]:
    if list(names) == ["all"]:
        return EXPERIMENTS
    if list(names) == ["today"]:
        return of_the_day(datetime.now(UTC).date())
    known = {one.name: one for one in EXPERIMENTS}
    if unknown := [name for name in names if name not in known]:
        _parser().error(f"no experiment is called {unknown[0]}; there are {', '.join(known)}")
    return [known[name] for name in names]


def _break(
    chosen: Sequence[Experiment], options: argparse.Namespace, words: Sequence[str]
) -> int:
    """Plant in each its fault; 1 if one was not found, 2 if one could not be tried."""
    if len(chosen) > 1:
        # A fault is in a process from its start to its end, so each has one of its own.
        rest = [word for word in words if word not in options.names]
        command = [sys.executable, "-m", _MODULE]
        return max(subprocess.run([*command, one.name, *rest]).returncode for one in chosen)
    (one,) = chosen
    if not one.plant:
        _tell(f"{one.name}: every run of it has its fault in itself")
        return 0
    start_again(one.plant, ["-m", _MODULE, *words])
    _tell(f"{one.name}, although {fault_of(one.plant)}")
    try:
        record = perform(
            one, is_quick=True, url=options.url, changes=_changes(options), planted=one.plant
        )
    except (ExperimentError, LongshoreError, ServerError) as error:
        _tell(f"  could not be done: {error}")
        return 2
    _tell(f"  written: {keep(record, options.out)}")
    for broken in (found := [held for held in record.findings.promises if not held.holds]):
        _tell(f"  found: {broken.words}: {broken.figure}")
    # The reference is written from the code, which is not as it should be here.
    if options.out.resolve() == DATA and soundly(["-m", docs.__name__]):
        return 2
    return 0 if found else 1


def judge(record: Record) -> int:
    """Tell what held; 1 if a promise was broken. A short run breaks none by being slow."""
    worst = 0
    for one in record.findings.promises:
        is_excused = record.is_quick and one.is_speed
        word = "holds" if one.holds else "SLOW" if is_excused else "BROKEN"
        _tell(f"  {word}: {one.words}: {one.figure}")
        if word == "BROKEN":
            worst = 1
    _tell(f"  {record.findings.headline}; {record.seconds:,.0f} s")
    return worst


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
