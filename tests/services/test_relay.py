"""A relay hands every event to its sink, in order, whatever happens to either."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from longshore.contract import Engine
from longshore.core.cloudevent import subject
from longshore.core.event import EXPENDABLE, Event, Name
from longshore.core.job import Report
from longshore.engines import open_engine
from longshore.records import quarantine
from longshore.relay.relay import LEASE_US, MOST_EVENTS, Relay
from longshore.relay.sink import Refused, SinkError
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker
from longshore_lab.bus import Record, balance, read_outbox


class Basket:
    """A sink that keeps what it is given in a list."""

    name = "basket"

    def __init__(self) -> None:
        self.kept: list[Event] = []
        self.sizes: list[int] = []
        self.is_down = False
        self.crashes = False
        self.refuses: set[Name] = set()

    async def send(
        self, events: Sequence[Event], *, keep: Callable[[], Awaitable[None]]
    ) -> list[Refused]:
        await keep()
        self.sizes.append(len(events))
        if self.is_down:
            raise SinkError("no room")
        self.kept += [one for one in events if one.name not in self.refuses]
        if self.crashes:
            raise RuntimeError("killed between handing over and noting it")
        return [Refused(one, "odd", b"body") for one in events if one.name in self.refuses]

    async def close(self) -> None:
        pass


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(clock: ManualClock) -> AsyncIterator[Engine]:
    engine = open_engine("sqlite://:memory:", clock=clock)
    await engine.migrate()
    yield engine
    await engine.close()


def _relay(engine: Engine, sink: Basket, holder: str = "a") -> Relay:
    return Relay(engine, sink, holder=holder)


async def _work(engine: Engine, jobs: int = 3) -> None:
    await engine.submit([a_job() for _ in range(jobs)])
    worker = await a_worker(engine)
    for claim in await worker.claim(jobs):
        await worker.succeed(claim)


async def test_every_event_is_handed_over_once_and_in_order(
    engine: Engine, clock: ManualClock
) -> None:
    sink = Basket()
    relay = _relay(engine, sink)
    await _work(engine)
    clock.advance(2_000_000)
    await relay.tick()
    await _work(engine)
    await relay.tick()

    assert sink.kept == await read_outbox(engine)
    assert (relay.stats.sent, relay.stats.is_active) == (len(sink.kept), True)
    (known,) = await engine.consumers()
    assert (known.behind, known.holder) == (0, "a")


async def test_one_relay_ships_and_another_goes_on_when_it_leaves_or_dies(
    engine: Engine, clock: ManualClock
) -> None:
    sink = Basket()
    first, second = _relay(engine, sink), _relay(engine, sink, "b")
    await _work(engine)
    await first.tick()
    await second.tick()
    stood_by = second.stats.is_active
    await first.close()
    await _work(engine)
    await second.tick()
    clock.advance(LEASE_US)  # the second is not heard of any more
    await _work(engine)
    third = _relay(engine, sink, "c")
    await third.tick()
    await second.tick()

    assert not stood_by
    assert sink.kept == await read_outbox(engine)
    assert (second.stats.is_active, third.stats.is_active) == (False, True)


async def test_a_sink_that_is_down_gets_everything_later_with_the_same_ids(
    engine: Engine, clock: ManualClock
) -> None:
    sink = Basket()
    relay = _relay(engine, sink)
    sink.is_down = True
    await _work(engine)
    pauses = [await relay.tick() for _ in range(12)]
    clock.advance(5 * LEASE_US)
    await relay.tick()
    sink.is_down, sink.crashes = False, True
    with pytest.raises(RuntimeError):
        await relay.tick()
    sink.crashes = False
    await relay.tick()

    events = await read_outbox(engine)
    assert sink.kept == events + events
    assert relay.stats.failures == 13
    assert pauses[0] < 1
    assert max(pauses) < LEASE_US / 1e6 / 2


async def test_what_a_sink_refuses_is_set_aside_and_the_others_flow(engine: Engine) -> None:
    sink = Basket()
    sink.refuses = {Name.STARTED}
    relay = _relay(engine, sink)
    await _work(engine, jobs=2)
    await relay.tick()

    aside = await quarantine.latest(engine, limit=10)
    events = await read_outbox(engine)
    assert sorted(one.event_id for one in aside) == sorted(
        one.id for one in events if one.name is Name.STARTED
    )
    assert {(one.consumer, one.reason, one.body) for one in aside} == {
        ("basket", "odd", b"body")
    }
    assert sink.kept == [one for one in events if one.name is not Name.STARTED]
    assert relay.stats.quarantined == 2


async def _report(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    report = Report(handle=claim.handle, delivery=claim.delivery, fraction=0.5, message=None)
    await worker.exchange(progress=[report])


async def test_a_relay_that_is_far_behind_leaves_out_progress_and_nothing_else(
    engine: Engine, clock: ManualClock
) -> None:
    await _report(engine)
    sink = Basket()
    clock.advance(61_000_000)
    relay = _relay(engine, sink)

    sink.is_down = True
    await relay.tick()
    sink.is_down = False
    await relay.tick()

    events = await read_outbox(engine)
    assert Name.PROGRESS in EXPENDABLE & {one.name for one in events}
    assert sink.kept == [one for one in events if one.name is not Name.PROGRESS]
    assert relay.stats.left_out == 1


async def test_how_late_events_are_is_told_by_the_stores_clock_alone(
    engine: Engine, clock: ManualClock
) -> None:
    # The store's clock is years behind that of the process.
    await _report(engine)
    sink = Basket()
    relay = _relay(engine, sink)
    clock.advance(3_000_000)

    await relay.tick()

    assert sink.kept == await read_outbox(engine)
    assert Name.PROGRESS in {one.name for one in sink.kept}
    assert 3 <= relay.stats.lag_seconds < 4


async def test_a_handing_over_never_has_more_events_than_its_bound(engine: Engine) -> None:
    for _ in range(4):
        await engine.submit([a_job() for _ in range(MOST_EVENTS // 2 - 1)])
    sink = Basket()
    relay = _relay(engine, sink)

    pauses = [await relay.tick() for _ in range(3)]

    assert sink.sizes == [MOST_EVENTS - 2, MOST_EVENTS - 2]
    assert pauses[0] == 0
    assert pauses[1] > 0


async def test_a_batch_larger_than_the_bound_goes_in_parts_and_comes_again_whole(
    engine: Engine,
) -> None:
    await engine.submit([a_job() for _ in range(2 * MOST_EVENTS + 1)])
    await engine.submit([a_job()])
    sink = Basket()
    first, second = _relay(engine, sink), _relay(engine, sink, "b")
    for _ in range(2):
        await first.tick()
    (halfway,) = await engine.consumers()
    await first.close()  # as if it were killed: of the first batch nothing is noted
    for _ in range(4):
        await second.tick()

    events = await read_outbox(engine)
    assert sink.sizes == [MOST_EVENTS, MOST_EVENTS, MOST_EVENTS, MOST_EVENTS, 1, 1]
    assert sink.kept == [*events[: 2 * MOST_EVENTS], *events]
    assert halfway.position == 0


async def test_the_ledger_finds_what_is_missing_strange_doubled_and_out_of_order(
    engine: Engine,
) -> None:
    await _work(engine, jobs=1)
    events = await read_outbox(engine)
    records = [Record(one.id, subject(one), 0) for one in events]

    assert balance(events, records).is_sound
    assert balance(events, [*records, *records[1:]]).is_sound
    assert balance(events, [*records, *records[1:]]).doubles == len(records) - 1
    assert balance(events, records[1:]).missing == [events[0].id]
    assert balance(events, [*records, Record("0.0", "x", 0)]).strange == ["0.0"]
    assert balance(events, records[::-1]).disordered == [subject(events[0])]
    assert balance(events, [records[1], *records]).disordered == [subject(events[0])]
