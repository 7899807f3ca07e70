"""The rules of the queue are in `core`. What engines do in SQL comes to the same, case by case.

Each test runs a history on a real store and, beside it, through the functions of `core` alone.
The functions that PostgreSQL computes rules with are compared one by one in
`postgres/test_postgres_rules.py`.
"""

import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from itertools import count, product
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from longshore.contract import Engine
from longshore.core import circuit_breaker, limit_settings, ordering_key
from longshore.core.account import Tenant
from longshore.core.circuit_breaker import Outcome, Standing
from longshore.core.fair_queueing import Turns
from longshore.core.job import Claim
from longshore.core.limit_settings import (
    LONGEST_AGING_US,
    BreakerSettings,
    Layer,
    OnDead,
    Order,
    QueueSettings,
)
from longshore.core.ordering_key import LineName
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.errors import ConfigError
from longshore.records import breaker_settings, queue_settings, tenants
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import DAY, HOUR, MINUTE, SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker

# Each example has a queue of its own, so the store need not be emptied between them.
EXAMPLES = settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
LEASE = 1_000 * DAY
RATES = st.sampled_from([None, 0.001, 0.3, 2.0, 33.333, 1_000_000.0])
BURSTS = st.sampled_from([None, 1, 5, 1_000_000])
WAITS = st.sampled_from([1, 999, 333_333, SECOND // 2, SECOND, 10 * SECOND, HOUR])
Step = tuple[str, Any]

_numbers = count()


@asynccontextmanager
async def working(engine: Engine, queue: str) -> AsyncGenerator[ManualWorker]:
    """A worker of one queue, whose type has the same name."""
    worker = await a_worker(engine, queues=[queue], types=[queue], lease=LEASE)
    yield worker
    await worker.session.close()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(url: str, clock: ManualClock) -> AsyncIterator[Engine]:
    engine = open_engine(url, clock=clock)
    await engine.migrate()
    yield engine
    await engine.close()


def a_name() -> str:
    """A name that no other example has."""
    return f"n{next(_numbers)}"


async def stored(url: str, *, sqlite: str, postgres: str) -> list[tuple[Any, ...]]:
    """What the store itself has."""
    if url.startswith("postgresql"):
        connection = await asyncpg.connect(url)
        rows = await connection.fetch(postgres)
        await connection.close()
        return [tuple(row) for row in rows]
    with closing(sqlite3.connect(url.removeprefix("sqlite:///").partition("?")[0])) as db:
        return db.execute(sqlite).fetchall()


async def test_a_job_has_the_rank_that_core_says(
    engine: Engine, clock: ManualClock, url: str
) -> None:
    orders = [
        QueueSettings(),
        *(QueueSettings(order=order) for order in Order),
        *(QueueSettings(order=Order.AGING, aging=it) for it in (0, 7_000_001)),
        QueueSettings(order=Order.AGING, aging=LONGEST_AGING_US),
    ]
    whens = [{}, {"ago": 5 * SECOND}, {"later": 1}, {"later": HOUR}, {"delay": DAY}]
    keys = [{}, {"ordering_key": "anna"}, {"idempotency_key": "it"}]
    expected: dict[str, set[int]] = {}
    for number, said in enumerate(orders):
        if limit_settings.said(said):
            await queue_settings.put(engine, f"q{number}", Layer.DECLARED, said)
        cases = product((1, 5, 9), whens, keys, (1, 2))
        for priority, when, key, jobs in cases:
            clock.advance(7_919)
            now, name = clock.now(), a_name()
            options: dict[str, Any] = {"delay": when["delay"]} if "delay" in when else {}
            if "ago" in when or "later" in when:
                options["run_at"] = now - when.get("ago", 0) + when.get("later", 0)
            if key:
                options |= {field: f"{value}-{name}" for field, value in key.items()}
            alike = [
                a_job(queue=f"q{number}", type=name, priority=priority, **options)
                for _ in range(1 if "idempotency_key" in key else jobs)
            ]
            await engine.submit(alike)
            due = options.get("run_at", now + options.get("delay", 0))
            arrival = due if due > now else (await engine.get(alike[0].id)).created_at
            rank = limit_settings.rank(said, priority, arrival, punctual=due > now)
            expected[name] = {rank}

    found: dict[str, set[int]] = {}
    for name, rank in await stored(
        url,
        sqlite="select type, rank from longshore_job",
        postgres="select type, rank from longshore.ready"
        " union all select type, rank from longshore.scheduled"
        " union all select type, rank from longshore.parked",
    ):
        found.setdefault(name, set()).add(rank)

    assert found == expected


WEIGHTS = {"ann": 2, "bob": 1, "cid": 1_000, "dot": 17, "eve": 3}
TENANTS = [*WEIGHTS, "default", "stranger"]


@EXAMPLES
@given(
    st.lists(
        st.tuples(st.sampled_from(TENANTS), st.integers(1, 120))
        | st.tuples(st.just("claim"), st.integers(1, 150)),
        max_size=14,
    )
)
async def test_tenants_take_the_turns_that_core_gives_them(
    engine: Engine, url: str, steps: list[tuple[str, int]]
) -> None:
    for name, weight in WEIGHTS.items():
        with suppress(ConfigError):  # there, of an example before
            await tenants.create(engine, Tenant(name=name, weight=weight))
    queue = a_name()
    await queue_settings.put(engine, queue, Layer.DECLARED, QueueSettings(order=Order.FAIR))
    async with working(engine, queue) as worker:
        waiting, at, times = Counter[str](), 0, dict[str, int]()
        for what, number in steps:
            if what != "claim":
                waiting[what] += number
                await engine.submit(
                    [a_job(queue=queue, type=queue, tenant=what) for _ in range(number)]
                )
                continue
            present = {name: WEIGHTS.get(name, 1) for name in +waiting}
            turns, expected = Turns(at, times, present), list[str]()
            while len(expected) < number and (turn := turns.next()):
                tenant, most = turn
                asked = min(most, number - len(expected))
                jobs = min(asked, waiting[tenant])
                turns.took(tenant, jobs, has_more=jobs == asked)
                waiting[tenant] -= jobs
                expected += [tenant] * jobs
            at, times = turns.at, times | turns.changed

            found = [claim.tenant for claim in await worker.claim(number)]

            assert found == expected

    which = f"where queue = '{queue}'"
    times[""] = at
    assert dict(
        await stored(
            url,
            sqlite=f"select '', vtime from longshore_flow {which}"
            f" union all select tenant, vtime from longshore_fair {which}",
            postgres=f"select '', vtime from longshore.flow {which}"
            f" union all select tenant, vtime from longshore.fair {which}",
        )
    ) == {name: time for name, time in times.items() if time > at or not name}


@EXAMPLES
@example(
    QueueSettings(max_running=3),
    [("submit", 9), ("claim", 5), ("end", 1), ("claim", 5), ("end", 2), ("claim", 1)],
)
@example(
    QueueSettings(rate=2.0, burst=1),
    [("submit", 9), ("claim", 5), ("wait", SECOND // 2), ("claim", 1), ("claim", 1)],
)
@given(
    st.builds(
        QueueSettings,
        max_running=st.sampled_from([None, 1, 3, 40]),
        rate=RATES,
        burst=BURSTS,
    ),
    st.lists(
        st.tuples(st.just("submit"), st.integers(1, 60))
        | st.tuples(st.just("claim"), st.integers(1, 50))
        | st.tuples(st.just("end"), st.integers(1, 20))
        | st.tuples(st.just("wait"), WAITS),
        max_size=14,
    ),
)
async def test_a_claim_takes_what_core_says_that_a_limited_queue_has_room_for(
    engine: Engine, clock: ManualClock, said: QueueSettings, steps: list[tuple[str, int]]
) -> None:
    queue = a_name()
    await queue_settings.put(engine, queue, Layer.DECLARED, said)
    async with working(engine, queue) as worker:
        ready, held, empty_at = 0, list[Claim](), None
        for what, number in steps:
            now = clock.now()
            match what:
                case "submit":
                    ready += number
                    await engine.submit([a_job(queue=queue, type=queue) for _ in range(number)])
                case "end":
                    for claim in held[:number]:
                        await worker.succeed(claim)
                    held = held[number:]
                case "wait":
                    clock.advance(number)
                case _:
                    room = limit_settings.room(
                        said, running=len(held), empty_at=empty_at, now=now
                    )
                    expected = min(number, room, ready)
                    empty_at = limit_settings.took(said, empty_at, jobs=expected, now=now)
                    ready -= expected
                    look = None
                    if room < number and ready:
                        look = limit_settings.look_in(said, empty_at, now=now)

                    answer = await worker.exchange(want=number)

                    held += answer.claims
                    assert (len(answer.claims), answer.look_in) == (expected, look)


class CoreLine:
    """What becomes of one ordering key, by the functions of core."""

    def __init__(self, said: QueueSettings) -> None:
        self.said = said
        self.inside = self.parked = self.dead = 0
        self.empty_at: int | None = None
        self.opens_at: int | None = None

    def join(self, jobs: int, now: int) -> None:
        self.parked += jobs
        self.move_up(now)

    def leave(self, state: State, now: int) -> None:
        self.inside -= 1
        self.dead += ordering_key.blocks(self.said, state)
        self.move_up(now)

    def release(self, now: int) -> None:
        if self.dead:
            self.dead = 0
            self.move_up(now)

    def promote(self, now: int) -> None:
        if self.opens_at is not None and self.opens_at <= now:
            self.move_up(now)

    def move_up(self, now: int) -> None:
        def facts() -> dict[str, Any]:
            blocked, stored = self.dead > 0, self.empty_at
            return {
                "inside": self.inside,
                "is_blocked": blocked,
                "empty_at": stored,
                "now": now,
            }

        entering = min(ordering_key.room(self.said, **facts()), self.parked)
        self.empty_at = ordering_key.took(self.said, self.empty_at, jobs=entering, now=now)
        self.inside += entering
        self.parked -= entering
        self.opens_at = ordering_key.opens_at(self.said, **facts()) if self.parked else None

    @property
    def stands(self) -> tuple[int, int, int, int | None]:
        return self.inside, self.parked, self.dead, self.opens_at


@EXAMPLES
# What five tokens take is not five times what one takes: it is rounded up to a nanosecond.
@example(
    QueueSettings(max_running_per_key=5, rate_per_key=33.333, burst_per_key=5),
    [("submit", 5)],
)
@example(
    QueueSettings(max_running_per_key=1, rate_per_key=2.0, burst_per_key=1),
    [("submit", 3), ("end", "succeed"), ("wait", SECOND // 2), ("end", "succeed")],
)
@example(
    QueueSettings(on_dead=OnDead.BLOCK),
    [
        *[("submit", 3), ("end", "fail"), ("wait", 10 * SECOND), ("end", "kill")],
        *[("submit", 1), ("release", None), ("end", "stop")],
    ],
)
@given(
    st.builds(
        QueueSettings,
        max_running_per_key=st.sampled_from([None, 1, 2, 5]),
        rate_per_key=RATES,
        burst_per_key=BURSTS,
        on_dead=st.sampled_from([None, *OnDead]),
    ),
    st.lists(
        st.tuples(st.just("submit"), st.integers(1, 9))
        | st.tuples(st.just("end"), st.sampled_from(["succeed", "kill", "fail", "stop"]))
        | st.tuples(st.just("wait"), WAITS)
        | st.just(("release", None)),
        max_size=14,
    ),
)
async def test_an_ordering_key_lets_in_what_core_has_room_for(
    engine: Engine, clock: ManualClock, url: str, said: QueueSettings, steps: list[Step]
) -> None:
    name = LineName(a_name(), "default", "anna")
    await queue_settings.put(engine, name.queue, Layer.DECLARED, said)
    async with working(engine, name.queue) as worker:
        core, held = CoreLine(said), list[Claim]()
        for what, it in steps:
            match what:
                case "submit":
                    core.join(it, clock.now())
                    await engine.submit(
                        [
                            a_job(queue=name.queue, type=name.queue, ordering_key=name.key)
                            for _ in range(it)
                        ]
                    )
                case "end":
                    held += await worker.claim(99)
                    if held:
                        await _end(worker, held.pop(0), it)
                        # One that is tried again keeps its place.
                        ends = {"succeed": State.SUCCEEDED, "kill": State.DEAD}
                        if it != "fail":
                            core.leave(ends.get(it, State.CANCELLED), clock.now())
                case "wait":
                    clock.advance(it)
                    core.promote(clock.now())
                    await engine.promote(limit=1_000)
                case _:
                    core.release(clock.now())
                    await engine.release_line(name.queue, name.key)

            assert await _stands(engine, name) == core.stands

    buckets = await stored(
        url,
        sqlite=f"select empty_at, full_at from longshore_bucket where name = '{name.bucket}'",
        postgres=f"select empty_at, full_at from longshore.bucket where name = '{name.bucket}'",
    )
    limit, empty_at = ordering_key.bucket_limit(said), core.empty_at
    expected: list[tuple[Any, ...]] = []
    if limit is not None and empty_at is not None:
        expected = [(empty_at, limit.full_at(empty_at))]
    assert buckets == expected


async def _stands(engine: Engine, name: LineName) -> tuple[int, int, int, int | None]:
    it = await engine.line(name.queue, name.key)
    return (0, 0, 0, None) if it is None else (it.inside, it.parked, len(it.dead), it.opens_at)


async def _end(worker: ManualWorker, claim: Claim, how: str) -> None:
    await {
        "succeed": worker.succeed,
        "kill": worker.kill,
        "fail": worker.fail,
        "stop": worker.stop,
    }[how](claim)


async def test_a_breaker_holds_back_what_core_says(engine: Engine, clock: ManualClock) -> None:
    for probes, running, want in product((1, 2, 3), (0, 1, 3), (1, 5)):
        name = a_name()
        said = BreakerSettings(failures=1, cooldown=MINUTE, probes=probes)
        held = circuit_breaker.rules(said)
        assert held is not None
        await breaker_settings.put(engine, name, Layer.DECLARED, said)
        async with working(engine, name) as worker:
            await engine.submit(
                [a_job(queue=name, type=name, max_attempts=1) for _ in range(30)]
            )
            *_, last = await worker.claim(running + 1)
            await worker.fail(last)
            told = [Outcome("default", is_success=False)]
            standing, _ = circuit_breaker.observe(Standing(), held, told, clock.now())
            for wait in (0, 1, MINUTE - 2, 1, 0, 1):
                clock.advance(wait)
                now = clock.now()
                standing = circuit_breaker.waking(standing, now)
                room = circuit_breaker.room(standing, held, running=running, now=now)
                assert room is not None
                expected = min(want, room)
                running += expected
                look = None if room else circuit_breaker.look_in(standing, now)

                answer = await worker.exchange(want=want)

                assert (len(answer.claims), answer.look_in) == (expected, look)


async def test_a_breaker_that_nothing_opened_holds_nothing_back(engine: Engine) -> None:
    name = a_name()
    said = BreakerSettings(failures=2, probes=1)
    await breaker_settings.put(engine, name, Layer.DECLARED, said)
    async with working(engine, name) as worker:
        await engine.submit([a_job(queue=name, type=name, max_attempts=1) for _ in range(9)])
        (first,) = await worker.claim()
        await worker.fail(first)
        held = circuit_breaker.rules(said)
        assert held is not None
        told = [Outcome("default", is_success=False)]
        standing, _ = circuit_breaker.observe(Standing(), held, told, await engine.now())

        answer = await worker.exchange(want=5)

        assert circuit_breaker.room(standing, held, running=0, now=await engine.now()) is None
        assert (len(answer.claims), answer.look_in) == (5, None)
