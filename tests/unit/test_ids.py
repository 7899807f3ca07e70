"""Job ids."""

import gc
import os
import tracemalloc
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.core import ids
from longshore.runtime.clock import ManualClock
from longshore.runtime.ids import IdSource


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_an_id_is_a_uuid_of_version_7_of_its_millisecond(unix_ms: int, random: bytes) -> None:
    made = ids.make(unix_ms, random)

    uuid = UUID(bytes=made)
    assert (uuid.version, uuid.variant) == (7, RFC_4122)
    assert uuid.int >> 80 == unix_ms


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_an_id_comes_back_from_its_text(unix_ms: int, random: bytes) -> None:
    made = ids.make(unix_ms, random)

    assert ids.text(made) == str(UUID(bytes=made))
    assert ids.parse(ids.text(made)) == made
    assert ids.parse(ids.text(made).upper()) == made


@given(st.text() | st.uuids(version=4).map(str))
def test_nothing_else_is_an_id(words: str) -> None:
    with pytest.raises(ValueError, match="not a job id"):
        ids.parse(words)


def test_ids_of_later_milliseconds_sort_later() -> None:
    clock = ManualClock()
    source = IdSource(clock)
    first = source.make()
    clock.advance(1_000)

    assert source.make() > first


def test_no_two_ids_are_the_same() -> None:
    source = IdSource(ManualClock())

    assert len({source.make() for _ in range(20_000)}) == 20_000


def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    source = IdSource(ManualClock())
    source.make()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, source.make())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(read, 16) != source.make()


def test_a_source_that_nobody_uses_takes_no_memory() -> None:
    IdSource(ManualClock()).make()
    tracemalloc.start()
    try:
        for _ in range(100):
            IdSource(ManualClock()).make()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 1_000_000
