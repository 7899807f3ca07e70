"""Queues of which an app's code says how much may run."""

import asyncio
from collections.abc import Sequence

import pytest

from longshore import ConfigError, Longshore, Settings
from longshore.contract.records import (
    AuditRecord,
    Delete,
    Found,
    Kind,
    Put,
    RecordFilter,
    RecordPage,
    Ref,
    Written,
)
from longshore.core.limit_settings import Layer, Order, QueueFlow, QueueSettings
from longshore.operations import explain
from longshore.records import queue_settings
from longshore.testing.factories import a_job


async def test_what_code_says_of_a_queue_is_stored_when_it_starts_to_work():
    app = Longshore("sqlite://:memory:", settings=Settings())
    app.queue("mail", max_running=10, rate="30/m", burst=5)
    override = QueueSettings(max_running=2)

    async with app:
        await queue_settings.put(app.engine, "mail", Layer.OVERRIDDEN, override)
        await app.work(until_idle=True)

        declared = QueueSettings(max_running=10, rate=0.5, burst=5)
        assert await queue_settings.every(app.engine) == [QueueFlow("mail", declared, override)]
        app.queue("mail", rate=1)
        await app.queue.store()
        (mail,) = await queue_settings.every(app.engine)
        assert (mail.declared, mail.overridden) == (QueueSettings(rate=1.0), override)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_running": 0}, "max_running is 0"),
        ({"rate": "fast"}, "rate: 'fast' is not a rate"),
        ({"burst": 5}, "burst says nothing without rate"),
        ({"order": "random"}, "order is 'random'; it must be strict or aging or fair"),
        ({"aging": "5s"}, "aging says nothing without the order aging"),
        ({"order": "aging", "aging": "5"}, "did you forget the unit"),
        ({"max_runing": 5}, "max_runing is not a setting of queues"),
    ],
)
def test_code_that_says_nonsense_of_a_queue_is_told_at_once(
    options: dict[str, object], words: str
):
    app = Longshore("sqlite://:memory:", settings=Settings())

    with pytest.raises(ConfigError, match=words):
        app.queue("mail", **options)  # pyright: ignore[reportArgumentType]

    assert list(app.queue) == []


async def test_code_says_in_which_order_jobs_go_and_whose_weigh_more():
    app = Longshore("sqlite://:memory:", settings=Settings())
    app.queue("default", order="fair")
    app.queue("slow", order="aging", aging="1m30s")
    order: list[str] = []

    @app.task
    async def work(tenant: str) -> None:
        order.append(tenant)

    async with app:
        await app.queue.store()
        await app.queue.weigh("b", 2)
        jobs = [work.using(tenant=name).spec(name) for name in ["a"] * 300 + ["b"] * 200]
        await app.submit_many(jobs)
        await app.work(until_idle=True, concurrency=1)

        fair, aging = await queue_settings.every(app.engine)
        assert (fair.declared.order, aging.declared.aging) == (Order.FAIR, 90_000_000)
    middle = order[:192]
    assert abs(middle.count("b") - 128) <= 64
    assert len(order) == 500


async def test_limits_hold_back_and_lose_nothing():
    app = Longshore("sqlite://:memory:", settings=Settings())
    app.queue("default", max_running=3, rate=40, burst=4)
    running, most, done = 0, 0, 0

    @app.task
    async def work() -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done += 1

    async with app:
        await app.submit_many([work.spec() for _ in range(20)])
        await app.work(until_idle=True)

    assert done == 20
    assert most <= 3


async def test_jobs_of_an_ordering_key_run_in_order_and_wait_behind_a_dead_one():
    app = Longshore("sqlite://:memory:", settings=Settings())
    app.queue("default", on_dead="block", max_running_per_key=1)
    order: list[tuple[str, int]] = []

    @app.task(max_attempts=1)
    async def change(account: str, number: int) -> None:
        await asyncio.sleep(0)
        order.append((account, number))
        if (account, number) == ("anna", 1):
            raise ValueError("no such account")

    async with app:
        await app.queue.store()
        for number in range(4):
            for account in ("anna", "bert"):
                await change.using(ordering_key=account).submit(account, number)
        await app.work(until_idle=True)

        first = list(order)
        (line,) = await app.queue.blocked()
        assert (line.key, line.parked) == ("anna", 2)
        assert await app.queue.release("default", "anna")
        await app.work(until_idle=True)

    assert [number for account, number in first if account == "anna"] == [0, 1]
    for account in ("anna", "bert"):
        assert [number for name, number in order if name == account] == [0, 1, 2, 3]


async def test_what_code_says_of_many_queues_is_read_once_and_written_where_it_differs(
    monkeypatch: pytest.MonkeyPatch,
):
    app = Longshore("sqlite://:memory:", settings=Settings())
    for number in range(50):
        app.queue(f"q{number}", max_running=1)
    async with app:
        await app.queue.store()
        app.queue("q7", max_running=2)
        asked: list[str] = []
        read, write = app.engine.get_records, app.engine.write_records

        async def watched(refs: Sequence[Ref], *, with_tenants: bool = False) -> Found:
            asked.append("read")
            return await read(refs, with_tenants=with_tenants)

        async def watched_write(
            changes: Sequence[Put | Delete], *, audit: AuditRecord | None
        ) -> Written:
            asked.append("write")
            return await write(changes, audit=audit)

        monkeypatch.setattr(app.engine, "get_records", watched)
        monkeypatch.setattr(app.engine, "write_records", watched_write)
        await app.queue.store()

        known = {one.queue: one.declared for one in await queue_settings.every(app.engine)}
    assert known.pop("q7") == QueueSettings(max_running=2)
    assert set(known.values()) == {QueueSettings(max_running=1)}
    assert asked == ["read", "read", "write"], "all of them, then the one that is written"


async def test_a_job_is_explained_without_the_settings_of_all_queues(
    monkeypatch: pytest.MonkeyPatch,
):
    app = Longshore("sqlite://:memory:", settings=Settings())
    app.queue("mail", max_running=1)
    async with app:
        await app.queue.store()
        job = a_job(queue="mail")
        await app.engine.submit([job])
        listed: list[Kind] = []
        read = app.engine.list_records

        async def watched(
            which: RecordFilter, *, limit: int, cursor: str | None = None
        ) -> RecordPage:
            listed.append(which.kind)
            return await read(which, limit=limit, cursor=cursor)

        monkeypatch.setattr(app.engine, "list_records", watched)
        known = await explain.gather(app.engine, job.id)

    assert known.settings == QueueSettings(max_running=1)
    assert listed == [Kind.PAUSE]
