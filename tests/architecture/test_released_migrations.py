"""Migrations that stores have applied are what they were."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("released_migrations.sha256")
ENGINES = "src/longshore/engines"


def released(text: str) -> dict[str, str]:
    """The checksum of every file of a migration that was released, by its path."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: checksum for checksum, name in (line.split() for line in lines)}


def faults(root: Path, checksums: Mapping[str, str]) -> list[str]:
    """What a store that has applied the released migrations would stumble over."""
    there = {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((root / ENGINES).glob("*/migrations/**/*.sql"))
    }
    found = [
        f"{name} was released: put the change into a new migration, numbered after the last"
        for name, checksum in checksums.items()
        if there.get(name) != checksum
    ]
    for folder in sorted({place(name)[0] for name in checksums}):
        last = max(place(name)[1] for name in checksums if place(name)[0] == folder)
        found += [
            f"{name} would be applied by new stores only: number it after {last}"
            for name in there
            if name not in checksums and place(name)[0] == folder and place(name)[1] <= last
        ]
    return found


def place(name: str) -> tuple[str, str]:
    """The folder of an engine's migrations, and the migration that a file belongs to."""
    folder, _, rest = name.partition("/migrations/")
    return folder, rest.partition("/")[0].removesuffix(".sql")


def test_a_released_migration_is_never_edited():
    assert faults(ROOT, released(LISTED.read_text())) == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two migrations, the first of two files."""
    for name in ("0001_base/1_tables", "0001_base/2_functions", "0002_more"):
        path = tmp_path / ENGINES / "postgres/migrations" / f"{name}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"select '{name}';")
    return tmp_path


@pytest.fixture
def checksums(tree: Path) -> dict[str, str]:
    """Both of them were released."""
    return {
        str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in tree.rglob("*.sql")
    }


def test_what_comes_after_the_released_migrations_is_fine(
    tree: Path, checksums: dict[str, str]
):
    (tree / ENGINES / "postgres/migrations/0003_next.sql").write_text("select 3;")

    assert faults(tree, checksums) == []


@pytest.mark.parametrize("file", ["0001_base/2_functions", "0002_more"])
def test_an_edited_and_a_removed_file_of_a_released_migration_are_named(
    file: str, tree: Path, checksums: dict[str, str]
):
    path = tree / ENGINES / "postgres/migrations" / f"{file}.sql"

    path.write_text("select 'other';")
    edited = faults(tree, checksums)
    path.unlink()
    removed = faults(tree, checksums)

    assert len(edited) == 1
    assert edited == removed
    assert f"{file}.sql was released" in edited[0]


@pytest.mark.parametrize("file", ["0001_base/3_late", "0001_extra", "0002_b"])
def test_a_file_that_comes_before_the_last_released_migration_is_named(
    file: str, tree: Path, checksums: dict[str, str]
):
    path = tree / ENGINES / "postgres/migrations" / f"{file}.sql"
    path.write_text("select 'late';")

    assert [file in fault for fault in faults(tree, checksums)] == [True]
