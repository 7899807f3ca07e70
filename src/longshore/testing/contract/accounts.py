import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import account
from longshore.core.account import Access, ApiKey, NewKey, Scope, Tenant
from longshore.errors import (
    ConfigError,
    KeyEndedError,
    KeyNotFoundError,
    TenantInUseError,
    TenantNotFoundError,
)
from longshore.records import api_keys, schedules, tenants
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import HOUR, MINUTE, a_job, a_key, a_schedule
from longshore.testing.manual import a_worker

Reopen = Callable[[], Awaitable[Engine]]


async def _acme(engine: Engine) -> Tenant:
    return await tenants.create(engine, Tenant(name="acme"))


async def test_a_tenant_is_kept_as_it_was_made(engine: Engine, clock: ManualClock) -> None:
    made = Tenant(name="acme", requires_idempotency_key=True, rate=12.5, burst=40)

    await tenants.create(engine, made)

    assert await tenants.get(engine, "acme") == replace(made, created_at=clock.now())


async def test_the_default_tenant_is_always_there_and_can_be_changed(engine: Engine) -> None:
    seen = await tenants.get(engine, "default")
    assert await tenants.every(engine) == [seen]

    await tenants.change(engine, "default", lambda it: replace(it, rate=5.0))

    assert await tenants.get(engine, "default") == replace(seen, rate=5.0)
    assert [tenant.rate for tenant in await tenants.every(engine)] == [5.0]
    with pytest.raises(ConfigError):
        await tenants.delete(engine, "default")


async def test_tenants_are_listed_by_name(engine: Engine) -> None:
    for name in ("zeta", "Zorn", "acme"):
        await tenants.create(engine, Tenant(name=name))

    assert [tenant.name for tenant in await tenants.every(engine)] == [
        "Zorn",
        "acme",
        "default",
        "zeta",
    ]


async def test_a_tenant_is_not_made_over_another_of_its_name(
    engine: Engine, clock: ManualClock
) -> None:
    made = await _acme(engine)
    clock.advance(MINUTE)

    again = await tenants.create(engine, Tenant(name="acme"))
    with pytest.raises(ConfigError, match="already"):
        await tenants.create(engine, Tenant(name="acme", is_disabled=True))

    assert again == made
    assert await tenants.get(engine, "acme") == made


async def test_of_many_who_change_a_tenant_at_once_all_do(engine: Engine) -> None:
    await tenants.change(engine, "default", lambda it: replace(it, rate=1.0, burst=1))

    def by(step: int) -> Callable[[Tenant], Tenant]:
        return lambda seen: replace(seen, burst=(seen.burst or 0) + step)

    # Different steps: two who write the same body at once are one write that was sent again.
    steps = [2**number for number in range(8)]
    await asyncio.gather(*(tenants.change(engine, "default", by(step)) for step in steps))

    assert (await tenants.get(engine, "default")).burst == 1 + sum(steps)


async def test_a_tenant_that_is_not_there_is_said_to_be_missing(engine: Engine) -> None:
    with pytest.raises(TenantNotFoundError):
        await tenants.get(engine, "acme")
    with pytest.raises(TenantNotFoundError):
        await tenants.delete(engine, "acme")
    with pytest.raises(TenantNotFoundError):
        await api_keys.add(engine, a_key(tenant="acme"))
    with pytest.raises(TenantNotFoundError):
        await tenants.change(engine, "acme", lambda seen: seen)


async def test_a_tenant_that_makes_no_sense_is_refused(engine: Engine) -> None:
    with pytest.raises(ConfigError):
        await tenants.create(engine, Tenant(name="a tenant"))
    for rate in (-1.0, 0.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError):
            await tenants.create(engine, Tenant(name="acme", rate=rate))
    with pytest.raises(ConfigError):
        await tenants.create(engine, Tenant(name="acme", rate=1.0, burst=0))
    with pytest.raises(ConfigError):
        await tenants.create(engine, Tenant(name="acme", burst=5))

    assert [tenant.name for tenant in await tenants.every(engine)] == ["default"]


async def test_a_tenant_goes_with_its_keys_but_not_with_a_job(engine: Engine) -> None:
    await _acme(engine)
    ours, theirs = a_key(tenant="acme"), a_key()
    await api_keys.add(engine, ours)
    kept = await api_keys.add(engine, theirs)
    job = a_job(tenant="acme")
    await engine.submit([job])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.succeed(claim)
    with pytest.raises(TenantInUseError) as caught:
        await tenants.delete(engine, "acme")
    assert (caught.value.jobs, caught.value.schedules) == (1, 0)
    await engine.change("purge", [job.id])

    await tenants.delete(engine, "acme")

    assert [tenant.name for tenant in await tenants.every(engine)] == ["default"]
    assert await api_keys.every(engine) == [kept]


async def test_a_tenant_with_a_schedule_stays(engine: Engine) -> None:
    tenant = await _acme(engine)
    await schedules.put(engine, a_schedule(tenant="acme"))

    with pytest.raises(TenantInUseError) as caught:
        await tenants.delete(engine, "acme")

    assert (caught.value.jobs, caught.value.schedules) == (0, 1)
    assert await tenants.get(engine, "acme") == tenant


async def test_a_key_is_found_with_its_tenant(engine: Engine, clock: ManualClock) -> None:
    tenant = await _acme(engine)
    new = a_key(tenant="acme", scopes=(Scope.READ, Scope.SUBMIT), label="ci", lifetime=HOUR)

    key = await api_keys.add(engine, new)

    assert key == ApiKey(
        id=new.id,
        digest=new.digest,
        tenant="acme",
        scopes=(Scope.SUBMIT, Scope.READ),
        label="ci",
        created_at=clock.now(),
        expires_at=clock.now() + HOUR,
    )
    assert await api_keys.find_access(engine, new.id) == Access(key, tenant)
    assert await api_keys.every(engine, tenant="acme") == await api_keys.every(engine) == [key]
    assert await api_keys.every(engine, tenant="default") == []


async def test_a_key_of_the_default_tenant_needs_nothing_made_before(engine: Engine) -> None:
    key = await api_keys.add(engine, a_key())

    assert await api_keys.find_access(engine, key.id) == Access(key, Tenant(name="default"))


async def test_an_operators_key_has_no_tenant(engine: Engine) -> None:
    key = await api_keys.add(engine, a_key(tenant=None, scopes=tuple(Scope)))

    assert key.scopes == tuple(Scope)
    assert await api_keys.find_access(engine, key.id) == Access(key, None)


async def test_a_key_keeps_the_queues_and_types_that_it_may_claim(engine: Engine) -> None:
    narrow = a_key(
        tenant=None, scopes=(Scope.WORK,), queues=("mail", "a/b"), types=("email.*", "x")
    )

    key = await api_keys.add(engine, narrow)
    rotated = await api_keys.rotate(engine, key.id, a_key().digest, grace=HOUR)

    assert (key.scopes, key.queues, key.types) == (
        (Scope.WORK,),
        ("mail", "a/b"),
        ("email.*", "x"),
    )
    assert (rotated.queues, rotated.types) == (key.queues, key.types)
    assert await api_keys.every(engine) == [rotated]
    assert await api_keys.find_access(engine, key.id) == Access(rotated, None)
    assert key.claimable(["email.send", "email", "x", "xy"]) == ["email.send", "x"]


async def test_an_unknown_key_is_found_nowhere(engine: Engine) -> None:
    await api_keys.add(engine, a_key())

    assert await api_keys.find_access(engine, a_key().id) is None
    assert await api_keys.find_access(engine, "") is None
    with pytest.raises(KeyNotFoundError):
        await api_keys.revoke(engine, a_key().id)
    with pytest.raises(KeyNotFoundError):
        await api_keys.rotate(engine, a_key().id, a_key().digest, grace=0)


async def test_a_key_sent_again_is_stored_once(engine: Engine, clock: ManualClock) -> None:
    new = a_key()
    key = await api_keys.add(engine, new)
    clock.advance(MINUTE)

    assert await api_keys.add(engine, new) == key

    with pytest.raises(ConfigError):
        await api_keys.add(engine, a_key(id=new.id))
    assert await api_keys.every(engine) == [key]


@pytest.mark.parametrize(
    "key",
    [
        a_key(scopes=()),
        a_key(scopes=(Scope.ADMIN,)),
        a_key(scopes=(Scope.WORK,)),
        a_key(label="two\nlines"),
        a_key(lifetime=0),
        a_key(queues=("mail",)),
        a_key(tenant=None, scopes=(Scope.WORK,), queues=("mail queue=other",)),
        a_key(tenant=None, scopes=(Scope.WORK,), queues=("ma*",)),
        a_key(tenant=None, scopes=(Scope.WORK,), types=("e[a-z]",)),
        a_key(tenant=None, scopes=(Scope.WORK,), types=("",)),
        a_key(id="short"),
    ],
)
async def test_a_key_that_makes_no_sense_is_refused(engine: Engine, key: NewKey) -> None:
    with pytest.raises(ConfigError):
        await api_keys.add(engine, key)

    assert await api_keys.every(engine) == []


async def test_a_rotated_key_has_two_secrets_for_a_while(
    engine: Engine, clock: ManualClock
) -> None:
    old, new = a_key(), a_key()
    await api_keys.add(engine, old)

    rotated = await api_keys.rotate(engine, old.id, new.digest, grace=HOUR)
    clock.advance(MINUTE)
    repeated = await api_keys.rotate(engine, old.id, new.digest, grace=HOUR)

    assert rotated == repeated
    assert (rotated.digest, rotated.previous) == (new.digest, old.digest)
    assert rotated.previous_until == clock.now() - MINUTE + HOUR
    found = await api_keys.find_access(engine, old.id)
    assert found is not None
    assert found.key == rotated


async def test_a_key_rotated_without_grace_has_one_secret(engine: Engine) -> None:
    old, new = a_key(), a_key()
    await api_keys.add(engine, old)
    await api_keys.rotate(engine, old.id, a_key().digest, grace=HOUR)

    rotated = await api_keys.rotate(engine, old.id, new.digest, grace=0)

    assert (rotated.digest, rotated.previous, rotated.previous_until) == (
        new.digest,
        None,
        None,
    )
    assert await api_keys.every(engine) == [rotated]


async def test_a_revoked_key_stays_so_and_cannot_be_rotated(
    engine: Engine, clock: ManualClock
) -> None:
    key = await api_keys.add(engine, a_key())
    revoked = await api_keys.revoke(engine, key.id)
    clock.advance(MINUTE)

    assert await api_keys.revoke(engine, key.id) == revoked

    assert revoked == replace(key, revoked_at=clock.now() - MINUTE)
    with pytest.raises(KeyEndedError):
        await api_keys.rotate(engine, key.id, a_key().digest, grace=HOUR)
    assert await api_keys.every(engine) == [revoked]


async def test_an_expired_key_cannot_be_rotated(engine: Engine, clock: ManualClock) -> None:
    key = await api_keys.add(engine, a_key(lifetime=HOUR))
    clock.advance(HOUR)

    with pytest.raises(KeyEndedError):
        await api_keys.rotate(engine, key.id, a_key().digest, grace=HOUR)

    assert await api_keys.every(engine) == [key]


async def test_of_the_uses_of_a_key_one_a_minute_is_noted(
    engine: Engine, clock: ManualClock
) -> None:
    key, other = await api_keys.add(engine, a_key()), await api_keys.add(engine, a_key())
    noted: list[int | None] = []

    for pause in (0, account.USE_NOTED_US - 1, 1, -HOUR):
        clock.step(pause)
        await api_keys.note_uses(engine, [key.id, "unknown"])
        used = {one.id: one.last_used_at for one in await api_keys.every(engine)}
        noted.append(used[key.id])

    first = key.created_at
    later = first + account.USE_NOTED_US
    assert noted == [first, first, later, later - HOUR]
    assert used[other.id] is None


@requires("shared_between_processes")
async def test_accounts_are_the_same_for_every_process(engine: Engine, reopen: Reopen) -> None:
    tenant = await _acme(engine)
    key = await api_keys.add(engine, a_key(tenant="acme"))

    other = await reopen()

    assert await api_keys.find_access(other, key.id) == Access(key, tenant)
    revoked = await api_keys.revoke(other, key.id)
    assert await api_keys.find_access(engine, key.id) == Access(revoked, tenant)


async def test_a_store_remembers_that_it_had_a_key(engine: Engine) -> None:
    never = await api_keys.had_keys(engine)
    await _acme(engine)
    await api_keys.add(engine, a_key(tenant="acme"))
    has = await api_keys.had_keys(engine)

    await tenants.delete(engine, "acme")

    assert await api_keys.every(engine) == []
    assert (never, has, await api_keys.had_keys(engine)) == (False, True, True)
