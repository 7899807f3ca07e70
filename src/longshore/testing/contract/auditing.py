from collections.abc import Sequence

import pytest
from msgspec import json
from msgspec.structs import replace

from longshore.contract import Engine, Retention
from longshore.core import audit_record, ids
from longshore.core.account import DEFAULT_TENANT, NewKey, Scope, Tenant
from longshore.core.audit import PRUNE, Entry, Kind, Verifier
from longshore.core.audit_record import Tally
from longshore.core.event import Name, decode
from longshore.core.limit_settings import BreakerSettings, Layer, QueueSettings
from longshore.errors import (
    CursorLostError,
    KeyNotFoundError,
    TenantNotFoundError,
    WebhookNotFoundError,
)
from longshore.records import (
    api_keys,
    breaker_settings,
    pauses,
    queue_settings,
    schedules,
    tenants,
    webhooks,
)
from longshore.runtime.actor import acting
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import all_events
from longshore.testing.contract.webhooks import an_endpoint
from longshore.testing.factories import DAY, HOUR, SECOND, a_job, a_schedule
from longshore.testing.manual import a_worker

EVERYTHING = 1_000


async def everything(engine: Engine) -> list[Entry]:
    await engine.chain(limit=EVERYTHING)
    return await engine.audit_entries(after=0, limit=EVERYTHING)


async def fault_of(engine: Engine, entries: Sequence[Entry] | None = None) -> object:
    verifier = Verifier(await engine.audit_standing())
    found = await engine.audit_entries(after=0, limit=EVERYTHING)
    return verifier.read(found if entries is None else entries) or verifier.end()


async def test_every_order_about_jobs_leaves_a_record(engine: Engine) -> None:
    job, later = a_job(), a_job(delay=HOUR)
    await engine.submit([job, later])
    worker = await a_worker(engine)

    await pauses.pause(engine, queue="mail")
    await pauses.pause(engine, type="send")
    await pauses.resume(engine, type="send")
    await engine.change("retry", [later.id])
    await engine.change("cancel", [job.id, later.id], reason="enough")
    await engine.change("replay", [job.id], tenant=DEFAULT_TENANT)
    await engine.change("cancel", [job.id], reason="again")
    await engine.change("purge", [job.id])
    await engine.drain_session(worker.session.token)
    await schedules.put(engine, a_schedule(name="hourly"))
    await schedules.delete(engine, "hourly")
    found = await everything(engine)

    assert [(one.action, one.tenant) for one in found] == [
        ("queue.pause", ""),
        ("type.pause", ""),
        ("type.resume", ""),
        ("job.retry", ""),
        ("job.cancel", ""),
        ("job.replay", "default"),
        ("job.cancel", ""),
        ("job.purge", ""),
        ("worker.drain", ""),
        ("schedule.put", "default"),
        ("schedule.delete", "default"),
    ]
    assert [found[0].subject, found[4].subject] == ["mail", "2 jobs"]
    assert b'"reason":"enough"' in found[4].body
    assert all(one.actor for one in found)
    assert await fault_of(engine) is None


async def test_every_change_of_settings_and_accounts_leaves_a_record(engine: Engine) -> None:
    key = NewKey(id="0" * 12, digest=bytes(32), tenant="acme", scopes=(Scope.READ,))

    await tenants.create(engine, Tenant(name="acme"))
    await api_keys.add(engine, key)
    await api_keys.rotate(engine, key.id, b"\1" * 32, grace=0)
    await api_keys.revoke(engine, key.id)
    await tenants.delete(engine, "acme")
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, QueueSettings(max_running=3))
    await breaker_settings.put(engine, "send", Layer.OVERRIDDEN, BreakerSettings(failures=3))
    await engine.submit([a_job(type="send")])
    worker = await a_worker(engine, types=["send"])
    await worker.fail((await worker.claim(1))[0])
    await breaker_settings.reset(engine, "send")
    await breaker_settings.reset(engine, "send")
    await webhooks.create(engine, an_endpoint())
    await webhooks.delete(engine, an_endpoint().id)
    await engine.take_cursor("kafka", holder="me", lease=SECOND)
    await engine.delete_consumer("kafka")
    found = await everything(engine)

    assert [(one.action, one.tenant) for one in found] == [
        ("tenant.put", "acme"),
        ("key.create", "acme"),
        ("key.rotate", ""),
        ("key.revoke", ""),
        ("tenant.delete", ""),
        ("queue.set", ""),
        ("breaker.set", ""),
        ("breaker.reset", ""),
        ("webhook.put", "default"),
        ("webhook.delete", ""),
        ("consumer.forget", ""),
    ]
    assert b"whsec_" not in b"".join(one.body for one in found)
    assert await fault_of(engine) is None


async def test_who_submitted_is_recorded_for_many_jobs_at_once(engine: Engine) -> None:
    first, last = a_job(), a_job()

    for jobs, until in ((1, first), (500, last)):
        told = audit_record.submitted(Tally("acme", jobs, first.id, until.id))
        await engine.write_records([], audit=replace(told, actor="key 7"))
    one, many = await everything(engine)

    assert {(it.action, it.tenant) for it in (one, many)} == {("job.submit", "acme")}
    assert (one.subject, many.subject) == (ids.text(first.id), "500 jobs")
    assert json.decode(many.body) == {"first": ids.text(first.id), "last": ids.text(last.id)}
    assert await fault_of(engine) is None


async def test_what_is_refused_leaves_no_record(engine: Engine) -> None:
    with pytest.raises(KeyNotFoundError):
        await api_keys.revoke(engine, "1" * 12)
    with pytest.raises(TenantNotFoundError):
        await tenants.delete(engine, "nobody")
    with pytest.raises(WebhookNotFoundError):
        await webhooks.change(engine, an_endpoint().id, lambda seen: seen)
    assert not await engine.release_line("default", "anna")
    assert not await engine.delete_consumer("nobody")
    await engine.change("cancel", [], reason="none")

    assert await everything(engine) == []


async def test_a_purge_is_recorded_with_whoever_ordered_it(engine: Engine) -> None:
    job = a_job()
    await engine.submit([job])
    await engine.change("cancel", [job.id], reason="enough")

    with acting("key 7"):
        await pauses.pause(engine, queue="mail")
        await engine.change("purge", [job.id])

    # An engine that asks a service is called by its key there.
    *_, pause, purge = await everything(engine)
    (purged,) = [one for one in await all_events(engine) if one.name is Name.PURGED]
    assert (purge.action, purge.actor) == ("job.purge", pause.actor)
    assert purged.details["who"] == pause.actor


async def test_transitions_are_chained_once_however_often_they_are_read(
    engine: Engine,
) -> None:
    first, second = a_job(), a_job()
    await engine.submit([first, second])
    await pauses.pause(engine, queue="mail")
    stale = await engine.take_cursor("audit", holder="one", lease=SECOND)
    assert stale is not None
    await engine.advance(stale, position=stale.position, releases=True)
    cursor = await engine.take_cursor("audit", holder="two", lease=SECOND)
    assert cursor is not None

    done = await engine.chain(limit=EVERYTHING, cursor=cursor, after=0)
    again = await engine.chain(limit=EVERYTHING, cursor=cursor, after=done.position)
    with pytest.raises(CursorLostError):
        await engine.chain(limit=EVERYTHING, cursor=stale, after=0)

    action, *told = await engine.audit_entries(after=0, limit=EVERYTHING)
    groups = [group for one in told for group in decode(one.body)]
    assert (again.entries, again.position, again.is_more) == (0, done.position, False)
    assert (action.kind, {one.kind for one in told}) == (Kind.ACTION, {Kind.TRANSITIONS})
    assert b"".join(group.ids for group in groups) == first.id + second.id
    (consumer,) = await engine.consumers()
    assert consumer.behind == 0
    assert [one.number for one in await engine.audit_entries(before=9, limit=9)] == [
        *range(1 + len(told), 0, -1)
    ]
    assert await engine.audit_entries(before=9, limit=9, kind=Kind.ACTION) == [action]
    assert await fault_of(engine) is None


async def test_retention_cuts_the_old_end_and_says_so(
    engine: Engine, clock: ManualClock
) -> None:
    for number in range(3):
        await pauses.pause(engine, queue=f"old{number}")
    await engine.chain(limit=2)
    whole = await engine.audit_standing()
    await engine.chain(limit=EVERYTHING)
    clock.advance(DAY)
    with acting("anna"):
        await pauses.pause(engine, queue="new")
    await engine.chain(limit=EVERYTHING)
    keep = Retention(audit=HOUR)

    with acting("anna"):
        pruned = await engine.prune(keep, limit=2), await engine.prune(keep, limit=EVERYTHING)

    left = await engine.audit_entries(after=0, limit=EVERYTHING)
    standing = await engine.audit_standing()
    assert whole.anchor.number == 0
    assert pruned == (2, 1)
    assert [one.action for one in left] == ["queue.pause", PRUNE, PRUNE]
    assert len({one.actor for one in left}) == 1
    assert json.decode(left[2].body)["before"] == left[2].at - HOUR
    assert (standing.anchor.number, standing.head.number) == (3, 6)
    assert await fault_of(engine) is None
    verifier = Verifier(standing)
    assert verifier.read(left[:1]) is None
    assert verifier.end() is not None


async def test_asking_a_session_that_has_ended_to_drain_leaves_no_record(
    engine: Engine,
) -> None:
    worker, other = await a_worker(engine), await a_worker(engine)
    await worker.session.close()

    await engine.drain_session(worker.session.token)

    assert await everything(engine) == []
    assert not (await other.session.renew()).is_quiet
