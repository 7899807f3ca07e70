"""A pytest plugin that runs the tests once as they are, and then on one mutant after the other.

The tests are collected once. Each mutant has a process of its own, forked from the one that
has collected, with the servers that are up already; it ends with the first test that fails
twice. A test that takes far longer than without the mutant ends it as well.
"""

import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from longshore_lab.mutants.overlay import Overlay
from longshore_lab.mutants.statements import Mutant

__all__ = ["Database", "Trial", "Verdict"]

_LEAST_SECONDS = 8
"""A test may take so long, however short it is without a mutant."""
_SLOWER = 8
"""A test may take so many times longer with a mutant."""


class Database(Protocol):
    """A database that functions can be planted in."""

    def begin(self, url: str) -> None:
        """The tests use this one."""
        ...

    def used(self) -> set[str]:
        """The functions that were called since the last time."""
        ...

    def plant(self, mutant: Mutant) -> str | None:
        """Replace the function; why not, if the server refuses it."""
        ...

    def restore(self, mutant: Mutant) -> None:
        """Put back what it replaced, and end what still runs."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a mutant ended.

    `killed` by a test, `survived` all of them, `undecided` if not all of them ran, or `invalid`
    if the server does not even store it.
    """

    mutant: Mutant
    result: str
    by: str = ""
    """The test that failed, or the server's complaint."""


@dataclass(eq=False)
class Trial:
    """The plugin."""

    mutants: Sequence[Mutant]
    choose: Callable[[pytest.Item], bool]
    overlay: Overlay
    database: Database | None = None
    tell: Callable[[Verdict], None] = lambda _: None
    most_tests: int | None = None
    """Tests after which a mutant stays undecided."""
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    red: list[str] = field(default_factory=list[str])
    """Tests that fail without any mutant."""
    why: str = ""
    """How the last test that failed did."""
    _failed: bool = False
    _seconds: dict[str, float] = field(default_factory=dict[str, float])
    _covers: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    _kills: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that are to find mutants."""
        items[:] = [item for item in items if self.choose(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Learn which database the tests use."""
        value = yield
        if fixturedef.argname == "postgres_url" and self.database is not None:
            self.database.begin(value)
        return value

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure, of the test or of what is around it."""
        if report.failed and not self._failed:
            self._failed, self.why = True, report.longreprtext

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests as they are, then once per mutant."""
        items = session.items
        if not items:
            return True
        for item in items:
            self._baseline(item)
        if not self.red:
            for mutant in self.mutants:
                verdict = self._try(mutant, items)
                self.verdicts.append(verdict)
                self.tell(verdict)
        return True

    @property
    def tests(self) -> int:
        """How many tests there are."""
        return len(self._seconds)

    def _baseline(self, item: pytest.Item) -> None:
        self.overlay.used.clear()
        began = time.monotonic()
        if not self._passes(item):
            self.red.append(item.nodeid)
        self._seconds[item.nodeid] = time.monotonic() - began
        used = set(self.overlay.used)
        if self.database is not None:
            # A server tells of calls when their connection has ended, perhaps too late for one.
            called = self.database.used()
            used |= called
            for earlier in list(self._covers)[-1:]:
                self._covers[earlier] |= called
        self._covers[item.nodeid] = used

    def _passes(self, item: pytest.Item) -> bool:
        """Run it whatever ran before: only what all tests share stays up around it."""
        self._failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=item.session)
        return not self._failed

    def _try(self, mutant: Mutant, items: Sequence[pytest.Item]) -> Verdict:
        if mutant.is_function and self.database is not None:
            refusal = self.database.plant(mutant)
            if refusal is not None:
                return Verdict(mutant, "invalid", refusal)
        chosen = self._in_order(mutant, items)
        few = chosen[: self.most_tests]
        try:
            killer = self._fork(mutant, few)
        finally:
            if self.database is not None:
                self.database.restore(mutant)
        if killer is None:
            return Verdict(mutant, "survived" if len(few) == len(chosen) else "undecided")
        self._kills.setdefault(mutant.statement, Counter())[killer.partition(" ")[0]] += 1
        return Verdict(mutant, "killed", killer)

    def _in_order(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The tests that run the statement, or all; first those that killed others of it."""
        name = mutant.statement
        covering = {one for one, used in self._covers.items() if name in used}
        is_known = bool(covering)
        kin = self._kills.get(name, Counter[str]())
        every: Counter[str] = sum(self._kills.values(), Counter[str]())
        return sorted(
            (item for item in items if not is_known or item.nodeid in covering),
            key=lambda item: (
                -kin[item.nodeid],
                -every[item.nodeid],
                self._seconds[item.nodeid],
            ),
        )

    def _fork(self, mutant: Mutant, items: Sequence[pytest.Item]) -> str | None:
        """The test that failed; None if all passed."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            self._run(mutant, items, writing)
        os.close(writing)
        said = b""
        while part := _read(reading):
            said += part
        os.close(reading)
        _, status = os.waitpid(child, 0)
        lines = said.decode().splitlines()
        if lines and lines[-1] == "passed":
            return None
        current = lines[-1] if lines else "import"
        ended = " (took too long)" if os.WIFSIGNALED(status) else ""
        return f"{current}{ended}"

    def _run(self, mutant: Mutant, items: Sequence[pytest.Item], tell: int) -> None:
        """In a process of its own: plant the mutant and run the tests. Never returns."""
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        code = 1
        try:
            if not mutant.is_function:
                self.overlay.plant(mutant)
            for item in items:
                os.write(tell, f"{item.nodeid}\n".encode())
                bound = _LEAST_SECONDS + _SLOWER * self._seconds[item.nodeid]
                signal.setitimer(signal.ITIMER_REAL, bound)
                if not (self._passes(item) or self._passes(item)):
                    os._exit(1)
                signal.setitimer(signal.ITIMER_REAL, 0)
            os.write(tell, b"passed\n")
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)


def _read(pipe: int) -> bytes:
    """What a child says next; nothing when it has ended."""
    select.select([pipe], [], [])
    return os.read(pipe, 65536)
