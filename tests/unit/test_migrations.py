"""What a migration says of itself, and who may work on which schema."""

import sys
from pathlib import Path

import pytest

from longshore.errors import SchemaError
from longshore.runtime.migrate import Migration, Remembered, check, pending, read_migrations

FIRST = Migration(1, "0001_first", "create table a (n int);")
SECOND = Migration(2, "0002_second", "-- longshore: works-with 0001\nselect 1;")
BREAKING = Migration(3, "0003_breaking", "-- Moves a table.\nselect 1;")
OLD, NEW, NEWEST = [FIRST], [FIRST, SECOND], [FIRST, SECOND, BREAKING]


def remembered(*migrations: Migration, ahead: Migration | None = None) -> list[Remembered]:
    """What a store remembers after these; `ahead` is announced and not applied."""
    return [
        Remembered(one.number, one.name, one.checksum, one.works_with, one is not ahead)
        for one in (*migrations, *([ahead] if ahead else []))
    ]


def test_a_migration_without_a_mark_works_with_no_older_code():
    assert [one.works_with for one in NEWEST] == [1, 1, 3]


def test_a_mark_is_read_from_the_first_lines_and_is_part_of_the_checksum():
    text = (
        "-- Adds a note.\n-- longshore: works-with 0004\n-- longshore: outside-transaction\n\n"
    )
    marked = Migration(6, "0006_note", text + "select 1")
    plain = Migration(6, "0006_note", "select 1")

    assert (marked.works_with, marked.is_outside) == (4, True)
    assert (plain.works_with, plain.is_outside) == (6, False)
    assert marked.checksum != plain.checksum


@pytest.mark.parametrize(
    ("statements", "fault"),
    [
        ("-- longshore: works-with 1\nselect 1", "nobody understands"),
        ("-- longshore: work-with 0001\nselect 1", "nobody understands"),
        ("select 1;\n-- longshore: works-with 0001", "elsewhere than in its first lines"),
        ("-- longshore: works-with 0003\nselect 1", "knows more than itself"),
        ("-- longshore: outside-transaction\nselect 1; select 2;", "more than one statement"),
        ("create index concurrently if not exists i on t (n)", "not outside a transaction"),
        (
            "-- longshore: outside-transaction\ncreate index concurrently i on t (n)",
            "cannot be repeated",
        ),
    ],
)
def test_a_mark_that_would_be_misread_is_refused_with_a_reason(statements: str, fault: str):
    assert fault in (Migration(2, "0002_odd", statements).fault() or "")


def test_a_folder_with_a_faulty_migration_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "faulty_steps"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "0001_odd.sql").write_text("-- longshore: works-with everything\nselect 1")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ImportError, match="0001_odd says 'works-with everything'"):
        read_migrations("faulty_steps")


@pytest.mark.parametrize("names", [("0001_a", "0001_b"), ("0001_a", "0003_b"), ("0002_a",)])
def test_a_folder_with_a_number_missing_or_twice_cannot_be_loaded(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "uneven_steps"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name in names:
        (folder / f"{name}.sql").write_text("select 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "uneven_steps", raising=False)

    with pytest.raises(ImportError, match="not numbered one after the other"):
        read_migrations("uneven_steps")


def test_code_goes_on_where_every_newer_migration_works_with_it():
    check(OLD, remembered(*NEW))

    assert pending(OLD, remembered(*NEW)) == []


def test_code_below_the_level_of_any_newer_migration_is_told_to_upgrade():
    with pytest.raises(
        SchemaError, match=r"is at 0003_breaking, .* knows it up to 0001.* upgrade longshore"
    ):
        check(OLD, remembered(*NEWEST))
    with pytest.raises(SchemaError, match="upgrade longshore"):
        pending(NEW, remembered(*NEWEST))


def test_an_announced_migration_counts_for_those_who_have_to_leave_and_is_still_missing():
    ahead = remembered(*NEW, ahead=BREAKING)

    with pytest.raises(SchemaError, match=r"is about to go to 0003_breaking.* upgrade"):
        check(NEW, ahead)
    assert pending(NEWEST, ahead) == [BREAKING]


def test_what_is_missing_is_named_with_what_to_do():
    with pytest.raises(SchemaError, match="0003_breaking is missing; run `longshore migrate`"):
        check(NEWEST, remembered(*NEW))
    with pytest.raises(SchemaError, match="0002_second, 0003_breaking are missing"):
        check(NEWEST, remembered(*OLD))


def test_a_migration_that_was_edited_after_it_was_applied_is_refused():
    edited = Migration(1, "0001_first", "create table a (n bigint);")

    with pytest.raises(SchemaError, match="0001_first was changed after it was applied"):
        check([edited, SECOND], remembered(*NEW))


def test_a_store_that_begins_with_another_migration_is_told_from_a_newer_one():
    other = [Migration(1, "0001_tables", "create table b (n int);"), SECOND, BREAKING]

    for migrations in (OLD, NEWEST):
        with pytest.raises(
            SchemaError, match=r"begins with 0001_tables and not with 0001_first"
        ):
            pending(migrations, remembered(*other))


def test_the_files_of_a_folder_are_one_migration_in_the_order_of_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "steps_in_parts"
    (folder / "0001_base").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "0001_base" / "2_functions.sql").write_text("select 2;\n")
    (folder / "0001_base" / "1_tables.sql").write_text("select 1;\n")
    (folder / "0002_more.sql").write_text("-- longshore: works-with 0001\nselect 3;\n")
    monkeypatch.syspath_prepend(tmp_path)

    found = read_migrations("steps_in_parts")

    assert [one.name for one in found] == ["0001_base", "0002_more"]
    assert found[0].statements.split() == ["select", "1;", "select", "2;"]
    assert [one.works_with for one in found] == [1, 1]
