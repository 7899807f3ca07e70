import asyncio
from collections.abc import Awaitable, Callable

import pytest

from longshore.contract import Engine
from longshore.contract.records import Kind, Put, Ref
from longshore.core.limit_settings import (
    BreakerFlow,
    BreakerSettings,
    Layer,
    OnDead,
    Order,
    QueueFlow,
    QueueSettings,
    said,
    write_body,
)
from longshore.errors import ConfigError
from longshore.records import breaker_settings, queue_settings
from longshore.testing.contract.requirements import requires

DECLARED, OVERRIDDEN = Layer.DECLARED, Layer.OVERRIDDEN
EVERYTHING = QueueSettings(
    order=Order.FAIR,
    aging=60_000_000,
    max_running=10,
    max_running_per_key=2,
    rate=0.125,
    burst=200,
    rate_per_key=5.0,
    burst_per_key=7,
    max_depth=1_000_000,
    max_depth_per_tenant=1_000,
    retry_rate=50.0,
    on_dead=OnDead.BLOCK,
)


async def test_what_is_said_of_a_queue_is_told_layer_by_layer(engine: Engine) -> None:
    override = QueueSettings(max_running=3)
    await queue_settings.put(engine, "mail", DECLARED, EVERYTHING)
    await queue_settings.put(engine, "mail", OVERRIDDEN, override)
    await queue_settings.put(engine, "bulk", OVERRIDDEN, QueueSettings(rate=1.5))

    bulk, mail = await queue_settings.every(engine)

    assert bulk == QueueFlow("bulk", overridden=QueueSettings(rate=1.5))
    assert mail == QueueFlow("mail", EVERYTHING, override)
    assert mail.effective.max_running == 3
    assert mail.effective.order is Order.FAIR


async def test_settings_that_say_nothing_remove_a_layer(engine: Engine) -> None:
    await queue_settings.put(engine, "mail", DECLARED, QueueSettings(max_running=5))
    await queue_settings.put(engine, "mail", OVERRIDDEN, QueueSettings(max_running=1))

    await queue_settings.put(engine, "mail", OVERRIDDEN, QueueSettings())

    (mail,) = await queue_settings.every(engine)
    assert mail.effective == QueueSettings(max_running=5)
    await queue_settings.put(engine, "mail", DECLARED, QueueSettings())
    assert await queue_settings.every(engine) == []
    assert await engine.counts() == []


async def test_settings_are_put_only_over_those_that_were_seen(engine: Engine) -> None:
    first, second = QueueSettings(max_running=1), QueueSettings(max_running=2)
    third = QueueSettings(max_running=3)
    ref = Ref(Kind.QUEUE, "mail")

    async def put(settings: QueueSettings, *, expected: int) -> bool:
        body = write_body(QueueFlow("mail", settings))
        change = Put(ref=ref, body=body, expected=expected)
        return (await engine.write_records([change], audit=None)).conflict is None

    assert await put(first, expected=0)
    late, repeated = await put(second, expected=0), await put(first, expected=0)

    assert (late, repeated) == (False, True)
    (record,) = (await engine.get_records([ref])).records
    assert record is not None
    assert await put(third, expected=record.version)
    assert await queue_settings.every(engine) == [QueueFlow("mail", third)]


async def test_who_overrides_settings_at_once_all_do(engine: Engine) -> None:
    wanted = {"max_running": 3, "rate": 2.0, "max_depth": 9, "retry_rate": 1.0}

    await asyncio.gather(
        *(
            queue_settings.override(engine, "mail", {field: value})
            for field, value in wanted.items()
        )
    )

    (mail,) = await queue_settings.every(engine)
    assert said(mail.overridden) == wanted


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(max_running=0),
        QueueSettings(rate=0.0),
        QueueSettings(rate=0.0015),
        QueueSettings(burst=2**40),
        QueueSettings(aging=-1),
    ],
    ids=str,
)
async def test_settings_that_make_no_sense_are_not_stored(
    engine: Engine, settings: QueueSettings
) -> None:
    with pytest.raises(ConfigError, match=r"must be|thousandths"):
        await queue_settings.put(engine, "mail", OVERRIDDEN, settings)

    assert await queue_settings.every(engine) == []


async def test_settings_are_of_something_that_can_be_named(engine: Engine) -> None:
    with pytest.raises(ConfigError, match="queue"):
        await queue_settings.put(engine, "not a name", OVERRIDDEN, QueueSettings(max_running=1))
    with pytest.raises(ConfigError, match="type"):
        await breaker_settings.put(engine, "", OVERRIDDEN, BreakerSettings(failures=1))


async def test_a_queue_with_settings_is_counted_though_it_is_empty(engine: Engine) -> None:
    await queue_settings.put(engine, "mail", DECLARED, QueueSettings(max_running=1))

    (queue,) = await engine.counts()

    assert (queue.queue, queue.ready) == ("mail", 0)


async def test_breakers_are_kept_apart_from_queues(engine: Engine) -> None:
    declared = BreakerSettings(failures=5, ratio=0.5, window=1, least=20, cooldown=2, probes=3)
    await breaker_settings.put(engine, "mail", DECLARED, declared)
    await breaker_settings.put(engine, "mail", OVERRIDDEN, BreakerSettings(probes=1))
    await queue_settings.put(engine, "mail", DECLARED, QueueSettings(max_running=1))

    (breaker,) = await breaker_settings.every(engine)

    assert breaker == BreakerFlow("mail", declared, BreakerSettings(probes=1))
    assert (breaker.effective.failures, breaker.effective.probes) == (5, 1)
    await breaker_settings.put(engine, "mail", DECLARED, BreakerSettings())
    assert await breaker_settings.every(engine) == [
        BreakerFlow("mail", overridden=breaker.overridden)
    ]


@requires("shared_between_processes")
async def test_settings_are_seen_by_every_process(
    engine: Engine, reopen: Callable[[], Awaitable[Engine]]
) -> None:
    await queue_settings.put(engine, "mail", DECLARED, EVERYTHING)

    assert await queue_settings.every(await reopen()) == [QueueFlow("mail", EVERYTHING)]
