"""What relays shipped is counted against what the outbox told."""

from pathlib import Path

from longshore.core import ids
from longshore.core.event import expand
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker
from longshore.testing.model import ModelEngine
from longshore_lab.relayed import FileSink, arrivals, relayed


async def told(engine: ModelEngine) -> list[tuple[str, str]]:
    batches = await engine.events(after=0, limit=100)
    events = [one for batch in batches for one in expand(batch)]
    return [(ids.text(one.job_id), one.id) for one in events]


async def with_events() -> ModelEngine:
    engine = ModelEngine()
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    await worker.start(*await worker.claim(2))
    return engine


async def test_events_that_arrived_in_order_and_some_of_them_twice_are_fine():
    engine = await with_events()
    events = await told(engine)

    finding = await relayed(engine, [*events, *events])

    assert (finding.checked, finding.violations) == (2, 0)


async def test_an_event_that_did_not_arrive_is_found():
    engine = await with_events()
    events = await told(engine)

    for missing in range(len(events)):
        left = events[:missing] + events[missing + 1 :]
        assert (await relayed(engine, left)).violations == 1


async def test_events_of_a_job_out_of_order_are_found():
    engine = await with_events()
    events = await told(engine)

    assert (await relayed(engine, reversed(events))).violations == 2


async def test_an_event_that_nobody_told_is_found():
    engine = await with_events()
    events = await told(engine)

    assert (await relayed(engine, [*events, ("somebody", "1.1")])).violations == 1


async def test_a_file_has_what_a_relay_was_given(tmp_path: Path):
    engine = await with_events()
    sink = FileSink(tmp_path / "topic")
    batches = await engine.events(after=0, limit=100)

    async def keep() -> None:
        return

    await sink.send([one for batch in batches for one in expand(batch)], keep=keep)
    await sink.close()
    await sink.close()

    assert arrivals(tmp_path / "topic") == await told(engine)
    assert arrivals(tmp_path / "nothing") == []
