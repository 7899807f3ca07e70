import pytest
from msgspec.structs import replace

from longshore.core.account import Tenant
from longshore.core.webhook import Endpoint, Secret, secret_text
from longshore.engine import Engine
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
