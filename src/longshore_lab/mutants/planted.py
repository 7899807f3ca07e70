"""Faults that are planted by hand: checks in Python, and values that statements copy.

Each is a piece of a module's source or of a statement, and what takes its place.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from longshore.runtime.sql_loader import read

__all__ = ["PLANTED", "Planted"]


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault in one file of an engine."""

    engine: str
    verb: str
    file: str
    """A module in the engine's folder, `session.py`, or a statement by its name, `promote`."""
    about: str
    old: str
    new: str

    @property
    def name(self) -> str:
        """What the statement is called, or the module: `promote`, `session.py`."""
        return self.file

    @property
    def module(self) -> str | None:
        """The Python module, if it is one."""
        if not self.file.endswith(".py"):
            return None
        return f"longshore.engines.{self.engine}.{self.file.removesuffix('.py')}"

    def source(self) -> str:
        """The file with the fault; ValueError when the file no longer has its place, once."""
        package = find_spec(f"longshore.engines.{self.engine}")
        if package is None or package.origin is None:
            raise ValueError(f"there is no engine {self.engine}")
        if self.module is None:
            source = read(f"longshore.engines.{self.engine}.sql", ".sql")[self.file]
        else:
            source = (Path(package.origin).parent / self.file).read_text("utf-8")
        if source.count(self.old) != 1:
            raise ValueError(f"{self.about}: {self.file} has no such place, or more than one")
        return source.replace(self.old, self.new)


_SQLITE = (
    Planted(
        "sqlite",
        "promote",
        "promote",
        "a job that is promoted loses its priority",
        "j.type, j.rank,",
        "j.type, 22517998136852480 + (j.rank & 4503599627370495),",
    ),
    Planted(
        "sqlite",
        "exchange",
        "session.py",
        "a session whose lease is over goes on",
        "            raise LeaseLostError(self._token)\n        return row[0]",
        '            return 0, "[]", False\n        return row[0]',
    ),
    Planted(
        "sqlite",
        "exchange",
        "session.py",
        "the number of an exchange need not follow",
        "if number != last + 1:",
        "if False:",
    ),
    Planted(
        "sqlite",
        "exchange",
        "session.py",
        "an exchange that is sent again is carried out again",
        "if number == last and number > 0:",
        "if False:",
    ),
    Planted(
        "sqlite",
        "exchange",
        "session.py",
        "a start is told as often as it is reported",
        "if one in self._held and one not in self._started",
        "if one in self._held",
    ),
    Planted(
        "sqlite",
        "exchange",
        "session.py",
        "progress of a claim that is not held is recorded",
        "said = [one for one in progress if (one.handle, one.delivery) in self._held]",
        "said = [one for one in progress if any(h == one.handle for h, _ in self._held)]",
    ),
    Planted(
        "sqlite",
        "exchange",
        "session.py",
        "a renewal gives back what a later exchange handed out",
        "if exchange <= number and (one.handle",
        "if (one.handle",
    ),
    Planted(
        "sqlite",
        "exchange",
        "settlement.py",
        "of two deliveries of one job in an exchange both are settled",
        "has_twice = len({seq for seq, _ in pending}) < len(pending)",
        "has_twice = False",
    ),
    Planted(
        "sqlite",
        "exchange",
        "settlement.py",
        "stale settlements are not told from others",
        "_settle(transaction, holder, pending, others) != len(pending):",
        "_settle(transaction, holder, pending, others) < 0:",
    ),
    Planted(
        "sqlite",
        "exchange",
        "settlement.py",
        "a request to cancel changes no settlement",
        "pending[reference] = heeding(pending[reference], reason)",
        "pass",
    ),
    Planted(
        "sqlite",
        "reclaim",
        "maintenance.py",
        "a session is reclaimed whether or not its lease is over",
        "before = _END_OF_TIME if grace is None else transaction.now - grace",
        "before = _END_OF_TIME",
    ),
    Planted(
        "sqlite",
        "fire",
        "schedule_firing.py",
        "a due time that was fired before is fired again",
        "if taken and shot.job is not None:",
        "if shot.job is not None:",
    ),
)
_POSTGRES = (
    Planted(
        "postgres",
        "exchange",
        "settlement_plan.py",
        "a settlement's delivery is looked at only in the first item of an exchange",
        "            if span is None or span.delivery != one.delivery:\n"
        "                if span is not None:",
        "            is_first = not popped and not self.stale\n"
        "            if span is None or (is_first and span.delivery != one.delivery):\n"
        "                if span is not None:",
    ),
    Planted(
        "postgres",
        "exchange",
        "settlement_plan.py",
        "the delivery of a start is not looked at",
        "if span is None or span.delivery != delivery or handle in self._begun:",
        "if span is None or handle in self._begun:",
    ),
    Planted(
        "postgres",
        "exchange",
        "settlement_plan.py",
        "a start is told as often as it is reported",
        "if place not in span.begun and (handle",
        "if (handle",
    ),
    Planted(
        "postgres",
        "exchange",
        "settlement_plan.py",
        "the delivery of a report is not looked at",
        "is_held = span is not None and span.delivery == one.delivery",
        "is_held = span is not None",
    ),
    Planted(
        "postgres",
        "exchange",
        "settlement_plan.py",
        "a request to cancel changes no settlement",
        "            return heeding(one, reason)",
        "            return one",
    ),
    Planted(
        "postgres",
        "exchange",
        "session.py",
        "the number of an exchange need not follow",
        "if not max(self._last, 1) <= number <= self._last + 1:",
        "if False:",
    ),
    Planted(
        "postgres",
        "exchange",
        "session.py",
        "an idle exchange that is sent again claims",
        "if number == self._last and self._was_idle:",
        "if False:",
    ),
    Planted(
        "postgres",
        "exchange",
        "session.py",
        "a renewal gives back what a later exchange handed out",
        "if span.number <= number and (handle",
        "if (handle",
    ),
    Planted(
        "postgres",
        "exchange",
        "session.py",
        "a request to cancel is told of a delivery that is over",
        "[reference for reference in self._book.requests if self._holds(reference)]",
        "list(self._book.requests)",
    ),
    Planted(
        "postgres",
        "exchange",
        "session.py",
        "a claim whose delivery is over counts as held",
        "return span is not None and span.delivery == reference[1]",
        "return span is not None",
    ),
    Planted(
        "postgres",
        "fire",
        "schedule_firing.py",
        "a due time that was fired before is fired again",
        "if shot.due in taken]",
        "]",
    ),
)
PLANTED = (*_SQLITE, *_POSTGRES)
