"""Runs experiments: python -m longshore_lab.experiments NAME… | all | today [--quick]."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from longshore.errors import LongshoreError
from longshore_lab import docs
from longshore_lab.experiments.catalogue import EXPERIMENTS, of_the_day
from longshore_lab.experiments.experiment import Experiment, ExperimentError
from longshore_lab.experiments.findings import Record
from longshore_lab.experiments.runner import DATA, keep, perform
from longshore_lab.servers import ServerError

__all__ = ["judge", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 if a promise did not hold, 2 if a run failed."""
    options = _parser().parse_args(arguments)
    worst = 0
    for one in _chosen(options.names):
        _tell(f"{one.name}: {one.promise}")
        try:
            record = perform(
                one,
                is_quick=options.quick,
                url=options.url,
                seed=options.seed,
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
    parser.add_argument("--url", help="a PostgreSQL to use, or sqlite; else one of its own")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--out", type=Path, default=DATA, help="where data and plots go")
    return parser


def _chosen(names: Sequence[str]) -> Sequence[Experiment]:
    if list(names) == ["all"]:
        return EXPERIMENTS
    if list(names) == ["today"]:
        return of_the_day(datetime.now(UTC).date())
    known = {one.name: one for one in EXPERIMENTS}
    if unknown := [name for name in names if name not in known]:
        _parser().error(f"no experiment is called {unknown[0]}; there are {', '.join(known)}")
    return [known[name] for name in names]


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
