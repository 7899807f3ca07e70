"""Statements are found by the lines that begin their sections."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from longshore.runtime.sql_loader import load, read

Package = Callable[..., str]


@dataclass(frozen=True, slots=True)
class Two:
    first: str
    second: str


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Makes a package of .sql files, given by name."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def make(name: str, **found: str) -> str:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        for stem, text in found.items():
            (tmp_path / name / f"{stem}.sql").write_text(text)
        sys.modules.pop(name, None)
        return name

    return make


def test_a_section_is_a_statement_with_the_line_that_says_what_it_does(package: Package):
    name = package(
        "statements_in_one_file",
        jobs="-- Jobs: all of them.\n\n-- first: do this.\n-- note: not a section\nselect 1\n"
        "\n-- second: do that.\nselect 2\n",
    )

    assert load(Two, name, ".sql") == Two(
        "-- first: do this.\n-- note: not a section\nselect 1\n",
        "-- second: do that.\nselect 2\n",
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("-- first: this.\nselect 1\n", r"missing \['second'\], unused \[\]"),
        (
            "\n\n".join(f"-- {name}: this.\nselect 1" for name in ("first", "second", "third")),
            r"missing \[\], unused \['third'\]",
        ),
    ],
)
def test_what_is_missing_or_unused_is_told(package: Package, text: str, fault: str):
    name = package(f"statements_of_{len(text)}", jobs=text)

    with pytest.raises(ImportError, match=fault):
        load(Two, name, ".sql")


def test_a_statement_that_is_there_twice_is_told(package: Package):
    text = "-- first: this.\nselect 1\n"
    name = package("statements_twice", jobs=text, more=text)

    with pytest.raises(ImportError, match="first is there twice"):
        read(name, ".sql")
