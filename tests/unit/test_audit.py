"""The chain of the audit log: nothing in it can be changed without being noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from longshore.core import audit
from longshore.core.audit import (
    GENESIS,
    Entry,
    Fault,
    Kind,
    Mark,
    Standing,
    Verifier,
    read_mark,
)
from longshore.errors import ConfigError

FIELDS = ("number", "at", "kind", "tenant", "actor", "action", "subject", "body", "hash")


def an_entry(number: int) -> Entry:
    facts = b'{"queue":"mail%d"}' % number
    return Entry(0, number, Kind.ACTION, "acme", "key 1", "queue.pause", "mail", facts)


def a_log(entries: int = 6, *, cut: int = 0, kept: int = 90) -> tuple[Standing, list[Entry]]:
    """A log of so many entries, of which the oldest were cut off after so long."""
    whole = audit.append(GENESIS, [an_entry(number) for number in range(entries)])
    anchor = GENESIS
    if cut:
        anchor = Mark(whole[cut - 1].number, whole[cut - 1].hash)
        head = Mark(whole[-1].number, whole[-1].hash)
        whole += audit.append(head, [audit.cut(anchor, at=99, before=99 - kept, actor="anna")])
    last = whole[-1]
    return Standing(anchor, Mark(last.number, last.hash)), whole[cut:]


def fault_of(standing: Standing, entries: list[Entry], *known: Mark) -> Fault | None:
    verifier = Verifier(standing, known)
    return verifier.read(entries) or verifier.end()


def changed(entry: Entry, field: str, place: int) -> Entry:
    value = getattr(entry, field)
    if field == "kind":
        return replace(entry, kind=Kind.TRANSITIONS)
    if isinstance(value, int):
        return replace(entry, **{field: value + 1 + place})
    if isinstance(value, str):
        return replace(entry, **{field: value[:place] + "\x7f" + value[place + 1 :]})
    place %= len(value)
    flipped = bytes([value[place] ^ 1])
    return replace(entry, **{field: value[:place] + flipped + value[place + 1 :]})


def test_a_log_that_nobody_touched_is_whole_also_without_its_old_end():
    assert fault_of(*a_log()) is None
    assert fault_of(*a_log(cut=3)) is None
    assert fault_of(Standing(), []) is None


@given(
    cut=st.sampled_from([0, 2]),
    which=st.integers(0, 4),
    field=st.sampled_from(FIELDS),
    place=st.integers(0, 40),
)
def test_any_change_of_any_entry_is_found_at_that_entry(
    cut: int, which: int, field: str, place: int
):
    standing, entries = a_log(cut=cut)
    victim = entries[which]
    entries[which] = changed(victim, field, place)

    fault = fault_of(standing, entries)

    assert fault is not None
    assert fault.number <= victim.number + 1


@given(
    cut=st.sampled_from([0, 2]),
    order=st.permutations(range(5)),
    doubled=st.integers(0, 4),
    removed=st.sets(st.integers(0, 4), min_size=1),
)
def test_an_entry_that_is_removed_moved_or_inserted_is_found(
    cut: int, order: list[int], doubled: int, removed: set[int]
):
    standing, entries = a_log(5 + cut - (cut > 0), cut=cut)
    left = [one for place, one in enumerate(entries) if place not in removed]
    moved = [entries[place] for place in order]
    twice = [*entries[: doubled + 1], *entries[doubled:]]
    forged = an_entry(7)
    inserted = [*entries[:doubled], replace(forged, number=entries[doubled].number)]

    assert fault_of(standing, left) is not None
    assert (fault_of(standing, moved) is None) == (order == [0, 1, 2, 3, 4])
    assert fault_of(standing, twice) is not None
    assert fault_of(standing, [*inserted, *entries[doubled:]]) is not None


def test_a_log_that_was_written_anew_betrays_itself_by_a_head_that_was_noted():
    standing, entries = a_log()
    noted = Mark(entries[2].number, entries[2].hash)
    shorter = entries[:2]
    forged = audit.append(GENESIS, [replace(an_entry(0), actor="nobody"), *entries[1:]])

    cut_off = Standing(GENESIS, Mark(2, shorter[-1].hash))
    rewritten = Standing(GENESIS, Mark(forged[-1].number, forged[-1].hash))

    assert fault_of(standing, entries, noted) is None
    assert fault_of(cut_off, shorter) is None
    assert fault_of(cut_off, shorter, noted) == Fault(3, "the log once went on to entry 3")
    assert fault_of(rewritten, forged) is None
    assert getattr(fault_of(rewritten, forged, noted), "number", None) == 3


def test_the_old_end_cannot_go_without_a_word_of_it():
    standing, entries = a_log()
    anchor = Mark(entries[1].number, entries[1].hash)

    fault = fault_of(Standing(anchor, standing.head), entries[2:])

    assert fault == Fault(2, "nothing tells of the cut that the log begins with")


def test_a_head_from_before_the_beginning_is_not_compared():
    whole = a_log()[1]
    standing, entries = a_log(cut=3)
    marks = [Mark(one.number, one.hash) for one in whole]
    verifier = Verifier(standing, [*marks, GENESIS])

    assert (verifier.read(entries), verifier.end()) == (None, None)
    assert verifier.not_compared == marks[:2]


def test_every_head_that_was_noted_of_an_entry_is_compared():
    standing, entries = a_log()
    noted, forged = Mark(2, entries[1].hash), Mark(2, bytes(32))

    for heads in ((noted, forged), (forged, noted)):
        assert getattr(fault_of(standing, entries, *heads), "number", None) == 2
    assert fault_of(standing, entries, Mark(0, b"1" * 32)) is not None


def test_entries_that_were_cut_off_too_early_are_missed():
    standing, entries = a_log(cut=3, kept=90)
    late, early = Verifier(standing, keep=90), Verifier(standing, keep=91)

    assert (late.read(entries), late.end()) == (None, None)
    assert early.read(entries) is None
    fault = early.end()
    assert fault is not None
    assert fault.number == 3
    assert "anna" in fault.words


def test_a_head_is_read_as_it_was_printed():
    standing, _ = a_log()

    assert read_mark(f" {standing.head.text}\n") == standing.head
    with pytest.raises(ConfigError):
        read_mark(standing.head.text[:-1])
