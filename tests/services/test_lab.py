"""The laboratory's own parts on a real engine."""

from collections import Counter
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import msgspec
import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.engines import open_engine
from longshore.errors import EngineUnavailableError, LeaseLostError
from longshore.runtime.clock import ManualClock
from longshore.testing.flaky import FlakyEngine
from longshore_lab import ledger
from longshore_lab.history import gather
from longshore_lab.ledger import Ledger
from longshore_lab.mix import Kind
from longshore_lab.producer import produce
from longshore_lab.records import Claimed, Record, Settled, SubmitAcknowledged
from longshore_lab.trial import Trial
from longshore_lab.verdict import judge
from longshore_lab.watch import watched

LEASE = 30_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(clock: ManualClock) -> AsyncIterator[Engine]:
    engine = open_engine("sqlite://:memory:", clock=clock)
    await engine.migrate()
    yield engine
    await engine.close()


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(
        url="sqlite://:memory:", folder=str(tmp_path), jobs=50, batch=10, keyed_every=2
    )


def written(trial: Trial, kind: type[Record]) -> list[Record]:
    entries = ledger.read(trial.ledgers).entries
    return [entry.record for entry in entries if isinstance(entry.record, kind)]


def verdicts(trial: Trial) -> Counter[str]:
    return Counter(answer.verdict for answer in written(trial, SubmitAcknowledged))


async def test_a_producer_sends_every_order_once(trial: Trial, engine: Engine):
    await produce(trial, engine, Ledger(trial.ledgers, "producer-1", role="producer"))

    assert verdicts(trial) == {"accepted": 50}
    assert sum(one.ready for one in await engine.counts()) == 50


@pytest.mark.parametrize("keyed_every", [0, 1])
async def test_a_producer_sends_again_what_was_not_answered(
    trial: Trial, engine: Engine, keyed_every: int
):
    """Without keys under the same ids, with keys under new ones: the queue knows both."""
    trial = msgspec.structs.replace(trial, keyed_every=keyed_every)
    flaky = FlakyEngine(engine)
    flaky.lose_answers(2)

    await produce(trial, flaky, Ledger(trial.ledgers, "producer-1", role="producer"))

    assert verdicts(trial) == {"repeated": 10, "accepted": 40}
    assert sum(one.ready for one in await engine.counts()) == 50


async def test_a_producers_successor_goes_on_where_it_died(trial: Trial, engine: Engine):
    await produce(trial, engine, Ledger(trial.ledgers, "producer-1", role="producer"))
    path = trial.ledgers / "producer-1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: 1 + 20 + 20 + 5]))

    await produce(trial, engine, Ledger(trial.ledgers, "producer-2", role="producer"))

    # Of the third call only half of what it was about to send had been written down.
    verdict = await judge(trial, engine)
    assert verdict.findings["lost"].violations == 0
    assert verdict.findings["halves"].violations == 0


async def test_a_watched_session_writes_down_what_it_is_told(trial: Trial, engine: Engine):
    book = Ledger(trial.ledgers, "worker-1", role="worker")
    await produce(trial, engine, Ledger(trial.ledgers, "producer-1", role="producer"))
    session = await watched(engine, book).open_session(
        worker="w", queues=["default"], types=list(Kind), lease=LEASE
    )
    numbers = count(1)

    claims = (await session.exchange(next(numbers), want=2)).claims
    ends = [settle.succeeded(claim, started_at=1, finished_at=2) for claim in claims]
    await session.exchange(next(numbers), settlements=ends)

    assert len(written(trial, Claimed)) == 2
    assert [settled.is_accepted for settled in written(trial, Settled)] == [True, True]


async def test_an_exchange_that_is_sent_again_counts_from_when_it_was_first_sent(
    trial: Trial, engine: Engine
):
    """What the engine applied the first time, others may build upon before it is repeated."""
    flaky = FlakyEngine(engine)
    book = Ledger(trial.ledgers, "worker-1", role="worker")
    await produce(trial, engine, Ledger(trial.ledgers, "producer-1", role="producer"))
    session = await watched(flaky, book).open_session(
        worker="w", queues=["default"], types=list(Kind), lease=LEASE
    )
    flaky.lose_answers(1)
    with pytest.raises(EngineUnavailableError):
        await session.exchange(1, want=1)
    between = ledger.now()

    await session.exchange(1, want=1)

    [claimed] = written(trial, Claimed)
    assert claimed.called_at < between < claimed.at


async def test_a_watched_session_writes_down_that_it_was_refused(
    trial: Trial, engine: Engine, clock: ManualClock
):
    book = Ledger(trial.ledgers, "worker-1", role="worker")
    await produce(trial, engine, Ledger(trial.ledgers, "producer-1", role="producer"))
    session = await watched(engine, book).open_session(
        worker="w", queues=["default"], types=list(Kind), lease=LEASE
    )
    [claim] = (await session.exchange(1, want=1)).claims
    clock.advance(LEASE + 1)

    with pytest.raises(LeaseLostError):
        await session.exchange(
            2, settlements=[settle.succeeded(claim, started_at=1, finished_at=2)]
        )

    [settled] = written(trial, Settled)
    assert not settled.is_accepted
    assert gather(ledger.read(trial.ledgers).entries).accepted
