"""Jobs that kill whole workers, the innocent beside them, and operators with kill -9."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from poison_yard import Yard, job, open_yard

from longshore.core.poison import victims
from longshore.core.state import State
from longshore.testing.harness import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]
prove = pytest.mark.prove


QUICK = [("fatal_2", "vanish")], 12
FULL = [("fatal_3", "vanish"), ("fatal_3", "segfault"), ("fatal_thread", "kill")], 120


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def yard(url: str, tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(url, tmp_path) as yard:
        yield yard


@pytest.mark.parametrize(
    ("url", "guilty", "innocent"),
    [
        ("postgres", *QUICK),
        pytest.param("sqlite", *FULL, marks=prove),
        pytest.param("postgres", *FULL, marks=prove),
    ],
    indirect=["url"],
)
async def test_jobs_that_kill_their_workers_end_as_poison_and_no_neighbour_does(
    yard: Yard, guilty: list[tuple[str, str]], innocent: int
):
    bad = [job(name, n, how=how) for n, (name, how) in enumerate(guilty)]
    kinds = ["healthy", "healthy_async", "healthy_thread"]
    good = [job(kinds[n % 3], n, seconds=0.2) for n in range(len(bad), len(bad) + innocent)]
    ids = await yard.submit([*good[: innocent // 2], *bad, *good[innocent // 2 :]])

    with yard.worker("--processes", "2", "--concurrency", "16"):
        await yard.ended(ids)

    most = [3 if name == "fatal_3" else 2 for name, _ in guilty]
    dead = [await yard.engine.get(one.id) for one in bad]
    assert [(one.state, one.reason) for one in dead] == [(State.DEAD, "poison")] * len(bad)
    assert [(one.failures, one.crashes) for one in dead] == [(0, times) for times in most]
    assert [yard.runs()[n] for n in range(len(bad))] == most
    healthy = [await yard.engine.get(one.id) for one in good]
    assert {one.state for one in healthy} == {State.SUCCEEDED}
    assert {one.failures for one in healthy} == {0}
    # Each run of a guilty job but the last may take one worker along, and nothing else does.
    ends = [line["code"] for line in yard.logged("worker ended")]
    deaths = [code for code in ends if code not in (0, -signal.SIGTERM)]
    assert 1 <= len(deaths) <= sum(most) - len(most)
    histories = [await yard.history(one.id) for one in bad]
    named = {one for history in histories for one in victims(history)}
    crashed = {one.id for one in [*healthy, *dead] if one.crashes}
    assert {bytes.fromhex(one.replace("-", "")) for one in named} <= crashed


@pytest.mark.parametrize(
    ("url", "name", "kills"),
    [
        ("sqlite", "linger_2", 3),
        pytest.param("sqlite", "linger_3", 6, marks=prove),
        pytest.param("postgres", "linger_3", 6, marks=prove),
    ],
    indirect=["url"],
)
async def test_an_operator_who_kills_workers_makes_no_innocent_job_dead(
    yard: Yard, name: str, kills: int
):
    (held,) = await yard.submit([job(name, 0, timeout=600_000_000)])
    for count in range(1, kills + 1):
        known = await yard.tokens()
        with yard.worker() as worker:

            async def runs(count: int = count, known: set[int] = known) -> bool:
                return yard.runs()[0] == count and await yard.is_kept(known)

            await eventually(runs, within=30.0)
            os.kill(worker.pid, signal.SIGKILL)
            worker.wait()

    (yard.folder / "go").touch()
    with yard.worker():
        (ended,) = await yard.ended([held])

    assert (ended.state, ended.failures, ended.crashes) == (State.SUCCEEDED, 0, kills)
    history = await yard.history(held)
    assert [one.outcome for one in history] == ["crashed"] * kills + ["succeeded"]
    assert yard.runs()[0] == kills + 1
    # Until it was a suspect it ran in its worker, whose parent is this process.
    in_worker = [parent == os.getpid() for _, _, parent in yard.ledger()]
    most = int(name[-1])
    assert in_worker == [True] * (most - 1) + [False] * (kills + 2 - most)
