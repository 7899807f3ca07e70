"""Migrations that stores have applied are what they were."""

import hashlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("released_migrations.sha256")
RELEASED = dict(reversed(line.split()) for line in LISTED.read_text().splitlines())
FOLDERS = sorted({str(Path(name).parent) for name in RELEASED})


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_migration_is_never_edited(name: str):
    """A store that has applied it would refuse the edited one, and never get what was added."""
    found = hashlib.sha256((ROOT / name).read_bytes()).hexdigest()

    rule = f"{name} was released: put the change into a new migration, numbered after the last"
    assert found == RELEASED[name], rule


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_new_migration_comes_after_the_released_ones(folder: str):
    there = sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).glob("*.sql"))

    released = sorted(name for name in RELEASED if name.startswith(f"{folder}/"))

    assert there[: len(released)] == released
