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
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import HOUR, MINUTE, a_job, a_key, a_schedule
from longshore.testing.manual import a_worker

Reopen = Callable[[], Awaitable[Engine]]


async def _acme(engine: Engine) -> Tenant:
    assert await engine.put_tenant(Tenant(name="acme"))
    return await engine.get_tenant("acme")


async def test_a_tenant_is_kept_as_it_was_made(engine: Engine, clock: ManualClock) -> None:
    made = Tenant(name="acme", requires_idempotency_key=True, rate=12.5, burst=40)

    assert await engine.put_tenant(made)

    assert await engine.get_tenant("acme") == replace(made, created_at=clock.now())


async def test_the_default_tenant_is_always_there_and_can_be_changed(engine: Engine) -> None:
    seen = await engine.get_tenant("default")
    assert await engine.tenants() == [seen]

    assert await engine.put_tenant(replace(seen, rate=5.0), seen=seen)

    assert await engine.get_tenant("default") == replace(seen, rate=5.0)
    assert [tenant.rate for tenant in await engine.tenants()] == [5.0]
    with pytest.raises(ConfigError):
        await engine.delete_tenant("default")


async def test_tenants_are_listed_by_name(engine: Engine) -> None:
    for name in ("zeta", "Zorn", "acme"):
        await engine.put_tenant(Tenant(name=name))

    assert [tenant.name for tenant in await engine.tenants()] == [
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

    again = await engine.put_tenant(Tenant(name="acme"))
    other = await engine.put_tenant(Tenant(name="acme", is_disabled=True))

    assert (again, other) == (True, False)
    assert await engine.get_tenant("acme") == made


async def test_a_tenant_is_replaced_only_as_it_was_seen(engine: Engine) -> None:
    seen = await _acme(engine)
    slow, closed = replace(seen, rate=1.0), replace(seen, is_disabled=True)

    first = await engine.put_tenant(slow, seen=seen)
    late = await engine.put_tenant(closed, seen=seen)
    repeated = await engine.put_tenant(slow, seen=seen)

    assert (first, late, repeated) == (True, False, True)
    assert await engine.get_tenant("acme") == slow


async def test_of_many_who_change_a_tenant_at_once_one_does(engine: Engine) -> None:
    seen = await engine.get_tenant("default")
    wanted = [replace(seen, rate=float(rate)) for rate in range(1, 9)]

    answers = await asyncio.gather(*(engine.put_tenant(one, seen=seen) for one in wanted))

    assert answers.count(True) == 1
    assert await engine.get_tenant("default") == wanted[answers.index(True)]


async def test_a_tenant_that_is_not_there_is_said_to_be_missing(engine: Engine) -> None:
    with pytest.raises(TenantNotFoundError):
        await engine.get_tenant("acme")
    with pytest.raises(TenantNotFoundError):
        await engine.delete_tenant("acme")
    with pytest.raises(TenantNotFoundError):
        await engine.add_key(a_key(tenant="acme"))
    assert not await engine.put_tenant(Tenant(name="acme"), seen=Tenant(name="acme"))


async def test_a_tenant_that_makes_no_sense_is_refused(engine: Engine) -> None:
    with pytest.raises(ConfigError):
        await engine.put_tenant(Tenant(name="a tenant"))
    for rate in (-1.0, 0.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError):
            await engine.put_tenant(Tenant(name="acme", rate=rate))
    with pytest.raises(ConfigError):
        await engine.put_tenant(Tenant(name="acme", rate=1.0, burst=0))
    with pytest.raises(ConfigError):
        await engine.put_tenant(Tenant(name="acme", burst=5))

    assert [tenant.name for tenant in await engine.tenants()] == ["default"]


async def test_a_tenant_goes_with_its_keys_but_not_with_a_job(engine: Engine) -> None:
    await _acme(engine)
    ours, theirs = a_key(tenant="acme"), a_key()
    await engine.add_key(ours)
    kept = await engine.add_key(theirs)
    job = a_job(tenant="acme")
    await engine.submit([job])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.succeed(claim)
    with pytest.raises(TenantInUseError) as caught:
        await engine.delete_tenant("acme")
    assert (caught.value.jobs, caught.value.schedules) == (1, 0)
    await engine.purge([job.id])

    await engine.delete_tenant("acme")

    assert [tenant.name for tenant in await engine.tenants()] == ["default"]
    assert await engine.keys() == [kept]


async def test_a_tenant_with_a_schedule_stays(engine: Engine) -> None:
    tenant = await _acme(engine)
    await engine.put_schedule(a_schedule(tenant="acme"))

    with pytest.raises(TenantInUseError) as caught:
        await engine.delete_tenant("acme")

    assert (caught.value.jobs, caught.value.schedules) == (0, 1)
    assert await engine.get_tenant("acme") == tenant


async def test_a_key_is_found_with_its_tenant(engine: Engine, clock: ManualClock) -> None:
    tenant = await _acme(engine)
    new = a_key(tenant="acme", scopes=(Scope.READ, Scope.SUBMIT), label="ci", lifetime=HOUR)

    key = await engine.add_key(new)

    assert key == ApiKey(
        id=new.id,
        digest=new.digest,
        tenant="acme",
        scopes=(Scope.SUBMIT, Scope.READ),
        label="ci",
        created_at=clock.now(),
        expires_at=clock.now() + HOUR,
    )
    assert await engine.find_access(new.id) == Access(key, tenant)
    assert await engine.keys(tenant="acme") == await engine.keys() == [key]
    assert await engine.keys(tenant="default") == []


async def test_a_key_of_the_default_tenant_needs_nothing_made_before(engine: Engine) -> None:
    key = await engine.add_key(a_key())

    assert await engine.find_access(key.id) == Access(key, Tenant(name="default"))


async def test_an_operators_key_has_no_tenant(engine: Engine) -> None:
    key = await engine.add_key(a_key(tenant=None, scopes=tuple(Scope)))

    assert key.scopes == tuple(Scope)
    assert await engine.find_access(key.id) == Access(key, None)


async def test_a_key_keeps_the_queues_and_types_that_it_may_claim(engine: Engine) -> None:
    narrow = a_key(
        tenant=None, scopes=(Scope.WORK,), queues=("mail", "a/b"), types=("email.*", "x")
    )

    key = await engine.add_key(narrow)
    rotated = await engine.rotate_key(key.id, a_key().digest, grace=HOUR)

    assert (key.scopes, key.queues, key.types) == (
        (Scope.WORK,),
        ("mail", "a/b"),
        ("email.*", "x"),
    )
    assert (rotated.queues, rotated.types) == (key.queues, key.types)
    assert await engine.keys() == [rotated]
    assert await engine.find_access(key.id) == Access(rotated, None)
    assert key.claimable(["email.send", "email", "x", "xy"]) == ["email.send", "x"]


async def test_an_unknown_key_is_found_nowhere(engine: Engine) -> None:
    await engine.add_key(a_key())

    assert await engine.find_access(a_key().id) is None
    assert await engine.find_access("") is None
    with pytest.raises(KeyNotFoundError):
        await engine.revoke_key(a_key().id)
    with pytest.raises(KeyNotFoundError):
        await engine.rotate_key(a_key().id, a_key().digest, grace=0)


async def test_a_key_sent_again_is_stored_once(engine: Engine, clock: ManualClock) -> None:
    new = a_key()
    key = await engine.add_key(new)
    clock.advance(MINUTE)

    assert await engine.add_key(new) == key

    with pytest.raises(ConfigError):
        await engine.add_key(a_key(id=new.id))
    assert await engine.keys() == [key]


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
        await engine.add_key(key)

    assert await engine.keys() == []


async def test_a_rotated_key_has_two_secrets_for_a_while(
    engine: Engine, clock: ManualClock
) -> None:
    old, new = a_key(), a_key()
    await engine.add_key(old)

    rotated = await engine.rotate_key(old.id, new.digest, grace=HOUR)
    clock.advance(MINUTE)
    repeated = await engine.rotate_key(old.id, new.digest, grace=HOUR)

    assert rotated == repeated
    assert (rotated.digest, rotated.previous) == (new.digest, old.digest)
    assert rotated.previous_until == clock.now() - MINUTE + HOUR
    found = await engine.find_access(old.id)
    assert found is not None
    assert found.key == rotated


async def test_a_key_rotated_without_grace_has_one_secret(engine: Engine) -> None:
    old, new = a_key(), a_key()
    await engine.add_key(old)
    await engine.rotate_key(old.id, a_key().digest, grace=HOUR)

    rotated = await engine.rotate_key(old.id, new.digest, grace=0)

    assert (rotated.digest, rotated.previous, rotated.previous_until) == (
        new.digest,
        None,
        None,
    )
    assert await engine.keys() == [rotated]


async def test_a_revoked_key_stays_so_and_cannot_be_rotated(
    engine: Engine, clock: ManualClock
) -> None:
    key = await engine.add_key(a_key())
    revoked = await engine.revoke_key(key.id)
    clock.advance(MINUTE)

    assert await engine.revoke_key(key.id) == revoked

    assert revoked == replace(key, revoked_at=clock.now() - MINUTE)
    with pytest.raises(KeyEndedError):
        await engine.rotate_key(key.id, a_key().digest, grace=HOUR)
    assert await engine.keys() == [revoked]


async def test_an_expired_key_cannot_be_rotated(engine: Engine, clock: ManualClock) -> None:
    key = await engine.add_key(a_key(lifetime=HOUR))
    clock.advance(HOUR)

    with pytest.raises(KeyEndedError):
        await engine.rotate_key(key.id, a_key().digest, grace=HOUR)

    assert await engine.keys() == [key]


async def test_of_the_uses_of_a_key_one_a_minute_is_noted(
    engine: Engine, clock: ManualClock
) -> None:
    key, other = await engine.add_key(a_key()), await engine.add_key(a_key())
    noted: list[int | None] = []

    for pause in (0, account.USE_NOTED_US - 1, 1, -HOUR):
        clock.step(pause)
        await engine.note_use([key.id, "unknown"])
        found = await engine.find_access(key.id)
        assert found is not None
        noted.append(found.key.last_used_at)

    first = key.created_at
    later = first + account.USE_NOTED_US
    assert noted == [first, first, later, later - HOUR]
    unused = await engine.find_access(other.id)
    assert unused is not None
    assert unused.key.last_used_at is None


@requires("shared_between_processes")
async def test_accounts_are_the_same_for_every_process(engine: Engine, reopen: Reopen) -> None:
    tenant = await _acme(engine)
    key = await engine.add_key(a_key(tenant="acme"))

    other = await reopen()

    assert await other.find_access(key.id) == Access(key, tenant)
    revoked = await other.revoke_key(key.id)
    assert await engine.find_access(key.id) == Access(revoked, tenant)


async def test_a_store_remembers_that_it_had_a_key(engine: Engine) -> None:
    never = await engine.had_keys()
    await _acme(engine)
    await engine.add_key(a_key(tenant="acme"))
    has = await engine.had_keys()

    await engine.delete_tenant("acme")

    assert await engine.keys() == []
    assert (never, has, await engine.had_keys()) == (False, True, True)
