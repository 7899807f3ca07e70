"""`python -m longshore_lab.mutants`: make mutants, run the tests on each, and report."""

import argparse
import json
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import pytest

from longshore_lab.mutants.database import Functions
from longshore_lab.mutants.overlay import Overlay
from longshore_lab.mutants.record import Record
from longshore_lab.mutants.statements import ENGINES, VERBS, Mutant, mutants, statements
from longshore_lab.mutants.trial import Trial, Verdict

__all__ = ["Report", "accepted", "main", "run"]

_TESTS = Path(__file__).parents[3] / "tests"
_KINDS = {"sqlite": "sqlite-memory", "postgres": "postgres"}
"""The store that the contract runs on."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found."""

    engine: str
    tests: int
    seconds: float
    verdicts: Sequence[Verdict]
    reasons: dict[str, str]
    """Why mutants may survive, by key."""
    red: Sequence[str]
    """Tests that failed without any mutant: then nothing was tried."""

    @property
    def survivors(self) -> list[Verdict]:
        """Those that nobody has accepted."""
        return [
            one
            for one in self.verdicts
            if one.result == "survived" and one.mutant.key not in self.reasons
        ]

    @property
    def outdated(self) -> list[str]:
        """Accepted mutants that a test kills by now, or that no statement has any more."""
        there = {one.key for one in mutants(self.engine)}
        killed = {one.mutant.key for one in self.verdicts if one.result == "killed"}
        return [key for key in self.reasons if key in killed or key not in there]

    @property
    def counts(self) -> dict[str, int]:
        """Mutants by how they ended."""
        found = Counter(one.result for one in self.verdicts)
        survived = len(self.survivors)
        return {
            "mutants": len(self.verdicts) - found["invalid"],
            "killed": found["killed"],
            "accepted": found["survived"] - survived,
            "survived": survived,
            "undecided": found["undecided"],
        }


def accepted(engine: str) -> dict[str, str]:
    """The mutants that may survive, each with the reason."""
    text = Path(__file__).with_name("accepted.toml").read_text("utf-8")
    return {one["mutant"]: one["reason"] for one in tomllib.loads(text).get(engine, [])}


@dataclass(frozen=True, slots=True)
class Tests:
    """Which tests a mutant meets."""

    expression: str = ""
    """As pytest's `-k`."""
    also: Sequence[Path] = ()
    """Files besides the contract, of which the slow tests run too."""
    most: int | None = None
    """Leave a mutant undecided after so many."""


def run(
    engine: str,
    chosen: Sequence[Mutant],
    tests: Tests,
    *,
    is_quiet: bool = False,
    resume: Path | None = None,
) -> Report:
    """Run the tests on each of the mutants, in processes of their own."""
    reasons = accepted(engine)

    def tell(one: Verdict) -> None:
        result = one.result
        if result == "survived" and one.mutant.key in reasons:
            result = "accepted"
        if not is_quiet:
            print(f"{result:9} {one.mutant.key}  [{one.by}]", file=sys.stderr, flush=True)

    overlay = Overlay()
    overlay.install(engine)
    others = {path.resolve() for path in tests.also}
    texts = statements(engine)
    database = Functions(texts) if engine == "postgres" else None
    record = Record(resume, f"{crc32(json.dumps(texts).encode()):08x}")
    record.read()
    trial = Trial(
        chosen,
        lambda item: _is_for(engine, item) or item.path in others,
        overlay,
        database,
        tell,
        tests.most,
        record,
        mutants(engine),
    )
    began = time.monotonic()
    flags = [
        "-k",
        tests.expression,
        "-o",
        "addopts=",
        "-m",
        "not prove" if others else "not prove and not slow",
        "-s",
        "--assert=plain",
    ]
    without = [
        flag for name in ("terminal", "xdist", "cacheprovider") for flag in ("-p", f"no:{name}")
    ]
    paths = [str(path) for path in (_TESTS / "contract" / "test_contract.py", *others)]
    pytest.main([*paths, *flags, *without, f"--rootdir={_TESTS.parent}"], plugins=[trial])
    seconds = time.monotonic() - began
    return Report(engine, trial.tests, seconds, trial.verdicts, reasons, trial.red)


def _is_for(engine: str, item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    kind = callspec.params.get("kind") if callspec is not None else None
    return kind == _KINDS[engine]


def _as_json(report: Report) -> str:
    return json.dumps(
        {
            "engine": report.engine,
            "tests": report.tests,
            "seconds": round(report.seconds),
            **report.counts,
            "red": list(report.red),
            "outdated": report.outdated,
            "verdicts": [
                {
                    "mutant": one.mutant.key,
                    "result": one.result,
                    "by": one.by,
                    "reason": report.reasons.get(one.mutant.key),
                }
                for one in report.verdicts
            ],
        },
        indent=1,
    )


def _print(report: Report) -> None:
    for one in report.red:
        print(f"fails without a mutant: {one}")
    for one in report.survivors:
        print(f"survived: {one.mutant.key}")
    for one in report.outdated:
        print(f"accepted, but it does not survive: {one}")
    counts = ", ".join(f"{many} {name}" for name, many in report.counts.items())
    print(f"{report.engine}: {counts}; {report.tests} tests, {report.seconds:.0f} s")


def _options(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[Mutant]]:
    """What was asked for, and the mutants that were chosen."""
    parser = argparse.ArgumentParser(prog="longshore_lab.mutants", description=__doc__)
    add = parser.add_argument
    verbs = sorted(VERBS["sqlite"])
    add("--engine", choices=ENGINES, required=True)
    add("--verb", choices=verbs, action="append", default=[], help="what this call runs")
    add("--statement", action="append", default=[], help="`claim`, `claim()` or `session.py`")
    add("--mutant", default="", help="those whose name contains this")
    add("--again", type=Path, help="those that were not killed in this report of --json")
    add("--survivors", action="store_true", help="those that are accepted so far")
    add("--tests", default="", metavar="EXPRESSION", help="only these tests, as pytest's -k")
    add("--resume", type=Path, metavar="FILE", help="record results, and go on from them")
    add("--also", type=Path, action="append", default=[], help="tests besides the contract")
    add("--part", default="1/1", metavar="K/N", help="every Nth, for runs side by side")
    add("--most-tests", type=int, help="leave a mutant undecided after so many tests")
    add("--list", action="store_true", help="name the mutants, and run nothing")
    add("--json", action="store_true", help="print nothing but JSON")
    options = parser.parse_args(arguments)
    chosen = _chosen(options)
    if not chosen:
        parser.error("no such mutants")
    return options, chosen


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    chosen = mutants(options.engine, verbs=options.verb, only=options.statement)
    chosen = [one for one in chosen if options.mutant in one.key]
    if options.survivors:
        reasons = accepted(options.engine)
        chosen = [one for one in chosen if one.key in reasons]
    if options.again:
        said = json.loads(options.again.read_text("utf-8"))["verdicts"]
        alive = {one["mutant"] for one in said if one["result"] in ("survived", "undecided")}
        chosen = [one for one in chosen if one.key in alive]
    place, _, parts = options.part.partition("/")
    return chosen[int(place) - 1 :: int(parts)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 when a mutant survived that nobody has accepted, 2 when tests fail anyway."""
    options, chosen = _options(arguments)
    if options.list:
        print("\n".join(one.key for one in chosen))
        return 0
    report = run(
        options.engine,
        chosen,
        Tests(options.tests, options.also, options.most_tests),
        is_quiet=options.json,
        resume=options.resume,
    )
    if options.json:
        print(_as_json(report))
    else:
        _print(report)
    if report.red or not report.verdicts:
        return 2
    return 1 if report.survivors or report.outdated else 0


if __name__ == "__main__":
    sys.exit(main())
