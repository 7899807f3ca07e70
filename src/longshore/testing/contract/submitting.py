import asyncio
from typing import Any

import pytest

from longshore.contract import Engine, JobFilter
from longshore.core.job import Submitted, UniqueUntil, Verdict
from longshore.core.state import State
from longshore.errors import PayloadError, SubmitError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import bare, numbers, snapshot
from longshore.testing.factories import HOUR, MINUTE, SECOND, a_job
from longshore.testing.manual import a_worker


async def test_a_submitted_job_is_ready_and_untouched(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job()

    (answer,) = await engine.submit([new])

    job = await engine.get(new.id)
    assert bare(answer) == Submitted(new.id, Verdict.ACCEPTED)
    assert job.state is State.READY
    assert numbers(job) == (0, 0, 0, 0, 0)
    assert (job.created_at, job.run_at) == (clock.now(), clock.now())
    assert (job.started_at, job.finished_at, job.worker, job.failure) == (
        None,
        None,
        None,
        None,
    )


async def test_a_job_is_stored_as_it_was_sent(engine: Engine) -> None:
    sent: dict[str, Any] = {
        "type": "email.send",
        "payload": b'{"to": "anna@example.org", "quote": "\\u0022"}',
        "queue": "mail",
        "tenant": "acme",
        "priority": 2,
        "max_attempts": 7,
        "timeout": 5 * SECOND,
        "idempotency_key": "welcome:7",
        "unique_key": "user:7",
        "ordering_key": "anna",
        "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tags": ("welcome", "new, with a comma"),
    }
    new = a_job(**sent, unique_until=UniqueUntil.STARTED, fingerprint=b"\x01")
    await engine.submit([new])

    job = await engine.get(new.id)

    assert {name: getattr(job, name) for name in sent} == sent


@pytest.mark.parametrize(
    "changes",
    [
        {"queue": "a queue"},
        {"queue": "q" * 129},
        {"type": ""},
        {"tenant": "a\nb"},
        {"id": b"short"},
        {"fingerprint": bytes(65)},
        {"idempotency_key": "k" * 513},
        {"unique_key": ""},
        {"ordering_key": "\x07"},
        {"priority": 0},
        {"max_attempts": 26},
        {"delay": -1},
        {"run_at": -1},
        {"run_at": 2**60},
        {"timeout": 0},
        {"tags": ("t",) * 33},
        {"tags": ("t" * 257,)},
        {"trace": "none"},
        {"payload": b""},
        {"payload": b"[]"},
        {"payload": b'{"a": '},
        {"payload": b'{"a": "\xff"}'},
        {"payload": b'{"a": 1, "a": 2}'},
        {"payload": b'{"a": "\\u0000"}'},
        {"payload": b'{"a": ' + b"[" * 33 + b"]" * 33 + b"}"},
        {"payload": b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"},
        {"payload": b'{"a": "%s"}' % (b"x" * (1 << 20))},
    ],
    ids=lambda changes: f"{next(iter(changes))}-{str(next(iter(changes.values())))[:12]}",
)
async def test_a_job_out_of_the_limits_is_refused_and_nothing_of_its_call_is_stored(
    engine: Engine, changes: dict[str, Any]
) -> None:
    with pytest.raises((SubmitError, PayloadError)):
        await engine.submit([a_job(), a_job(**changes)])

    assert (await engine.find(JobFilter(), limit=9)).jobs == []


async def test_a_job_may_have_no_timeout(engine: Engine) -> None:
    new = a_job(timeout=None)
    await engine.submit([new])

    assert (await engine.get(new.id)).timeout is None


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b' {\n"a":\t1.50 , "b": "\\u0041\\/" } ',
        '{"name": "Łódź 🚢"}'.encode(),
        b'{"x":"%s"}' % (b"x" * 262_144),
    ],
    ids=["object", "white space and escapes", "unicode", "256 KiB"],
)
async def test_a_payload_comes_back_byte_for_byte(engine: Engine, payload: bytes) -> None:
    await engine.submit([a_job(payload=payload)])
    worker = await a_worker(engine)

    (claim,) = await worker.claim()

    assert claim.payload == payload
    assert (await engine.get(claim.id)).payload == payload


async def test_submit_answers_for_every_job_in_order(engine: Engine) -> None:
    known = a_job()
    await engine.submit([known])
    first, last = a_job(), a_job()

    answers = await engine.submit([first, known, last])

    assert [bare(answer) for answer in answers] == [
        Submitted(first.id, Verdict.ACCEPTED),
        Submitted(known.id, Verdict.REPEATED),
        Submitted(last.id, Verdict.ACCEPTED),
    ]


async def test_a_job_sent_again_changes_nothing(engine: Engine) -> None:
    new = a_job()
    await engine.submit([new])
    before = await snapshot(engine, new.id)

    (answer,) = await engine.submit([a_job(id=new.id, payload=b'{"other": 1}', priority=1)])

    assert bare(answer) == Submitted(new.id, Verdict.REPEATED)
    assert await snapshot(engine, new.id) == before


async def test_a_job_sent_again_after_it_ran_does_not_run_again(engine: Engine) -> None:
    new = a_job()
    await engine.submit([new])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.succeed(claim)

    (answer,) = await engine.submit([new])

    assert answer.verdict is Verdict.REPEATED
    assert await worker.claim() == []


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_job_repeated_inside_one_batch_is_stored_once(
    engine: Engine, key: str | None
) -> None:
    other = a_job()
    new = a_job(unique_key=key)

    answers = await engine.submit([new, other, new])

    assert [answer.verdict for answer in answers] == [
        Verdict.ACCEPTED,
        Verdict.ACCEPTED,
        Verdict.REPEATED,
    ]
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 2


async def test_an_empty_batch_is_accepted_and_leaves_no_trace(engine: Engine) -> None:
    assert await engine.submit([]) == []

    assert await engine.events(after=0, limit=10) == []


async def test_a_delayed_job_is_scheduled_by_the_engines_clock(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job(delay=HOUR)

    await engine.submit([new])

    job = await engine.get(new.id)
    assert (job.state, job.run_at) == (State.SCHEDULED, clock.now() + HOUR)
    assert job.created_at == clock.now()


async def test_a_time_to_run_at_stands_over_a_delay(engine: Engine, clock: ManualClock) -> None:
    new = a_job(delay=HOUR, run_at=clock.now() + MINUTE)

    await engine.submit([new])

    job = await engine.get(new.id)
    assert (job.state, job.run_at) == (State.SCHEDULED, clock.now() + MINUTE)


async def test_a_job_for_a_time_that_has_passed_is_ready_and_waits_its_turn(
    engine: Engine, clock: ManualClock
) -> None:
    first = a_job()
    late = a_job(run_at=clock.now() - HOUR)
    await engine.submit([first, late])
    worker = await a_worker(engine)

    claims = await worker.claim(2)

    assert [claim.id for claim in claims] == [first.id, late.id]


async def test_a_thousand_jobs_in_one_batch_keep_their_order(engine: Engine) -> None:
    jobs = [a_job() for _ in range(1_000)]

    answers = await engine.submit(jobs)

    worker = await a_worker(engine)
    assert [answer.id for answer in answers] == [job.id for job in jobs]
    assert [claim.id for claim in await worker.claim(1_000)] == [job.id for job in jobs]


async def test_the_same_job_from_many_callers_at_once_is_stored_once(engine: Engine) -> None:
    new = a_job()

    answers = await asyncio.gather(*(engine.submit([new]) for _ in range(20)))

    verdicts = [answer.verdict for (answer,) in answers]
    assert sorted(verdicts) == [Verdict.ACCEPTED] + [Verdict.REPEATED] * 19
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 1


async def test_many_callers_at_once_are_each_answered_for_their_own_jobs(
    engine: Engine,
) -> None:
    batches = [[a_job() for _ in range(size)] for size in (1, 3, 0, 2, 7, 1)]

    answers = await asyncio.gather(*(engine.submit(batch) for batch in batches))

    assert [[answer.id for answer in batch] for batch in answers] == [
        [job.id for job in batch] for batch in batches
    ]
