import asyncio

import pytest
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.contract.records import (
    ANY,
    LONGEST_NAME,
    AuditRecord,
    Delete,
    Kind,
    Order,
    Put,
    Record,
    RecordFilter,
    Ref,
)
from longshore.core.account import Tenant
from longshore.errors import (
    CapReachedError,
    ConfigError,
    TenantInUseError,
    TenantNotFoundError,
)
from longshore.records import tenants
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import MINUTE, a_job
from longshore.testing.manual import a_worker

_WEBHOOK = Ref(Kind.WEBHOOK, "wh_1", "default")
_DONE = AuditRecord("webhook.put", "wh_1", "default", actor="someone")


def _put(ref: Ref = _WEBHOOK, body: bytes = b'{"a":1}', *, expected: int = 0) -> Put:
    return Put(ref=ref, body=body, expected=expected)


async def _written(engine: Engine, *changes: Put | Delete) -> list[Record]:
    answer = await engine.write_records(changes, audit=None)
    assert answer.conflict is None
    return answer.records


async def _read(engine: Engine, ref: Ref) -> Record | None:
    (found,) = (await engine.get_records([ref])).records
    return found


async def _names(engine: Engine, which: RecordFilter) -> list[tuple[str, str]]:
    page = await engine.list_records(which, limit=100)
    return [(one.name, one.tenant) for one in page.records]


async def _actions(engine: Engine) -> list[str]:
    await engine.chain(limit=1_000)
    return [one.action for one in await engine.audit_entries(after=0, limit=1_000)]


async def test_a_record_is_kept_as_it_was_put(engine: Engine, clock: ManualClock) -> None:
    (made,) = await _written(engine, _put())

    assert made == Record(
        kind=Kind.WEBHOOK,
        name="wh_1",
        tenant="default",
        version=clock.now(),
        body=b'{"a":1}',
        created_at=clock.now(),
        changed_at=clock.now(),
    )
    assert await _read(engine, _WEBHOOK) == made


async def test_a_write_replaces_the_body_and_counts_the_version(
    engine: Engine, clock: ManualClock
) -> None:
    (made,) = await _written(engine, _put())
    clock.advance(MINUTE)

    (changed,) = await _written(engine, _put(body=b'{"a":2}', expected=made.version))

    assert changed == replace(
        made, body=b'{"a":2}', version=made.version + 1, changed_at=clock.now()
    )
    assert await _read(engine, _WEBHOOK) == changed


async def test_reads_answer_in_the_order_they_were_asked_with_the_clock(
    engine: Engine, clock: ManualClock
) -> None:
    first, second = Ref(Kind.FLAG, "a"), Ref(Kind.FLAG, "b")
    await _written(engine, _put(first), _put(second))

    found = await engine.get_records([second, Ref(Kind.FLAG, "none"), first])

    assert found.now == clock.now()
    assert [one and one.name for one in found.records] == ["b", None, "a"]


async def test_a_name_of_one_kind_is_not_that_of_another(engine: Engine) -> None:
    await _written(engine, _put(Ref(Kind.FLAG, "a")))

    assert await _read(engine, Ref(Kind.QUARANTINED, "a")) is None


async def test_a_record_of_a_tenant_is_found_by_who_does_not_know_whose_it_is(
    engine: Engine,
) -> None:
    (made,) = await _written(engine, _put())

    assert await _read(engine, Ref(Kind.WEBHOOK, "wh_1", None)) == made
    assert await _read(engine, Ref(Kind.WEBHOOK, "wh_1", "another")) is None
    assert await _read(engine, Ref(Kind.WEBHOOK, "wh_1", "")) is None


async def test_records_come_with_their_tenants_if_asked(engine: Engine) -> None:
    acme = Ref(Kind.TENANT, "acme")
    (tenant,) = await _written(engine, _put(acme, b'{"name":"acme"}'))
    key, nobodys = Ref(Kind.KEY, "k1", "acme"), Ref(Kind.KEY, "k2")
    await _written(engine, _put(key), _put(nobodys))

    found = await engine.get_records(
        [Ref(Kind.KEY, "k1", None), Ref(Kind.KEY, "k2", None)], with_tenants=True
    )

    assert found.tenants == {"acme": tenant}
    assert (await engine.get_records([key])).tenants == {}


async def test_the_default_tenant_is_there_from_the_beginning(engine: Engine) -> None:
    standing = await _read(engine, Ref(Kind.TENANT, "default"))

    assert standing is not None
    assert (standing.version, standing.body, standing.created_at) == (
        1,
        b'{"name":"default"}',
        0,
    )


@pytest.mark.parametrize("expected", [0, 2, 7])
async def test_a_write_that_expects_another_version_changes_nothing(
    engine: Engine, expected: int
) -> None:
    (made,) = await _written(engine, _put())
    other = Ref(Kind.WEBHOOK, "wh_2", "default")

    answer = await engine.write_records(
        [_put(other), _put(body=b'{"a":2}', expected=expected)], audit=_DONE
    )

    assert (answer.conflict, answer.records) == (_WEBHOOK, [])
    assert await _read(engine, _WEBHOOK) == made
    assert await _read(engine, other) is None
    assert await _actions(engine) == []


async def test_a_record_that_is_gone_is_not_put_by_who_expects_it(engine: Engine) -> None:
    answer = await engine.write_records([_put(expected=1)], audit=_DONE)

    assert answer.conflict == _WEBHOOK
    assert await _read(engine, _WEBHOOK) is None


async def test_a_delete_expects_a_version_too(engine: Engine) -> None:
    (made,) = await _written(engine, _put())

    late = await engine.write_records([Delete(ref=_WEBHOOK, expected=2)], audit=_DONE)
    assert late.conflict == _WEBHOOK
    assert await _read(engine, _WEBHOOK) == made

    done = await engine.write_records(
        [Delete(ref=_WEBHOOK, expected=made.version)], audit=_DONE
    )
    assert (done.conflict, done.records) == (None, [])
    assert await _read(engine, _WEBHOOK) is None


async def test_who_has_read_a_record_that_is_gone_does_not_change_the_next_of_its_name(
    engine: Engine, clock: ManualClock
) -> None:
    (made,) = await _written(engine, _put())
    await _written(engine, _put(body=b"{}", expected=made.version))
    await _written(engine, Delete(ref=_WEBHOOK))
    clock.advance(MINUTE)

    (again,) = await _written(engine, _put())

    assert again.version == clock.now() > made.version + 1
    for late in (made.version, made.version + 1):
        answer = await engine.write_records([_put(body=b"[]", expected=late)], audit=None)
        assert answer.conflict == _WEBHOOK


async def test_any_version_can_be_overwritten(engine: Engine) -> None:
    (made,) = await _written(engine, _put(expected=ANY))

    (changed,) = await _written(engine, _put(body=b'{"a":2}', expected=ANY))

    assert (changed.body, changed.version) == (b'{"a":2}', made.version + 1)


async def test_a_write_sent_again_is_no_news(engine: Engine, clock: ManualClock) -> None:
    (made,) = (await engine.write_records([_put()], audit=_DONE)).records
    clock.advance(MINUTE)

    again = await engine.write_records([_put()], audit=_DONE)

    assert (again.conflict, again.records) == (None, [made])
    assert await _read(engine, _WEBHOOK) == made
    assert await _actions(engine) == ["webhook.put"]


async def test_a_delete_of_what_is_gone_is_no_news(engine: Engine) -> None:
    gone = replace(_DONE, action="webhook.delete")

    answer = await engine.write_records([Delete(ref=_WEBHOOK, expected=3)], audit=gone)

    assert answer.conflict is None
    assert await _actions(engine) == []


async def test_the_audit_record_says_who_did_what(engine: Engine, clock: ManualClock) -> None:
    facts = replace(_DONE, facts='{"url":"https://example.com"}')

    await engine.write_records([_put()], audit=facts)

    await engine.chain(limit=10)
    (entry,) = await engine.audit_entries(after=0, limit=10)
    assert (entry.at, entry.actor, entry.action, entry.subject, entry.tenant) == (
        clock.now(),
        "someone",
        "webhook.put",
        "wh_1",
        "default",
    )


async def test_an_audit_record_alone_is_stored(engine: Engine) -> None:
    answer = await engine.write_records([], audit=replace(_DONE, action="job.submit"))

    assert (answer.conflict, answer.records) == (None, [])
    assert await _actions(engine) == ["job.submit"]


async def test_of_several_writes_one_that_is_news_leaves_the_audit_record(
    engine: Engine,
) -> None:
    await _written(engine, _put())

    await engine.write_records(
        [_put(), _put(Ref(Kind.WEBHOOK, "wh_2", "default"))], audit=_DONE
    )

    assert await _actions(engine) == ["webhook.put"]


async def test_the_same_record_twice_in_one_call_is_refused(engine: Engine) -> None:
    with pytest.raises(ConfigError):
        await engine.write_records([_put(), _put(expected=ANY)], audit=None)

    assert await _read(engine, _WEBHOOK) is None


async def test_of_many_who_expect_the_same_version_one_writes(engine: Engine) -> None:
    (made,) = await _written(engine, _put(body=b'{"by":0}'))

    answers = await asyncio.gather(
        *(
            engine.write_records(
                [_put(body=b'{"by":%d}' % by, expected=made.version)], audit=None
            )
            for by in range(1, 9)
        )
    )

    assert [one.conflict for one in answers].count(None) == 1
    standing = await _read(engine, _WEBHOOK)
    assert standing is not None
    assert standing.version == made.version + 1


async def test_many_who_change_one_record_at_once_all_do(engine: Engine) -> None:
    await tenants.create(engine, Tenant(name="acme", max_queues=0))

    async def change(number: int) -> None:
        def changed(it: Tenant) -> Tenant:
            return replace(it, max_queues=it.max_queues + 1, max_keys=number)

        await tenants.change(engine, "acme", changed)

    await asyncio.gather(*map(change, range(40)))

    assert (await tenants.get(engine, "acme")).max_queues == 40


async def test_of_many_who_create_the_same_record_one_does(engine: Engine) -> None:
    answers = await asyncio.gather(
        *(engine.write_records([_put(body=b'{"by":%d}' % by)], audit=_DONE) for by in range(8))
    )

    assert [one.conflict for one in answers].count(None) == 1
    assert await _actions(engine) == ["webhook.put"]


async def test_writes_of_the_same_records_in_any_order_all_end(engine: Engine) -> None:
    refs = [Ref(Kind.WEBHOOK, f"wh_{number}", "default") for number in range(5)]

    answers = await asyncio.gather(
        *(
            engine.write_records(
                [
                    _put(ref, b'{"by":%d}' % by, expected=ANY)
                    for ref in (refs if by % 2 else reversed(refs))
                ],
                audit=None,
            )
            for by in range(10)
        )
    )

    assert all(one.conflict is None for one in answers)
    found = (await engine.get_records(refs)).records
    assert {one and one.body for one in found} == {found[0] and found[0].body}


async def test_a_name_that_another_tenant_has_is_a_conflict_where_names_are_unique(
    engine: Engine,
) -> None:
    await _written(engine, _put(Ref(Kind.TENANT, "acme"), b'{"name":"acme"}'))
    (made,) = await _written(engine, _put())
    theirs = Ref(Kind.WEBHOOK, "wh_1", "acme")

    for expected in (0, ANY, made.version):
        answer = await engine.write_records([_put(theirs, expected=expected)], audit=None)
        assert answer.conflict == theirs

    assert await _read(engine, Ref(Kind.WEBHOOK, "wh_1", None)) == made
    assert (await engine.write_records([Delete(ref=theirs)], audit=None)).conflict is None
    assert await _read(engine, _WEBHOOK) == made


async def test_tenants_may_have_schedules_of_one_name(engine: Engine) -> None:
    theirs, ours = Ref(Kind.SCHEDULE, "daily", "acme"), Ref(Kind.SCHEDULE, "daily", "default")

    await _written(engine, _put(theirs, b'{"a":1}'), _put(ours, b'{"a":2}'))

    found = (await engine.get_records([ours, theirs])).records
    assert [one and one.body for one in found] == [b'{"a":2}', b'{"a":1}']


async def test_records_are_listed_by_name(engine: Engine) -> None:
    refs = [Ref(Kind.SCHEDULE, name, "default") for name in ("zeta", "Zorn", "acme")]
    await _written(engine, *(_put(ref) for ref in refs))
    await _written(engine, _put(Ref(Kind.SCHEDULE, "acme", "acme")))
    await _written(engine, _put(Ref(Kind.FLAG, "muted")))

    assert await _names(engine, RecordFilter(kind=Kind.SCHEDULE)) == [
        ("Zorn", "default"),
        ("acme", "acme"),
        ("acme", "default"),
        ("zeta", "default"),
    ]
    mine = RecordFilter(kind=Kind.SCHEDULE, tenant="acme")
    assert await _names(engine, mine) == [("acme", "acme")]
    nobodys = RecordFilter(kind=Kind.SCHEDULE, tenant="")
    assert await _names(engine, nobodys) == []


async def test_records_are_listed_by_what_their_name_begins_with(engine: Engine) -> None:
    names = ("a", "mail", "mail.eu", "mail%", "mai", "mb", "MAIL")
    await _written(engine, *(_put(Ref(Kind.FLAG, name)) for name in names))

    found = await _names(engine, RecordFilter(kind=Kind.FLAG, prefix="mail"))

    assert [name for name, _ in found] == ["mail", "mail%", "mail.eu"]


@pytest.mark.parametrize("order", list(Order))
async def test_a_list_is_read_page_by_page(
    engine: Engine, clock: ManualClock, order: Order
) -> None:
    names = ["d", "a", "c", "b", "e"]
    for name in names:
        # Two are of the same moment.
        if name != "c":
            clock.advance(MINUTE)
        await _written(engine, _put(Ref(Kind.SCHEDULE, name, "default")))
    which = RecordFilter(kind=Kind.SCHEDULE, order=order)

    found, cursor = list[str](), None
    while True:
        page = await engine.list_records(which, limit=2, cursor=cursor)
        assert page.now == clock.now()
        found += [one.name for one in page.records]
        cursor = page.cursor
        if cursor is None:
            break

    assert (
        found
        == {
            Order.NAME: ["a", "b", "c", "d", "e"],
            Order.OLDEST: ["d", "a", "c", "b", "e"],
            Order.NEWEST: ["e", "b", "c", "a", "d"],
        }[order]
    )


@pytest.mark.parametrize("order", list(Order))
async def test_a_tenants_records_are_read_page_by_page_too(
    engine: Engine, clock: ManualClock, order: Order
) -> None:
    refs = [Ref(Kind.SCHEDULE, name, "acme") for name in ("x1", "x1x", "x2", "y", "w", "x")]
    for ref in refs:
        clock.advance(MINUTE)
        await _written(engine, _put(ref), _put(ref._replace(tenant="other")))
    which = RecordFilter(kind=Kind.SCHEDULE, tenant="acme", prefix="x", order=order)

    found, cursor = list[tuple[str, str]](), None
    while True:
        page = await engine.list_records(which, limit=1, cursor=cursor)
        found += [(one.name, one.tenant) for one in page.records]
        cursor = page.cursor
        if cursor is None:
            break

    names = {
        Order.NAME: ["x", "x1", "x1x", "x2"],
        Order.OLDEST: ["x1", "x1x", "x2", "x"],
        Order.NEWEST: ["x", "x2", "x1x", "x1"],
    }[order]
    assert found == [(name, "acme") for name in names]


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("prefix", ["", "a", "a\U0010ffff", "\U0010ffff", "\ud7ff"])
async def test_a_list_has_names_of_the_last_characters_too(
    engine: Engine, order: Order, prefix: str
) -> None:
    names = ("a", "a\U0010ffff", "a\U0010ffff\U0010ffff", "b", "\ud7ff", "\ue000", "\U0010ffff")
    await _written(engine, *(_put(Ref(Kind.SCHEDULE, name, "acme")) for name in names))

    for tenant in (None, "acme"):
        which = RecordFilter(kind=Kind.SCHEDULE, prefix=prefix, order=order, tenant=tenant)
        found = {name for name, _ in await _names(engine, which)}
        assert found == {name for name in names if name.startswith(prefix)}


async def test_the_last_page_of_a_list_has_no_cursor(engine: Engine) -> None:
    await _written(engine, _put(Ref(Kind.FLAG, "a")), _put(Ref(Kind.FLAG, "b")))

    page = await engine.list_records(RecordFilter(kind=Kind.FLAG), limit=2)

    assert (len(page.records), page.cursor) == (2, None)


async def test_a_cursor_of_another_list_is_refused(engine: Engine) -> None:
    await _written(engine, _put(Ref(Kind.FLAG, "a")), _put(Ref(Kind.FLAG, "b")))
    which = RecordFilter(kind=Kind.FLAG)
    cursor = (await engine.list_records(which, limit=1)).cursor

    for other in (replace(which, order=Order.OLDEST), replace(which, prefix="a")):
        with pytest.raises(ConfigError):
            await engine.list_records(other, limit=1, cursor=cursor)
    with pytest.raises(ConfigError):
        await engine.list_records(which, limit=1, cursor="nonsense")


async def test_a_record_that_needs_its_tenant_is_not_made_without(engine: Engine) -> None:
    nobodys = Ref(Kind.KEY, "k1")
    for kind in (Kind.KEY, Kind.WEBHOOK):
        with pytest.raises(TenantNotFoundError):
            await _written(engine, _put(nobodys), _put(Ref(kind, "x", "nowhere")))

    assert await _read(engine, nobodys) is None
    await _written(engine, _put(Ref(Kind.SCHEDULE, "daily", "nowhere")))


async def test_a_tenant_made_in_the_same_call_is_there_in_whatever_order(
    engine: Engine,
) -> None:
    for name in ("acme", "other"):
        tenant, key = Ref(Kind.TENANT, name), Ref(Kind.KEY, f"of {name}", name)
        changes = [_put(tenant, b'{"name":"%s"}' % name.encode()), _put(key)]

        await _written(engine, *(changes if name == "acme" else reversed(changes)))

        assert await _read(engine, key) is not None


async def test_no_more_than_so_many_of_a_kind_are_made(engine: Engine) -> None:
    refs = [Ref(Kind.WEBHOOK, f"wh_{number}", "default") for number in range(3)]
    capped = [replace(_put(ref), most=2) for ref in refs]
    (made,) = await _written(engine, capped[0])
    await _written(engine, capped[1])

    with pytest.raises(CapReachedError):
        await _written(engine, capped[2])

    assert await _read(engine, refs[2]) is None
    # What stands may be changed, whoever else is there.
    await _written(engine, replace(capped[0], body=b'{"a":2}', expected=made.version))
    await _written(engine, Delete(ref=refs[1]))
    await _written(engine, capped[2])


async def test_a_cap_counts_what_the_same_call_makes(engine: Engine) -> None:
    refs = [Ref(Kind.WEBHOOK, f"wh_{number}", "default") for number in range(3)]

    with pytest.raises(CapReachedError):
        await _written(engine, *(replace(_put(ref), most=2) for ref in refs))

    assert (await engine.get_records(refs)).records == (None, None, None)


async def test_what_the_same_call_deletes_makes_room_in_whatever_order(
    engine: Engine,
) -> None:
    first, second = (Ref(Kind.WEBHOOK, f"wh_{number}", "default") for number in range(2))
    await _written(engine, replace(_put(first), most=1))

    await _written(engine, replace(_put(second), most=1), Delete(ref=first))

    found = (await engine.get_records([first, second])).records
    assert [one and one.name for one in found] == [None, "wh_1"]


async def test_many_who_create_at_once_keep_to_the_cap(engine: Engine) -> None:
    async def make(number: int) -> bool:
        ref = Ref(Kind.WEBHOOK, f"wh_{number}", "default")
        try:
            await _written(engine, replace(_put(ref), most=3))
        except CapReachedError:
            return False
        return True

    made = await asyncio.gather(*map(make, range(10)))

    assert sum(made) == 3
    assert len(await _names(engine, RecordFilter(kind=Kind.WEBHOOK))) == 3


async def test_a_due_time_stays_unless_it_is_given(engine: Engine) -> None:
    ref = Ref(Kind.SCHEDULE, "daily", "default")
    (made,) = await _written(engine, replace(_put(ref), due=5_000))
    assert made.due == 5_000

    (same,) = await _written(engine, _put(ref, b'{"a":2}', expected=made.version))
    assert same.due == 5_000

    (moved,) = await _written(engine, replace(_put(ref, b'{"a":2}', expected=ANY), due=7_000))
    assert (moved.due, moved.version) == (7_000, same.version + 1)

    (paused,) = await _written(engine, replace(_put(ref, b'{"a":2}', expected=ANY), due=None))
    assert paused.due is None


async def test_a_tenant_takes_its_records_along(engine: Engine) -> None:
    acme = Ref(Kind.TENANT, "acme")
    await _written(engine, _put(acme, b'{"name":"acme"}'))
    theirs = [Ref(kind, "x", "acme") for kind in (Kind.KEY, Kind.KEY_USE, Kind.WEBHOOK)]
    ours = Ref(Kind.KEY, "ours", "default")
    await _written(engine, *(_put(ref) for ref in (*theirs, ours)))

    await _written(engine, Delete(ref=acme))

    assert (await engine.get_records([acme, *theirs])).records == (None, None, None, None)
    assert await _read(engine, ours) is not None


async def test_a_tenant_with_a_schedule_is_not_deleted(engine: Engine) -> None:
    acme, daily = Ref(Kind.TENANT, "acme"), Ref(Kind.SCHEDULE, "daily", "acme")
    key = Ref(Kind.KEY, "k1", "acme")
    await _written(engine, _put(acme, b'{"name":"acme"}'), _put(daily), _put(key))

    with pytest.raises(TenantInUseError):
        await engine.write_records([Delete(ref=acme)], audit=_DONE)

    assert await _read(engine, key) is not None
    assert await _actions(engine) == []
    await _written(engine, Delete(ref=acme), Delete(ref=daily))
    assert await _read(engine, acme) is None


async def test_what_is_put_for_a_tenant_that_goes_is_made_anew(
    engine: Engine, clock: ManualClock
) -> None:
    acme, use = Ref(Kind.TENANT, "acme"), Ref(Kind.KEY_USE, "k1", "acme")
    _, before = await _written(engine, _put(acme, b'{"name":"acme"}'), _put(use))
    clock.advance(MINUTE)

    change = _put(use, b'{"a":2}', expected=before.version)
    (made,) = await _written(engine, change, Delete(ref=acme))

    assert (made.created_at, made.body) == (clock.now(), b'{"a":2}')
    assert await _read(engine, use) == made


async def test_a_pause_goes_with_its_tenant_and_nobody_elses_delete(engine: Engine) -> None:
    acme, pause = Ref(Kind.TENANT, "acme"), Ref(Kind.PAUSE, "default *", "acme")
    await _written(engine, _put(acme, b'{"name":"acme"}'))
    await _written(engine, _put(pause))
    await engine.submit([a_job()])
    worker = await a_worker(engine)

    await _written(engine, Delete(ref=pause._replace(tenant="")))
    held = await worker.claim(9)
    await _written(engine, Delete(ref=acme))

    assert held == []
    assert len(await worker.claim(9)) == 1


async def test_a_reset_fills_the_rate_of_a_queue(engine: Engine) -> None:
    queue = _put(Ref(Kind.QUEUE, "default"), b'{"declared":{"rate":0.001,"burst":2}}')
    (made,) = await _written(engine, queue)
    await engine.submit([a_job() for _ in range(9)])
    worker = await a_worker(engine)

    first, none = await worker.claim(9), await worker.claim(9)
    (reset,) = await _written(engine, replace(queue, expected=ANY, resets=True))

    assert (len(first), none, len(await worker.claim(9))) == (2, [], 2)
    assert (reset.version, reset.state) == (made.version + 1, b"{}")


async def test_a_tenant_with_jobs_is_not_deleted(engine: Engine) -> None:
    acme = Ref(Kind.TENANT, "acme")
    await _written(engine, _put(acme, b'{"name":"acme"}'))
    await engine.submit([a_job(tenant="acme")])

    with pytest.raises(TenantInUseError):
        await _written(engine, Delete(ref=acme))

    assert await _read(engine, acme) is not None


@pytest.mark.parametrize("of", [Kind.QUEUE, Kind.BREAKER, Kind.PAUSE, Kind.TENANT])
async def test_a_body_that_claims_cannot_obey_is_refused(engine: Engine, of: Kind) -> None:
    good, bad = Ref(Kind.FLAG, "a"), Ref(of, "mail")
    body = b'{"declared":{"rate":"fast","failures":"many"},"weight":"heavy"}'
    if of is Kind.PAUSE:
        body, bad = b"{}", Ref(of, "no queue and type here")

    with pytest.raises(ConfigError):
        await _written(engine, _put(good), _put(bad, body))

    assert (await engine.get_records([good, bad])).records == (None, None)


_NO_NAMES = {
    "null": "a\0b",
    "null at the end": "a\0",
    "surrogate": "\ud800",
    "long": "x" * (LONGEST_NAME + 1),
    "long in bytes": "é" * LONGEST_NAME,
}


@pytest.mark.parametrize("name", _NO_NAMES.values(), ids=_NO_NAMES)
async def test_a_name_that_not_every_store_can_hold_is_refused(
    engine: Engine, name: str
) -> None:
    await _written(engine, _put(Ref(Kind.FLAG, "a")))
    for ref in (Ref(Kind.FLAG, name), Ref(Kind.QUARANTINED, "a", name)):
        for change in (_put(ref), Delete(ref=ref)):
            with pytest.raises(ConfigError):
                await _written(engine, change)
        with pytest.raises(ConfigError):
            await engine.get_records([ref])
    with pytest.raises(ConfigError):
        await engine.list_records(RecordFilter(kind=Kind.FLAG, prefix=name), limit=9)


@pytest.mark.parametrize(
    "name",
    ["x" * LONGEST_NAME, "a\x01 b\u2028*%_'\"\\", "", " ", "é"],
    ids=["long", "odd", "empty", "space", "accent"],
)
async def test_any_other_name_is_kept_as_it_is(engine: Engine, name: str) -> None:
    tenant = "".join(chr(0x4E00 + number) for number in range(LONGEST_NAME // 3))
    refs = [Ref(Kind.SCHEDULE, name, tenant), Ref(Kind.FLAG, name)]

    made = await _written(engine, *map(_put, refs))

    assert (await engine.get_records(refs)).records == tuple(made)
    assert await _names(engine, RecordFilter(kind=Kind.SCHEDULE)) == [(name, tenant)]
    await _written(engine, *(Delete(ref=ref) for ref in refs))
    assert (await engine.get_records(refs)).records == (None, None)


@pytest.mark.parametrize("body", [b"\xff", b"\xed\xa0\x80", b'{"a":"\0"}'])
async def test_a_body_that_is_no_text_is_refused(engine: Engine, body: bytes) -> None:
    with pytest.raises(ConfigError):
        await _written(engine, _put(body=body))

    assert await _read(engine, _WEBHOOK) is None


async def test_no_changes_and_no_audit_record_are_nothing(engine: Engine) -> None:
    answer = await engine.write_records([], audit=None)

    assert (answer.conflict, answer.records) == (None, [])
