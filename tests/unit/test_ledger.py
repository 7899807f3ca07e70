"""The ledger and the world outside the queue."""

import multiprocessing
from pathlib import Path

import pytest

from longshore_lab import ledger
from longshore_lab.effects import Cell, Effects
from longshore_lab.ledger import Ledger, LedgerError
from longshore_lab.records import Claimed, Entry, RunBegan

CLAIMED = Claimed(5, 4, "a job", 1)


def test_what_was_written_is_read_back_with_its_writer_in_order_of_time(tmp_path: Path):
    began = RunBegan(7, "a job", 3, 1, 1, 99)
    second, first = (Ledger(tmp_path, actor, role="worker") for actor in ("b", "a"))
    second.write(began)
    first.write(CLAIMED)

    pages = ledger.read(tmp_path)

    assert [entry for entry in pages.entries if entry.record.at < 10] == [
        Entry("a", CLAIMED),
        Entry("b", began),
    ]
    assert pages.torn == []


def test_a_last_line_cut_off_by_death_is_reported_and_left_out(tmp_path: Path):
    Ledger(tmp_path, "a", role="worker").write(CLAIMED, CLAIMED)
    path = tmp_path / "a.jsonl"
    path.write_bytes(path.read_bytes()[:-3])

    pages = ledger.read(tmp_path)

    assert pages.torn == ["a"]
    assert sum(entry.record == CLAIMED for entry in pages.entries) == 1


def test_a_line_spoilt_in_the_middle_is_an_error(tmp_path: Path):
    Ledger(tmp_path, "a", role="worker").write(CLAIMED, CLAIMED)
    path = tmp_path / "a.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"claimed"', b'"claimXd"', 1))

    with pytest.raises(LedgerError, match=r"a\.jsonl, line 2"):
        ledger.read(tmp_path)


def test_an_actor_writes_one_ledger_in_its_life(tmp_path: Path):
    Ledger(tmp_path, "a", role="worker")

    with pytest.raises(FileExistsError):
        Ledger(tmp_path, "a", role="worker")


def test_an_effect_asked_for_twice_is_applied_once(tmp_path: Path):
    effects = Effects(tmp_path / "effects")

    assert [effects.apply_once(3), effects.apply_once(3)] == [True, False]
    assert effects.cell(3) == Cell(asked=2, applied=1)
    assert effects.cell(4) == Cell(asked=0, applied=0)


def test_an_effect_without_a_guard_is_applied_as_often_as_it_is_asked_for(tmp_path: Path):
    effects = Effects(tmp_path / "effects")

    assert [effects.apply(3), effects.apply(3)] == [True, False]
    assert effects.cell(3) == Cell(asked=2, applied=2)


def ask_often(path: Path) -> None:
    effects = Effects(path)
    for _ in range(500):
        effects.apply_once(1)


def test_processes_that_ask_at_once_are_all_counted_and_served_once(tmp_path: Path):
    path = tmp_path / "effects"
    start = multiprocessing.get_context("spawn")
    processes = [start.Process(target=ask_often, args=(path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)

    assert Effects(path).cell(1) == Cell(asked=1000, applied=1)
