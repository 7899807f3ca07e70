import pytest

from longshore.contract import Engine, Retention
from longshore.core.consumer import Cursor, Quarantined
from longshore.core.event import EventBatch, Name, expand
from longshore.errors import CursorLostError
from longshore.records import quarantine
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import DAY, HOUR, a_job

LEASE = 10_000_000
EVERYTHING = 1_000


async def _take(engine: Engine, *, consumer: str = "kafka", holder: str = "a") -> Cursor:
    cursor = await engine.take_cursor(consumer, holder=holder, lease=LEASE)
    assert cursor is not None
    return cursor


async def _unread(engine: Engine, cursor: Cursor, after: int = 0) -> list[EventBatch]:
    return await engine.events(after=after, limit=EVERYTHING, cursor=cursor)


async def _submit(engine: Engine, times: int) -> None:
    for _ in range(times):
        await engine.submit([a_job()])


async def test_a_consumer_reads_on_where_it_has_come_to_whoever_reads_for_it(
    engine: Engine,
) -> None:
    await _submit(engine, 3)
    cursor = await _take(engine)
    seen = await _unread(engine, cursor)
    await engine.advance(cursor, position=seen[1].position)
    await engine.advance(cursor, position=cursor.position, releases=True)

    later = await _take(engine, holder="b")
    rest = await _unread(engine, later, after=later.position)

    assert cursor.position == 0
    assert later.position == seen[1].position
    assert later.token > cursor.token
    assert rest == seen[2:]
    assert await engine.events(after=0, limit=10) == seen


async def test_one_holder_at_a_time_reads_for_a_consumer(
    engine: Engine, clock: ManualClock
) -> None:
    cursor = await _take(engine)
    clock.advance(LEASE - 1)
    refused = await engine.take_cursor("kafka", holder="b", lease=LEASE)
    elsewhere = await engine.take_cursor("audit", holder="b", lease=LEASE)
    await _unread(engine, cursor)
    clock.advance(LEASE - 1)
    still_refused = await engine.take_cursor("kafka", holder="b", lease=LEASE)
    clock.advance(1)

    taken = await engine.take_cursor("kafka", holder="b", lease=LEASE)

    assert (refused, still_refused) == (None, None)
    assert elsewhere is not None
    assert taken is not None
    assert taken.token > cursor.token


async def test_whoever_lost_a_cursor_can_neither_read_nor_move_it(
    engine: Engine, clock: ManualClock
) -> None:
    await _submit(engine, 2)
    cursor = await _take(engine)
    (first, second) = await _unread(engine, cursor)
    clock.advance(LEASE)
    taken = await _take(engine, holder="b")
    await engine.advance(taken, position=first.position)
    aside = _aside(second)

    with pytest.raises(CursorLostError):
        await _unread(engine, cursor)
    with pytest.raises(CursorLostError):
        await engine.advance(
            cursor, position=second.position, quarantined=[quarantine.put(aside, "default")]
        )
    with pytest.raises(CursorLostError):
        await engine.advance(cursor, position=cursor.position, releases=True)

    (known,) = await engine.consumers()
    assert (known.position, known.holder) == (first.position, "b")
    assert await quarantine.latest(engine, limit=10) == []
    assert await engine.take_cursor("kafka", holder="c", lease=LEASE) is None


async def test_a_cursor_that_lapsed_is_its_holders_until_another_takes_it(
    engine: Engine, clock: ManualClock
) -> None:
    await _submit(engine, 1)
    cursor = await _take(engine)
    (batch,) = await _unread(engine, cursor)
    clock.advance(5 * LEASE)

    await engine.advance(cursor, position=batch.position)

    assert await _unread(engine, cursor, after=batch.position) == []
    assert await engine.take_cursor("kafka", holder="b", lease=LEASE) is None


async def test_a_cursor_is_taken_again_by_its_own_holder_and_never_goes_back(
    engine: Engine,
) -> None:
    """The answer to the first call may have been lost."""
    await _submit(engine, 2)
    first = await _take(engine)
    again = await _take(engine)
    seen = await _unread(engine, again)

    await engine.advance(again, position=seen[1].position)
    await engine.advance(again, position=seen[0].position)

    with pytest.raises(CursorLostError):
        await _unread(engine, first)
    (known,) = await engine.consumers()
    assert known.position == seen[1].position


async def test_consumers_tell_how_far_they_are_behind(
    engine: Engine, clock: ManualClock
) -> None:
    began = clock.now()
    await _submit(engine, 1)
    clock.advance(HOUR)
    await _submit(engine, 2)
    kafka = await _take(engine)
    seen = await _unread(engine, kafka)
    await engine.advance(kafka, position=seen[-1].position)
    audit = await _take(engine, consumer="audit")
    await engine.advance(audit, position=audit.position, releases=True)
    before = {one.name: one for one in await engine.consumers()}
    clock.advance(1)
    await _submit(engine, 1)

    after = {one.name: one for one in await engine.consumers()}

    assert list(before) == ["audit", "kafka"]
    assert (before["kafka"].behind, before["kafka"].waits_since) == (0, None)
    assert (before["audit"].behind, before["audit"].waits_since) == (3, began)
    assert (before["kafka"].holder, before["audit"].holder) == ("a", None)
    assert (after["kafka"].behind, after["kafka"].waits_since) == (1, began + HOUR + 1)
    assert (after["audit"].behind, after["audit"].waits_since) == (4, began)


async def test_pruning_keeps_what_a_consumer_has_not_passed(
    engine: Engine, clock: ManualClock
) -> None:
    await _submit(engine, 3)
    kafka, audit = await _take(engine), await _take(engine, consumer="audit")
    first, second, third = await _unread(engine, kafka)
    await engine.advance(kafka, position=second.position)
    await engine.advance(audit, position=first.position)
    retention = Retention(outbox=HOUR)
    clock.advance(HOUR - 1)
    early = await engine.prune(retention, limit=EVERYTHING)
    clock.advance(1)

    await engine.prune(retention, limit=EVERYTHING)
    one_left = await engine.events(after=0, limit=10)
    assert await engine.delete_consumer("audit")
    await engine.prune(retention, limit=EVERYTHING)

    assert early == 0
    assert one_left == [second, third]
    assert await engine.events(after=0, limit=10) == [third]
    assert not await engine.delete_consumer("audit")


async def test_a_consumer_that_nobody_reads_for_keeps_nothing_for_ever(
    engine: Engine, clock: ManualClock
) -> None:
    await _submit(engine, 2)
    cursor = await _take(engine)
    retention = Retention(outbox=HOUR, consumer=DAY)
    clock.advance(DAY - 1)
    await engine.prune(retention, limit=EVERYTHING)
    kept = await engine.events(after=0, limit=10)
    clock.advance(1)

    await engine.prune(retention, limit=EVERYTHING)
    (known,) = await engine.consumers()
    back = await _take(engine, holder="b")

    assert len(kept) == 2
    assert await engine.events(after=0, limit=10) == []
    assert known.gone_at == clock.now()
    assert back.gone_at == clock.now()
    assert cursor.gone_at is None
    assert [one.gone_at for one in await engine.consumers()] == [None]


async def test_a_consumer_that_is_read_for_keeps_its_events_however_long_it_takes(
    engine: Engine, clock: ManualClock
) -> None:
    await _submit(engine, 1)
    cursor = await _take(engine)
    retention = Retention(outbox=HOUR, consumer=DAY)
    for _ in range(3):
        clock.advance(DAY - 1)
        await _unread(engine, cursor)
        await engine.prune(retention, limit=EVERYTHING)

    assert len(await _unread(engine, cursor)) == 1


async def test_what_a_consumer_set_aside_is_kept_with_its_reason_for_a_while(
    engine: Engine, clock: ManualClock
) -> None:
    await _submit(engine, 2)
    cursor = await _take(engine)
    seen = await _unread(engine, cursor)
    aside = [_aside(batch) for batch in seen]

    await engine.advance(
        cursor, position=seen[0].position, quarantined=[quarantine.put(aside[0], "default")]
    )
    clock.advance(1)
    await engine.advance(
        cursor, position=seen[1].position, quarantined=[quarantine.put(aside[1], "default")]
    )

    found = await quarantine.latest(engine, limit=10)
    assert [one.event_id for one in found] == [f"{batch.position}.0" for batch in seen[::-1]]
    assert (found[0].consumer, found[0].name, found[0].at) == (
        "kafka",
        Name.SUBMITTED,
        clock.now(),
    )
    assert (found[0].reason, found[0].body) == ("too large", b"\x00body")
    assert found[0].job_id == aside[1].job_id
    assert len(await quarantine.latest(engine, limit=1)) == 1
    clock.advance(HOUR)
    await engine.prune(Retention(dead=HOUR, outbox=DAY), limit=EVERYTHING)
    assert await quarantine.latest(engine, limit=10) == []


def _aside(batch: EventBatch) -> Quarantined:
    (event,) = expand(batch)
    return Quarantined("kafka", event.id, event.name, event.job_id, "too large", b"\x00body")
