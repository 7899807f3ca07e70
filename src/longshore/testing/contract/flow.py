from collections.abc import Awaitable, Callable

import pytest

from longshore.contract import Engine
from longshore.core.flow import (
    BreakerFlow,
    BreakerSettings,
    Layer,
    OnDead,
    Order,
    QueueFlow,
    QueueSettings,
)
from longshore.errors import ConfigError
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
    assert await engine.put_queue("mail", DECLARED, EVERYTHING)
    assert await engine.put_queue("mail", OVERRIDDEN, override)
    assert await engine.put_queue("bulk", OVERRIDDEN, QueueSettings(rate=1.5))

    bulk, mail = await engine.queue_settings()

    assert bulk == QueueFlow("bulk", overridden=QueueSettings(rate=1.5))
    assert mail == QueueFlow("mail", EVERYTHING, override)
    assert mail.effective.max_running == 3
    assert mail.effective.order is Order.FAIR


async def test_settings_that_say_nothing_remove_a_layer(engine: Engine) -> None:
    await engine.put_queue("mail", DECLARED, QueueSettings(max_running=5))
    await engine.put_queue("mail", OVERRIDDEN, QueueSettings(max_running=1))

    await engine.put_queue("mail", OVERRIDDEN, QueueSettings())

    (mail,) = await engine.queue_settings()
    assert mail.effective == QueueSettings(max_running=5)
    await engine.put_queue("mail", DECLARED, QueueSettings())
    assert await engine.queue_settings() == []
    assert await engine.counts() == []


async def test_settings_are_put_only_over_those_that_were_seen(engine: Engine) -> None:
    first, second = QueueSettings(max_running=1), QueueSettings(max_running=2)
    third = QueueSettings(max_running=3)
    assert await engine.put_queue("mail", DECLARED, first, seen=QueueSettings())

    late = await engine.put_queue("mail", DECLARED, second, seen=QueueSettings())
    repeated = await engine.put_queue("mail", DECLARED, first, seen=QueueSettings())

    assert (late, repeated) == (False, True)
    assert await engine.put_queue("mail", DECLARED, third, seen=first)
    assert await engine.queue_settings() == [QueueFlow("mail", third)]


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
        await engine.put_queue("mail", OVERRIDDEN, settings)

    assert await engine.queue_settings() == []


async def test_settings_are_of_something_that_can_be_named(engine: Engine) -> None:
    with pytest.raises(ConfigError, match="queue"):
        await engine.put_queue("not a name", OVERRIDDEN, QueueSettings(max_running=1))
    with pytest.raises(ConfigError, match="type"):
        await engine.put_breaker("", OVERRIDDEN, BreakerSettings(failures=1))


async def test_a_queue_with_settings_is_counted_though_it_is_empty(engine: Engine) -> None:
    await engine.put_queue("mail", DECLARED, QueueSettings(max_running=1))

    (queue,) = await engine.counts()

    assert (queue.queue, queue.ready) == ("mail", 0)


async def test_breakers_are_kept_apart_from_queues(engine: Engine) -> None:
    declared = BreakerSettings(failures=5, ratio=0.5, window=1, least=20, cooldown=2, probes=3)
    await engine.put_breaker("mail", DECLARED, declared)
    await engine.put_breaker("mail", OVERRIDDEN, BreakerSettings(probes=1))
    await engine.put_queue("mail", DECLARED, QueueSettings(max_running=1))

    (breaker,) = await engine.breaker_settings()

    assert breaker == BreakerFlow("mail", declared, BreakerSettings(probes=1))
    assert (breaker.effective.failures, breaker.effective.probes) == (5, 1)
    assert await engine.put_breaker("mail", DECLARED, BreakerSettings(), seen=declared)
    assert await engine.breaker_settings() == [
        BreakerFlow("mail", overridden=breaker.overridden)
    ]


@requires("shared_between_processes")
async def test_settings_are_seen_by_every_process(
    engine: Engine, reopen: Callable[[], Awaitable[Engine]]
) -> None:
    await engine.put_queue("mail", DECLARED, EVERYTHING)

    assert await (await reopen()).queue_settings() == [QueueFlow("mail", EVERYTHING)]
