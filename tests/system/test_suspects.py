"""Jobs that kill whole workers, the innocent beside them, and operators with kill -9."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from poison_yard import Yard, job, open_yard

from longshore.core.job import NewJob
from longshore.core.poison import unreported, victims
from longshore.core.state import State
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually
from longshore.worker import seccomp_guard

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]
prove = pytest.mark.prove
ENGINES = ("sqlite", "postgres")


QUICK = [("fatal_2", "vanish")], 12
FULL = [("fatal_3", "vanish"), ("fatal_3", "segfault"), ("fatal_thread", "refuse")], 120


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def yard(url: str, tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(url, tmp_path) as yard:
        yield yard


@pytest.mark.slow
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
        await yard.ended(ids, within=60.0 + 3 * innocent)

    most = [3 if name == "fatal_3" else 2 for name, _ in guilty]
    dead = [await yard.engine.get(one.id) for one in bad]
    assert [(one.state, one.reason) for one in dead] == [(State.DEAD, "poison")] * len(bad)
    assert [(one.failures, one.crashes) for one in dead] == [(0, times) for times in most]
    assert [yard.runs()[n] for n in range(len(bad))] == most
    healthy = [await yard.engine.get(one.id) for one in good]
    assert {one.state for one in healthy} == {State.SUCCEEDED}
    assert {one.failures for one in healthy} == {0}
    # Each run of a guilty job but the last may take one worker along, and nothing else does.
    ends = yard.logged("worker ended")
    deaths = [one for one in ends if one["crashed"] and one["code"] != -signal.SIGTERM]
    assert 1 <= len(deaths) <= sum(most) - len(most)
    histories = [await yard.history(one.id) for one in bad]
    named = {one for history in histories for one in victims(history)}
    crashed = {one.id for one in [*healthy, *dead] if one.crashes}
    assert {bytes.fromhex(one.replace("-", "")) for one in named} <= crashed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "name", "kills"),
    [
        ("sqlite", "linger_1", 1),
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

            await eventually(runs, within=60.0)
            os.kill(worker.pid, signal.SIGKILL)
            worker.wait()

    (yard.folder / "go").touch()
    with yard.worker():
        (ended,) = await yard.ended([held])

    assert (ended.state, ended.failures, ended.crashes) == (State.SUCCEEDED, 0, kills)
    # From the fourth on it is put off before it runs again, uncharged.
    ran = [one for one in await yard.history(held) if one.outcome != "snoozed"]
    assert [one.outcome for one in ran] == ["crashed"] * kills + ["succeeded"]
    assert yard.runs()[0] == kills + 1
    # Until it was a suspect it ran in its worker, whose parent is this process.
    in_worker = [parent == os.getpid() for _, _, parent in yard.ledger()]
    most = int(name[-1])
    assert in_worker == [True] * (most - 1) + [False] * (kills + 2 - most)


@pytest.mark.parametrize(
    ("url", "sweep"),
    [("sqlite", [0]), *(pytest.param(one, [*range(6)], marks=prove) for one in ENGINES)],
    indirect=["url"],
)
async def test_a_job_that_kills_its_parent_dies_alone_and_no_worker_does(
    yard: Yard, sweep: list[int]
):
    """Each task says how many crashes it may have, but for the first the worker does."""
    (yard.folder / "longshore.toml").write_text("[worker]\nmax_crashes = 1\n")
    bad = [job(f"poison_{n}", n, how="parricide") for n in sweep]
    good = [job("healthy", 100 + n, seconds=0.1) for n in range(4)]
    ids = await yard.submit([*good[:2], *bad, *good[2:]])

    with yard.worker("--children", "2") as worker:
        ended = await yard.ended(ids)
        code = worker.poll()

    assert code is None
    by_id = {one.id: one for one in ended}
    dead, most = [by_id[one.id] for one in bad], [n or 1 for n in sweep]
    assert [(one.state, one.reason) for one in dead] == [(State.DEAD, "poison")] * len(bad)
    assert [(one.failures, one.crashes) for one in dead] == [(0, times) for times in most]
    assert [yard.runs()[n] for n in sweep] == most
    healthy = [by_id[one.id] for one in good]
    assert {(one.state, one.crashes) for one in healthy} == {(State.SUCCEEDED, 0)}


@pytest.mark.skipif(not seccomp_guard.is_possible(), reason="the kernel has no fence")
@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite", "poison_1"),
        ("postgres", "fatal_2"),
        *(
            pytest.param(one, f"{kind}_{n}", marks=prove)
            for one in ENGINES
            for n in (1, 2, 3, 4, 5)
            for kind in ("poison", "fatal")
        ),
    ],
    indirect=["url"],
)
async def test_a_job_that_finds_and_kills_its_worker_is_poison_after_one_run_more(
    yard: Yard, name: str
):
    bad = job(name, 0, how="patricide")
    good = [job("healthy", 100 + n, seconds=0.1) for n in range(4)]
    ids = await yard.submit([*good[:2], bad, *good[2:]])

    with yard.worker("--processes", "2", "--children", "2", "--lease", "6s"):
        ended = await yard.ended(ids, within=120.0)

    by_id, most = {one.id: one for one in ended}, int(name[-1]) + 1
    dead = by_id[bad.id]
    assert (dead.state, dead.reason) == (State.DEAD, "poison")
    assert (dead.failures, dead.crashes, yard.runs()[0]) == (0, most, most)
    assert dead.failure is not None
    assert "SIGSYS" in dead.failure.message
    healthy = [by_id[one.id] for one in good]
    assert {(one.state, one.failures) for one in healthy} == {(State.SUCCEEDED, 0)}


async def crashed_twice(yard: Yard, jobs: list[NewJob]) -> None:
    """Two workers died while they ran all of these."""
    await yard.submit(jobs)
    types = sorted({one.type for one in jobs})
    for _ in range(2):
        session = await yard.engine.open_session(
            worker="gone", queues=["default"], types=types, lease=60_000_000
        )
        claims = (await session.exchange(1, want=len(jobs))).claims
        assert len(claims) == len(jobs)
        await session.exchange(2, started=[(one.handle, one.delivery) for one in claims])
        held = await yard.engine.held(session.token)
        await yard.engine.end_session(session.token, unreported(held or []))


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_suspect_runs_in_a_child_as_it_would_in_its_worker_or_else_alone_there(
    yard: Yard,
):
    kinds = ["pass_on", "healthy_thread", "transact"]
    jobs = [job(name, n) for n, name in enumerate(kinds)] + [a_job(type="noop")]
    await crashed_twice(yard, jobs)

    with yard.worker("--children", "2") as worker:
        ended = await yard.ended([one.id for one in jobs])

    assert {(one.state, one.failures, one.crashes) for one in ended} == {
        (State.SUCCEEDED, 0, 2)
    }
    places = {n: pid for n, pid, _ in yard.ledger()}
    # No two share a process; the last needs the worker's own connection.
    assert len({places[n] for n in range(3)}) == 3
    assert places[2] == worker.pid


@pytest.mark.parametrize(
    "url",
    [pytest.param(one, marks=prove) for one in ("sqlite", "postgres")],
    indirect=True,
)
async def test_a_job_that_takes_whole_machines_along_is_poison_once_it_was_alone_twice(
    yard: Yard,
):
    (held,) = await yard.submit([job("linger_2", 0, timeout=600_000_000)])
    for count in (1, 2, 3):
        with yard.worker("--lease", "5s") as worker:

            async def is_known(count: int = count) -> bool:
                it = await yard.engine.get(held)
                return yard.runs()[0] == count and it.started_at is not None

            await eventually(is_known, within=60.0)
            keepers = [int(one["pid"]) for one in yard.logged("keeper started")]
            for pid in (keepers[-1], worker.pid):
                os.kill(pid, signal.SIGKILL)
            worker.wait()

    with yard.worker("--lease", "5s"):
        (ended,) = await yard.ended([held])

    assert (ended.state, ended.reason, ended.crashes) == (State.DEAD, "poison", 3)
    assert yard.runs()[0] == 3
    history = await yard.history(held)
    assert [one.outcome for one in history] == ["crashed"] * 3 + ["condemned"]


@pytest.mark.parametrize("url", ENGINES, indirect=True)
async def test_a_job_that_kills_its_worker_inside_its_transaction_ends_as_poison(yard: Yard):
    """No child can run it, so workers die of it until two in a row died of it alone."""
    (held,) = await yard.submit([job("fatal_in_transaction", 0)])

    with yard.worker("--processes", "2"):
        (ended,) = await yard.ended([held])

    assert (ended.state, ended.reason, ended.failures) == (State.DEAD, "poison", 0)
    assert (ended.crashes, yard.runs()[0]) == (3, 3)
