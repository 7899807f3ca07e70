"""Numbered migrations: which are there, which were applied, and who may work on the result.

A migration says in its first lines what has to be known of it:

    -- longshore: works-with 0004
    -- longshore: outside-transaction

Code that knows the migrations up to 0004, its level, may go on beside this one. Without that
line only code that knows the migration itself may. The store remembers the level with the
migration: code that has never seen the file reads there whether it may work.

The second line is for a statement that refuses to run in a transaction.

A migration is a file `NNNN_name.sql`, or a folder `NNNN_name` whose files, in the order of
their names, are one text.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import takewhile

from longshore.errors import SchemaError

__all__ = ["Migration", "Remembered", "check", "level", "pending", "read_migrations"]

_MARK = "-- longshore: "
_WORKS_WITH = re.compile(r"works-with (\d{4})")
_OUTSIDE = "outside-transaction"
_NUMBERED = re.compile(r"\d{4}_\w+(\.sql)?")
_INDEX = re.compile(
    r"create\s+(?:unique\s+)?index\s+concurrently\s+if\s+not\s+exists\s+([a-z_][a-z0-9_]*)\s+on\b"
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema. Never edited after a release."""

    number: int
    name: str
    statements: str

    @property
    def checksum(self) -> str:
        """Tells an edited migration from the one that was applied."""
        return hashlib.sha256(self.statements.encode()).hexdigest()

    @property
    def works_with(self) -> int:
        """The lowest level of code that may work once this is applied."""
        levels = [found[1] for one in self._header() if (found := _WORKS_WITH.fullmatch(one))]
        return int(levels[0]) if levels else self.number

    @property
    def is_outside(self) -> bool:
        """It runs outside a transaction, and can run again if it was interrupted."""
        return _OUTSIDE in self._header()

    @property
    def index(self) -> str | None:
        """The index that it builds beside writers, if it does."""
        found = _INDEX.search(self._body())
        return found[1] if found else None

    def fault(self) -> str | None:
        """What its author has to change, if anything."""
        unknown = [
            one for one in self._header() if one != _OUTSIDE and not _WORKS_WITH.fullmatch(one)
        ]
        if unknown:
            return f"says {unknown[0]!r}, which nobody understands"
        if self.statements.count(_MARK.rstrip()) != len(self._header()):
            return "has marks elsewhere than in its first lines"
        if self.works_with > self.number:
            return "works with code that knows more than itself"
        body = self._body()
        if self.is_outside and ";" in body.rstrip().removesuffix(";"):
            return "runs outside a transaction and has more than one statement"
        if "concurrently" in body and not self.is_outside:
            return "does something concurrently, but not outside a transaction"
        if re.search(r"create\s[^;]*\bindex\s+concurrently", body) and self.index is None:
            return "cannot be repeated: create index concurrently if not exists <name> on"
        return None

    def _header(self) -> list[str]:
        lines = takewhile(lambda line: line.startswith("--"), self.statements.splitlines())
        return [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]

    def _body(self) -> str:
        return re.sub(r"--.*", "", self.statements).lower()


@dataclass(frozen=True, slots=True)
class Remembered:
    """A migration as the store has it, which may be one that this code has never seen."""

    number: int
    name: str
    checksum: str
    works_with: int
    is_applied: bool = True
    """False: it is announced, and applied when whoever may not work beside it has left."""


def read_migrations(package: str) -> list[Migration]:
    """The package's `NNNN_name` files and folders, in order, numbered without a gap."""
    found = sorted(
        (entry for entry in files(package).iterdir() if _NUMBERED.fullmatch(entry.name)),
        key=lambda entry: entry.name,
    )
    migrations = [
        Migration(int(entry.name[:4]), entry.name.removesuffix(".sql"), _text(entry))
        for entry in found
    ]
    if [one.number for one in migrations] != [*range(1, len(migrations) + 1)]:
        raise ImportError(f"{package}: the migrations are not numbered one after the other")
    for one in migrations:
        if fault := one.fault():
            raise ImportError(f"{package}: {one.name} {fault}")
    return migrations


def level(migrations: Sequence[Migration]) -> int:
    """The newest migration that this code knows."""
    return migrations[-1].number if migrations else 0


def pending(
    migrations: Sequence[Migration], remembered: Sequence[Remembered]
) -> list[Migration]:
    """What is still to do, or SchemaError when this code may not work on what was done."""
    _refuse_unreleased(migrations, remembered)
    ours = level(migrations)
    for one in remembered:
        if one.number > ours and one.works_with > ours:
            where = "is at" if one.is_applied else "is about to go to"
            raise SchemaError(
                f"the store's schema {where} {one.name}, and this version, which knows it up "
                f"to {ours:04d}, cannot work with that; upgrade longshore"
            )
    applied = {one.number: one.checksum for one in remembered if one.is_applied}
    for one in migrations:
        if one.number in applied and applied[one.number] != one.checksum:
            raise SchemaError(
                f"migration {one.name} was changed after it was applied: this is not the "
                "version that made the store; use that one, or start with a new store"
            )
    return [one for one in migrations if one.number not in applied]


def check(migrations: Sequence[Migration], remembered: Sequence[Remembered]) -> None:
    """Return if this code may work on the store's schema, else SchemaError."""
    missing = pending(migrations, remembered)
    if missing:
        names = ", ".join(one.name for one in missing)
        verb = "is" if len(missing) == 1 else "are"
        raise SchemaError(f"migration {names} {verb} missing; run `longshore migrate`")


def _refuse_unreleased(
    migrations: Sequence[Migration], remembered: Sequence[Remembered]
) -> None:
    """SchemaError for a store whose first migration has another name: no release made it."""
    first = {one.number: one.name for one in migrations[:1]}
    for one in remembered:
        if one.name != first.get(one.number, one.name):
            raise SchemaError(
                "the store was made by an unreleased version of longshore: its schema begins "
                f"with {one.name} and not with {first[one.number]}; let that version finish "
                "its jobs, and start this one with a new store"
            )


def _text(entry: Traversable) -> str:
    """What a file says, or all files of a folder one after the other."""
    if not entry.is_dir():
        return entry.read_text("utf-8")
    parts = sorted(
        (one for one in entry.iterdir() if one.name.endswith(".sql")), key=lambda one: one.name
    )
    return "\n".join(one.read_text("utf-8") for one in parts)
