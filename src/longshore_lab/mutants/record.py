"""The file that a run leaves behind, so that the next one goes on where it ended.

Each line is JSON: what a test took and which mutants it can show, or how a mutant ended. A
mutant that a test killed is not tried again. One that survived meets only the tests that are
new to it. Lines of statements that have changed since are passed over. Several runs may write
to one file at a time.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

__all__ = ["Measured", "Record", "named"]


def named(test: str) -> str:
    """A test's name, shorter."""
    return f"{crc32(test.encode()):08x}"


@dataclass(frozen=True, slots=True)
class Measured:
    """A test on the statements as they are."""

    seconds: float
    covers: frozenset[str]
    """The statements that it ran."""
    shows: frozenset[str] | None = None
    """The mutants, by digest, that it can show; None where that was not measured."""


@dataclass(eq=False)
class Record:
    """What runs have found so far; only in memory, where there is no path."""

    path: Path | None = None
    source: str = ""
    """The digest of all statements that the tests ran on."""
    tests: dict[str, Measured] = field(default_factory=dict[str, Measured])
    ended: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """How a mutant ended, by digest: the result, and the test that killed it."""
    met: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The tests, by short name, that a mutant has survived."""

    def read(self) -> None:
        """Take up what the file has."""
        if self.path is None or not self.path.exists():
            return
        for line in self.path.read_text("utf-8").splitlines():
            one = json.loads(line)
            if "test" in one:
                if one["source"] == self.source:
                    shows = one["shows"]
                    self.tests[one["test"]] = Measured(
                        one["seconds"],
                        frozenset(one["covers"]),
                        None if shows is None else frozenset(shows),
                    )
            else:
                self._take(one["digest"], one["result"], one["by"], one["met"])

    def add_test(self, test: str, run: Measured) -> None:
        """A test ran on the statements as they are."""
        self.tests[test] = run
        self._write(
            {
                "test": test,
                "source": self.source,
                "seconds": round(run.seconds, 4),
                "covers": sorted(run.covers),
                "shows": None if run.shows is None else sorted(run.shows),
            }
        )

    def add_mutant(self, key: str, digest: str, result: str, by: str, met: set[str]) -> None:
        """A mutant was tried."""
        self._take(digest, result, by, met)
        line = {"mutant": key, "digest": digest, "result": result, "by": by}
        self._write({**line, "met": sorted(met)})

    def _take(self, digest: str, result: str, by: str, met: set[str]) -> None:
        self.ended[digest] = (result, by)
        self.met.setdefault(digest, set()).update(met)

    def _write(self, line: dict[str, object]) -> None:
        if self.path is None:
            return
        # One write to the end of the file is never mixed with that of another run.
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, f"{json.dumps(line)}\n".encode())
        finally:
            os.close(file)
