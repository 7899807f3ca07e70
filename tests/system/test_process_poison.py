"""Jobs that go wrong in every way, beside healthy ones: every run of each, by a ledger."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from poison_yard import Yard, job, open_yard

from longshore.core.job import Job, NewJob
from longshore.core.state import State
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

KINDS = ("raise", "exit", "segfault", "hoard", "hang")
ERRORS = {
    "raise": "ValueError",
    "exit": "SystemExit",
    "segfault": "crash",
    "hoard": "memory",
    "hang": "timeout",
}
CHILDREN = ("--children", "8")


class Poison(NamedTuple):
    """A job, how often it has to run, and how it has to end."""

    job: NewJob
    runs: int
    end: tuple[str, str, int, int]
    """Reason, kind of the last error, failures, crashes."""


def poison(n: int) -> Poison:
    """One of the five kinds, with each number of attempts or crashes from 1 to 5."""
    how, most, other = KINDS[n % 5], 1 + n // 5 % 5, 1 + n // 25 % 5
    executor = ("process", "thread", "async")[n // 5 % 3]
    timeout = 400_000 if how == "hang" else 60_000_000
    if how == "segfault":
        wrong = job(f"poison_{most}", n, how=how, max_attempts=other, timeout=timeout)
        return Poison(wrong, most, ("poison", ERRORS[how], 0, most))
    is_apart = how == "hoard" or executor == "process"
    kind = how
    if how == "hang" and is_apart and n // 15 % 4:
        # Three of four do so without the processor, which the others need.
        how = "deadlock"
    name = f"poison_{other}" if is_apart else f"poison_{executor}"
    wrong = job(name, n, how=how, max_attempts=most, timeout=timeout)
    return Poison(wrong, most, ("exhausted", ERRORS[kind], most, 0))


def healthy(n: int) -> NewJob:
    kinds = ("healthy", "healthy_async", "healthy_thread")
    return job(kinds[n % 3], n, max_attempts=1)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def yard(url: str, tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(url, tmp_path) as yard:
        yield yard


def as_ended(it: Job) -> tuple[str | None, str | None, int, int]:
    return it.reason, it.failure and it.failure.kind, it.failures, it.crashes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "first", "count"),
    [
        ("sqlite", 0, 5),
        *(
            pytest.param(engine, first, 500, marks=pytest.mark.prove)
            for engine in ("sqlite", "postgres")
            for first in range(0, 3_000, 500)
        ),
    ],
    indirect=["url"],
)
async def test_every_poison_job_runs_exactly_as_often_as_it_may_and_no_neighbour_is_harmed(
    yard: Yard, first: int, count: int
):
    """Every kind with every number is among 375 of them; the long run is six times 500."""
    bad = {n: poison(n) for n in range(first, first + count)}
    good = [healthy(n) for n in range(10_000, 10_000 + count)]
    mixed = [
        one
        for wrong, right in zip(bad.values(), good, strict=True)
        for one in (wrong.job, right)
    ]
    await yard.submit(mixed)
    (yard.folder / "longshore.toml").write_text('[worker]\nchild_grace = "100ms"\n')

    async def is_over() -> bool:
        (queue,) = await yard.engine.counts()
        return not (queue.ready or queue.running or queue.scheduled)

    with yard.worker(*CHILDREN):
        await eventually(is_over, within=60.0 + 2 * count, every=0.2)

    runs = yard.runs()
    assert {n: runs[n] for n in bad} == {n: one.runs for n, one in bad.items()}
    dead = [await yard.engine.get(one.job.id) for one in bad.values()]
    assert Counter(one.state for one in dead) == {State.DEAD: count}
    assert [as_ended(one) for one in dead] == [one.end for one in bad.values()]
    healthy_ones = [await yard.engine.get(one.id) for one in good]
    assert Counter(one.state for one in healthy_ones) == {State.SUCCEEDED: count}
    facts = {(one.attempt, one.failures, one.crashes, one.lapses) for one in healthy_ones}
    assert facts == {(1, 0, 0, 0)}
    assert {runs[n] for n in range(10_000, 10_000 + count)} == {1}
