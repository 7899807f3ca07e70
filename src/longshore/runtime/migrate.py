"""Numbered migrations: which are there, which were applied, and whether they are the same."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from longshore.errors import SchemaError

__all__ = ["Migration", "pending", "read_migrations"]


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


def read_migrations(package: str) -> list[Migration]:
    """The package's `NNNN_name.sql` files, in order, numbered from 1 without a gap."""
    found = sorted(
        (entry for entry in files(package).iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    migrations = [
        Migration(
            int(entry.name[:4]), entry.name.removesuffix(".sql"), entry.read_text("utf-8")
        )
        for entry in found
    ]
    if [one.number for one in migrations] != list(range(1, len(migrations) + 1)):
        raise ImportError(f"{package}: migrations are not numbered 1, 2, 3, …")
    return migrations


def pending(migrations: list[Migration], applied: dict[int, str]) -> list[Migration]:
    """What is still to do, or SchemaError when what was done is not what is here.

    `applied` maps numbers to checksums, as the store remembers them.
    """
    newest = migrations[-1].number if migrations else 0
    unknown = [number for number in applied if number > newest]
    if unknown:
        raise SchemaError(
            f"the store's schema is at {max(applied)}, newer than this version's {newest}; "
            "upgrade longshore"
        )
    for one in migrations:
        if one.number in applied and applied[one.number] != one.checksum:
            raise SchemaError(f"migration {one.name} was changed after it was applied")
    return [one for one in migrations if one.number not in applied]
