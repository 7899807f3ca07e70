import asyncio

import pytest
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core.account import Tenant
from longshore.core.door import FAILURES, REST_US, Refusal
from longshore.core.webhook import Endpoint, Secret, secret_text
from longshore.errors import ConfigError, TenantNotFoundError, WebhookNotFoundError
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import SECOND


def an_endpoint(number: int = 1, tenant: str = "default") -> Endpoint:
    return Endpoint(
        id=f"wh_{number:024x}",
        tenant=tenant,
        url="https://example.com/hook",
        secrets=(Secret(secret_text(bytes(range(32))), until=None),),
        events=("job.succeeded", "job.d*"),
        queues=("mail",),
    )


async def test_an_endpoint_is_kept_as_it_was_stored(engine: Engine, clock: ManualClock) -> None:
    await engine.put_tenant(Tenant(name="acme"))
    first, second = an_endpoint(1), an_endpoint(2, "acme")

    stored = await engine.put_webhook(first), await engine.put_webhook(first)
    created_at = clock.now()
    clock.advance(SECOND)
    await engine.put_webhook(second)

    found = await engine.get_webhook(first.id, tenant="default")
    assert stored == (True, True)
    assert found == replace(first, created_at=created_at)
    assert [one.id for one in await engine.webhooks()] == [first.id, second.id]
    assert [one.id for one in await engine.webhooks(tenant="acme")] == [second.id]
    # Nobody can have another tenant's secret sign for them.
    assert not await engine.put_webhook(replace(found, tenant="acme"), seen=found)
    with pytest.raises(WebhookNotFoundError):
        await engine.get_webhook(first.id, tenant="acme")
    with pytest.raises(WebhookNotFoundError):
        await engine.delete_webhook(first.id, tenant="acme")


async def test_an_endpoint_is_replaced_only_as_it_was_seen(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.put_webhook(an_endpoint())
    seen = await engine.get_webhook(an_endpoint().id)
    clock.advance(SECOND)
    other = replace(seen, disabled="410", failing_since=clock.now())

    moved = await engine.put_webhook(other, seen=seen)
    late = await engine.put_webhook(replace(seen, url="https://example.com/x"), seen=seen)
    again = await engine.put_webhook(other, seen=seen)
    taken = await engine.put_webhook(replace(seen, url="https://example.com/x"))

    assert (moved, late, again, taken) == (True, False, True, False)
    assert await engine.get_webhook(seen.id) == other


async def test_an_endpoint_goes_by_order_or_with_its_tenant(engine: Engine) -> None:
    await engine.put_tenant(Tenant(name="acme"))
    await engine.put_webhook(an_endpoint(1))
    await engine.put_webhook(an_endpoint(2, "acme"))

    await engine.delete_webhook(an_endpoint(1).id)
    await engine.delete_tenant("acme")

    assert await engine.webhooks() == []
    with pytest.raises(WebhookNotFoundError):
        await engine.delete_webhook(an_endpoint(1).id)
    with pytest.raises(TenantNotFoundError):
        await engine.put_webhook(an_endpoint(3, "acme"))
    with pytest.raises(ConfigError):
        await engine.put_webhook(replace(an_endpoint(), url="ftp://example.com"))


async def test_so_many_of_the_fleet_are_at_an_endpoint_at_once(
    engine: Engine, clock: ManualClock
) -> None:
    one, other = an_endpoint(1).id, an_endpoint(2).id
    for number in (1, 2):
        await engine.put_webhook(an_endpoint(number))

    async def enter(holder: str, endpoint: str = one) -> Refusal | None:
        return await engine.enter_webhook(endpoint, holder, most=2, lease=25 * SECOND)

    let_in = [await enter("a"), await enter("b"), await enter("a"), await enter("c", other)]
    full = await enter("c")
    await engine.leave_webhook(one, "a", is_success=True)
    behind_one = await enter("c")
    full_again = await enter("d")
    # What a worker that died was doing there.
    clock.advance(25 * SECOND)
    lapsed = [await enter("d"), await enter("e")]

    assert let_in == [None] * 4
    assert full == full_again == Refusal()
    assert behind_one is None
    assert lapsed == [None, None]


async def test_callers_at_once_get_as_many_places_as_there_are(engine: Engine) -> None:
    await engine.put_webhook(an_endpoint())
    endpoint = an_endpoint().id

    answers = await asyncio.gather(
        *(
            engine.enter_webhook(endpoint, f"delivery {n}", most=4, lease=25 * SECOND)
            for n in range(12)
        )
    )

    assert answers.count(None) == 4


async def test_an_endpoint_that_keeps_failing_rests_for_the_whole_fleet(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.put_webhook(an_endpoint())
    endpoint = an_endpoint().id

    async def enter(holder: str) -> Refusal | None:
        return await engine.enter_webhook(endpoint, holder, most=9, lease=25 * SECOND)

    async def deliver(holder: str, is_success: bool | None) -> None:
        assert await enter(holder) is None
        await engine.leave_webhook(endpoint, holder, is_success=is_success)
        # Said twice, it counts once.
        await engine.leave_webhook(endpoint, holder, is_success=is_success)

    for verdict in (False, True, *[False] * (FAILURES - 1), None, False):
        await deliver("worker 1", verdict)
    rests = await enter("worker 2")
    clock.advance(REST_US)
    probe, others = await enter("worker 2"), await enter("worker 3")
    await engine.leave_webhook(endpoint, "worker 2", is_success=False)
    rests_again = await enter("worker 3")
    clock.advance(REST_US)
    await deliver("worker 3", True)
    open_to_all = [await enter("worker 1"), await enter("worker 2")]

    assert rests == rests_again == Refusal(REST_US)
    assert (probe, others) == (None, Refusal())
    assert open_to_all == [None, None]


async def test_nobody_enters_an_endpoint_that_is_gone(engine: Engine) -> None:
    endpoint = an_endpoint().id
    await engine.put_webhook(an_endpoint())
    await engine.enter_webhook(endpoint, "a", most=1, lease=25 * SECOND)
    await engine.delete_webhook(endpoint)

    await engine.leave_webhook(endpoint, "a", is_success=False)
    with pytest.raises(WebhookNotFoundError):
        await engine.enter_webhook(endpoint, "b", most=1, lease=25 * SECOND)
    await engine.put_webhook(an_endpoint())
    anew = await engine.enter_webhook(endpoint, "c", most=1, lease=25 * SECOND)

    assert anew is None
