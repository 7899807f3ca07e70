import asyncio

import pytest
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core.account import Tenant
from longshore.core.webhook import Endpoint, Secret, secret_text
from longshore.core.webhook_gate import COOLDOWN_US, FAILURES, Rejected
from longshore.errors import ConfigError, TenantNotFoundError, WebhookNotFoundError
from longshore.records import tenants, webhooks
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
    await tenants.create(engine, Tenant(name="acme"))
    first, second = an_endpoint(1), an_endpoint(2, "acme")

    stored = await webhooks.create(engine, first), await webhooks.create(engine, first)
    created_at = clock.now()
    clock.advance(SECOND)
    await webhooks.create(engine, second)

    found = await webhooks.get(engine, first.id, tenant="default")
    assert stored == (True, True)
    assert found == replace(first, created_at=created_at)
    assert [one.id for one in await webhooks.every(engine)] == [first.id, second.id]
    assert [one.id for one in await webhooks.every(engine, tenant="acme")] == [second.id]
    # Nobody can have another tenant's secret sign for them.
    assert not await webhooks.create(engine, replace(found, tenant="acme"))
    with pytest.raises(WebhookNotFoundError):
        await webhooks.get(engine, first.id, tenant="acme")
    with pytest.raises(WebhookNotFoundError):
        await webhooks.delete(engine, first.id, tenant="acme")


async def test_an_endpoint_that_others_change_at_once_gets_every_change(
    engine: Engine, clock: ManualClock
) -> None:
    await webhooks.create(engine, an_endpoint())
    seen = await webhooks.get(engine, an_endpoint().id)
    clock.advance(SECOND)

    await asyncio.gather(
        webhooks.change(engine, seen.id, lambda it: replace(it, disabled="410")),
        webhooks.change(engine, seen.id, lambda it: replace(it, failing_since=5)),
        webhooks.change(engine, seen.id, lambda it: replace(it, description="ours")),
    )
    taken = await webhooks.create(engine, replace(seen, url="https://example.com/x"))

    assert not taken
    assert await webhooks.get(engine, seen.id) == replace(
        seen, disabled="410", failing_since=5, description="ours"
    )


async def test_an_endpoint_goes_by_order_or_with_its_tenant(engine: Engine) -> None:
    await tenants.create(engine, Tenant(name="acme"))
    await webhooks.create(engine, an_endpoint(1))
    await webhooks.create(engine, an_endpoint(2, "acme"))

    await webhooks.delete(engine, an_endpoint(1).id)
    await tenants.delete(engine, "acme")

    assert await webhooks.every(engine) == []
    with pytest.raises(WebhookNotFoundError):
        await webhooks.delete(engine, an_endpoint(1).id)
    with pytest.raises(TenantNotFoundError):
        await webhooks.create(engine, an_endpoint(3, "acme"))
    with pytest.raises(ConfigError):
        await webhooks.create(engine, replace(an_endpoint(), url="ftp://example.com"))


async def test_so_many_of_the_fleet_are_at_an_endpoint_at_once(
    engine: Engine, clock: ManualClock
) -> None:
    one, other = an_endpoint(1).id, an_endpoint(2).id
    for number in (1, 2):
        await webhooks.create(engine, an_endpoint(number))

    async def enter(holder: str, endpoint: str = one) -> Rejected | None:
        return await webhooks.admit(
            engine, endpoint, holder, max_in_flight=2, lease=25 * SECOND
        )

    let_in = [await enter("a"), await enter("b"), await enter("a"), await enter("c", other)]
    full = await enter("c")
    await webhooks.release(engine, one, "a", succeeded=True)
    behind_one = await enter("c")
    full_again = await enter("d")
    # What a worker that died was doing there.
    clock.advance(25 * SECOND)
    lapsed = [await enter("d"), await enter("e")]

    assert let_in == [None] * 4
    assert full == full_again == Rejected()
    assert behind_one is None
    assert lapsed == [None, None]


async def test_callers_at_once_get_as_many_places_as_there_are(engine: Engine) -> None:
    await webhooks.create(engine, an_endpoint())
    endpoint = an_endpoint().id

    answers = await asyncio.gather(
        *(
            webhooks.admit(
                engine, endpoint, f"delivery {n}", max_in_flight=4, lease=25 * SECOND
            )
            for n in range(12)
        )
    )

    assert answers.count(None) == 4


async def test_an_endpoint_that_keeps_failing_rests_for_the_whole_fleet(
    engine: Engine, clock: ManualClock
) -> None:
    await webhooks.create(engine, an_endpoint())
    endpoint = an_endpoint().id

    async def enter(holder: str) -> Rejected | None:
        return await webhooks.admit(
            engine, endpoint, holder, max_in_flight=9, lease=25 * SECOND
        )

    async def deliver(holder: str, succeeded: bool | None) -> None:
        assert await enter(holder) is None
        await webhooks.release(engine, endpoint, holder, succeeded=succeeded)
        # Said twice, it counts once.
        await webhooks.release(engine, endpoint, holder, succeeded=succeeded)

    for verdict in (False, True, *[False] * (FAILURES - 1), None, False):
        await deliver("worker 1", verdict)
    rests = await enter("worker 2")
    clock.advance(COOLDOWN_US)
    probe, others = await enter("worker 2"), await enter("worker 3")
    await webhooks.release(engine, endpoint, "worker 2", succeeded=False)
    rests_again = await enter("worker 3")
    clock.advance(COOLDOWN_US)
    await deliver("worker 3", True)
    open_to_all = [await enter("worker 1"), await enter("worker 2")]

    assert rests == rests_again == Rejected(COOLDOWN_US)
    assert (probe, others) == (None, Rejected())
    assert open_to_all == [None, None]


async def test_nobody_enters_an_endpoint_that_is_gone(engine: Engine) -> None:
    endpoint = an_endpoint().id
    await webhooks.create(engine, an_endpoint())
    await webhooks.admit(engine, endpoint, "a", max_in_flight=1, lease=25 * SECOND)
    await webhooks.delete(engine, endpoint)

    await webhooks.release(engine, endpoint, "a", succeeded=False)
    with pytest.raises(WebhookNotFoundError):
        await webhooks.admit(engine, endpoint, "b", max_in_flight=1, lease=25 * SECOND)
    await webhooks.create(engine, an_endpoint())
    anew = await webhooks.admit(engine, endpoint, "c", max_in_flight=1, lease=25 * SECOND)

    assert anew is None
