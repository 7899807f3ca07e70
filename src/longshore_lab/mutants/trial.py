"""A pytest plugin that runs the tests once as they are, and then on one mutant after the other.

The tests are collected once. Each mutant has a process of its own, forked from the one that
has collected, with the servers that are up already; it ends with the first test that fails
twice. A test that takes far longer than without the mutant ends it as well.

A mutant meets only the tests that can show it. For a statement of a file these are the tests
that run it. For a function in the database they are those in which its condition had the other
value: a condition that was true whenever a test looked at it may as well be always true.
"""

import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pytest

from longshore_lab.mutants.overlay import Overlay
from longshore_lab.mutants.record import Measured, Record, named
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

    def probe(self, names: Iterable[str]) -> set[str]:
        """Have these functions note their conditions; the mutants, by key, that this covers."""
        ...

    def noted(self) -> set[str]:
        """The mutants, by key, that could have shown since the last time."""
        ...

    def unprobe(self) -> None:
        """Put back the functions that were noting."""
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
    record: Record = field(default_factory=Record)
    """What earlier runs have found, and what this one finds."""
    every: Sequence[Mutant] = ()
    """All mutants of the engine, tried or not: which of them a test can show is recorded."""
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    red: list[str] = field(default_factory=list[str])
    """Tests that fail without any mutant."""
    why: str = ""
    """How the last test that failed did."""
    _failed: bool = False
    _is_shared: bool = False
    """Whether a fixture of the test that ran last uses the database that is shared."""
    _ran: dict[str, Measured] = field(default_factory=dict[str, Measured])
    _kills: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that are to find mutants."""
        items[:] = [item for item in items if self.choose(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Learn which database the tests use, and which of them use it.

        What a test asks for while it runs is not among the names that it was collected with.
        """
        value = yield
        if "postgres_url" in fixturedef.argnames:
            self._is_shared = True
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
        self._baseline(items)
        if not self.red:
            for mutant in self.mutants:
                verdict = self._try(mutant, items)
                self.verdicts.append(verdict)
                self.tell(verdict)
        return True

    @property
    def tests(self) -> int:
        """How many tests there are."""
        return len(self._ran)

    def _baseline(self, items: Sequence[pytest.Item]) -> None:
        """Run the tests that the record does not know; one in any case, to start the server."""
        for item in items:
            known = self.record.tests.get(item.nodeid)
            if known is None or not self._ran:
                known = self._measured(item)
            self._ran[item.nodeid] = known
        new = [item for item in items if item.nodeid not in self.record.tests]
        if self.red:
            return
        self._probe(new)
        for item in new:
            self.record.add_test(item.nodeid, self._ran[item.nodeid])

    def _measured(self, item: pytest.Item) -> Measured:
        self.overlay.used.clear()
        began = time.monotonic()
        if not self._passes(item):
            self.red.append(item.nodeid)
        seconds = time.monotonic() - began
        used = set(self.overlay.used)
        if self.database is not None:
            # A server tells of calls when their connection has ended, perhaps too late for one.
            called = self.database.used()
            used |= called
            for earlier in list(self._ran)[-1:]:
                before = self._ran[earlier]
                self._ran[earlier] = replace(before, covers=before.covers | called)
        if self._has_own_server(item):
            used |= {one.statement for one in self.every}
        return Measured(seconds, frozenset(used))

    def _has_own_server(self, item: pytest.Item) -> bool:
        """Whether what it called just now cannot be seen, for its database is not shared."""
        names: Sequence[str] = getattr(item, "fixturenames", ())
        is_shared = self._is_shared or "postgres_url" in names
        return self.database is not None and not is_shared

    def _probe(self, items: Sequence[pytest.Item]) -> None:
        """Run them once more, to learn which mutants of functions they can show at all."""
        if self.database is None or not items:
            return
        every = [one for one in self.every if one.is_function]
        digests = {one.key: one.digest for one in every}
        can_show = self.database.probe(dict.fromkeys(one.statement for one in every))
        # Of an order and of a limit nothing is noted: they show wherever the function runs.
        always = [one for one in every if one.key not in can_show]
        for item in items:
            is_alike = self._passes(item)
            ran = self._ran[item.nodeid]
            shown = {digests[key] for key in self.database.noted() if key in digests}
            shown |= {one.digest for one in always if one.statement in ran.covers}
            is_seen = is_alike and not self._has_own_server(item)
            shows = frozenset(shown) if is_seen else None
            self._ran[item.nodeid] = replace(ran, shows=shows)
        self.database.unprobe()

    def _passes(self, item: pytest.Item) -> bool:
        """Run it whatever ran before: only what all tests share stays up around it."""
        self._failed = self._is_shared = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=item.session)
        return not self._failed

    def _try(self, mutant: Mutant, items: Sequence[pytest.Item]) -> Verdict:
        result, by = self.record.ended.get(mutant.digest, ("", ""))
        if result in ("killed", "invalid"):
            self._count(mutant, result, by)
            return Verdict(mutant, result, by)
        met = self.record.met.get(mutant.digest, set())
        chosen = [
            item for item in self._in_order(mutant, items) if named(item.nodeid) not in met
        ]
        if not chosen and result:
            return Verdict(mutant, "survived")
        if mutant.is_function and self.database is not None:
            refusal = self.database.plant(mutant)
            if refusal is not None:
                return self._ended(Verdict(mutant, "invalid", refusal), [])
        few = chosen[: self.most_tests]
        try:
            killer = self._fork(mutant, few)
        finally:
            if self.database is not None:
                self.database.restore(mutant)
        if killer is not None:
            return self._ended(Verdict(mutant, "killed", killer), [])
        result = "survived" if len(few) == len(chosen) else "undecided"
        return self._ended(Verdict(mutant, result), few)

    def _ended(self, verdict: Verdict, met: Sequence[pytest.Item]) -> Verdict:
        one = verdict.mutant
        self._count(one, verdict.result, verdict.by)
        names = {named(item.nodeid) for item in met}
        self.record.add_mutant(one.key, one.digest, verdict.result, verdict.by, names)
        return verdict

    def _count(self, mutant: Mutant, result: str, by: str) -> None:
        if result == "killed":
            self._kills.setdefault(mutant.statement, Counter())[by.partition(" (")[0]] += 1

    def _in_order(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The tests that can show it; first those that killed others of its statement."""
        kin = self._kills.get(mutant.statement, Counter[str]())
        every: Counter[str] = sum(self._kills.values(), Counter[str]())
        return sorted(
            (item for item in items if self._can_show(mutant, item)),
            key=lambda item: (
                -kin[item.nodeid],
                -every[item.nodeid],
                self._ran[item.nodeid].seconds,
            ),
        )

    def _can_show(self, mutant: Mutant, item: pytest.Item) -> bool:
        """Whether the condition had the other value in the test, or the statement ran in it.

        A statement that was seen in no test, as Python never is, may have run in any of them.
        """
        ran = self._ran[item.nodeid]
        if mutant.is_function and ran.shows is not None:
            return mutant.digest in ran.shows
        is_seen = any(mutant.statement in one.covers for one in self._ran.values())
        return not is_seen or mutant.statement in ran.covers

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
            if mutant.is_function:
                self.overlay.plant_in_new(mutant)
            else:
                self.overlay.plant(mutant)
            for item in items:
                os.write(tell, f"{item.nodeid}\n".encode())
                bound = _LEAST_SECONDS + _SLOWER * self._ran[item.nodeid].seconds
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
