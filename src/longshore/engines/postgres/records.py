"""The record store.

A write holds all rows that it is to change, in one order, before it decides anything: so two
writes never wait for each other, and what a write has read stays so until its commit. Only a
record that is not there cannot be held. Of several who make it the database lets one through;
the others begin their transaction again, and find it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import UNSET

from longshore.contract.records import (
    ANY,
    KINDS,
    AuditRecord,
    Delete,
    Found,
    Kind,
    OnTenantDelete,
    Order,
    Put,
    Record,
    RecordFilter,
    RecordPage,
    Ref,
    Written,
    before,
    cap_reached,
    check,
    check_names,
    conflict,
    end_of,
    sought,
    stands,
    turn,
)
from longshore.core.job import JobId
from longshore.core.limit_settings import QueueState
from longshore.engines.postgres.audit_records import record_order
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.held_claims import Row
from longshore.engines.postgres.record_hooks import HOOKS, Change, Effect
from longshore.engines.postgres.sql import SQL
from longshore.errors import EngineBusyError, TenantInUseError, TenantNotFoundError
from longshore.runtime.backpressure import Depths
from longshore.runtime.cursor import RecordPlace, read_record_cursor, write_record_cursor

__all__ = ["PostgresRecords", "record_of", "store"]

_encode = msgspec.json.Encoder().encode
_TRIES = 10
"""Of a write that meets others who make and delete the same records."""
_WITH_STATE = frozenset((Kind.QUEUE, Kind.BREAKER))
_REFUSING = [
    str(kind) for kind, one in KINDS.items() if one.on_tenant_delete is OnTenantDelete.REFUSE
]
_HOOK_ORDER = list(HOOKS)
_NEXT = "\x01"
_LATEST = 2**63 - 1
_NO_TENANTS: Mapping[str, Record] = {}
_NO_STATE = b"{}"

_Answer = tuple[Written, list[Effect]]


class PostgresRecords:
    """Stores records in one table, and what claims obey in those that claims read."""

    _depths: Depths

    @property
    def _open(self) -> Database: ...

    async def get_records(self, refs: Sequence[Ref], *, with_tenants: bool = False) -> Found:
        """The records that these name, in one statement."""
        for ref in refs:
            check_names(ref.name, ref.tenant)
        database = self._open
        if len(refs) == 1 and refs[0].tenant is None and refs[0].kind not in _WITH_STATE:
            where = refs[0].kind, refs[0].name
            rows = await database.fetch(SQL.record_with_tenant, database.now(), *where)
            found = tuple(None if row["kind"] is None else record_of(row) for row in rows)
        elif refs:
            rows = await _read(database, refs, database.now(), with_tenants=with_tenants)
            found = tuple(_stored(row) for row in rows)
        else:
            (row,) = await database.fetch(SQL.clock, database.now())
            return Found(row["clock"], ())
        return Found(rows[0]["now"], found, _tenants(rows) if with_tenants else _NO_TENANTS)

    async def list_records(
        self, which: RecordFilter, *, limit: int, cursor: str | None = None
    ) -> RecordPage:
        """Up to `limit` records, from an index in the order of the list."""
        check_names(which.prefix, which.tenant)
        place = None if cursor is None else read_record_cursor(cursor, which)
        asked = (which.kind, which.tenant, which.prefix, end_of(which.prefix), which.order)
        database = self._open
        rows = await database.fetch(
            SQL.records_list, database.now(), *asked, *_start(which, place), limit + 1
        )
        found = [record for row in rows if (record := _stored(row)) is not None]
        page, cursor = found[:limit], None
        if page and len(found) > limit:
            last = page[-1]
            at = RecordPlace(last.created_at, last.name, last.tenant)
            cursor = write_record_cursor(at, which)
        return RecordPage(rows[0]["now"], page, cursor)

    async def write_records(
        self, changes: Sequence[Put | Delete], *, audit: AuditRecord | None
    ) -> Written:
        """Apply all changes and store the audit record in one commit, or none of it."""
        database = self._open
        check(changes)
        body = partial(_write, database.now(), changes, audit)
        written, effects = await _until_decided(database, body)
        if written.conflict is None:
            kinds = {change.ref.kind for change in changes}
            if Kind.QUEUE in kinds:
                self._depths.forget()
            if Kind.FLAG in kinds:
                database.muting.forget()
            for effect in effects:
                await effect(database)
        return written


async def store(connection: Connection, now: int, put: Put) -> None:
    """Write the record, whatever is there, as the next version."""
    due = None if put.due is UNSET else put.due
    facts = (now, *put.ref, put.body.decode(), due)
    if await connection.fetchrow(SQL.record_set, *facts, put.due is UNSET) is None:
        await connection.fetchrow(SQL.record_add, *facts, KINDS[put.ref.kind].unique)


class _MadeMeanwhileError(Exception):
    """Another has made a record that was not there; nothing is written."""


class _Held:
    """The rows that are held, as they stand."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._exact = {(row["kind"], row["name"], row["tenant"]): row for row in rows}
        self._of_name = {(row["kind"], row["name"]): row for row in rows}
        tenant = Kind.TENANT.value
        self.tenants = {row["name"] for row in rows if row["kind"] == tenant}
        """Those that are there: no other transaction can delete them."""

    def find(self, ref: Ref) -> Record | None:
        """What decides whether the record may be written."""
        wanted = sought(ref)
        if wanted.tenant is None:
            row = self._of_name.get((wanted.kind.value, wanted.name))
        else:
            row = self._exact.get((wanted.kind.value, wanted.name, wanted.tenant))
        return None if row is None else record_of(row)


class _Write:
    """One transaction that applies changes."""

    def __init__(self, connection: Connection, now: int, tenants: set[str]) -> None:
        self._connection = connection
        self._now = now
        self._tenants = tenants
        self._emptied = set[str]()
        """Tenants that were deleted, and their records with them."""
        self._hooked = list[Change]()
        self.is_news = False

    async def apply(self, change: Put | Delete, found: Record | None) -> Record | None:
        """The record as it is once this is done."""
        standing = before(change, found)
        if standing is not None and standing.tenant in self._emptied:
            standing = None
        after = standing
        if not stands(change, standing):
            self.is_news = True
            if isinstance(change, Put):
                after = await self._put(change, standing)
            else:
                after = await self._delete(change)
        # A Delete of what is not there holds no row: another may make it before the hooks run,
        # and claims must not stop to obey that.
        is_void = isinstance(change, Delete) and standing is None
        if change.ref.kind in HOOKS and not is_void:
            self._hooked.append(Change(change, standing, self._now))
        return after

    async def run_hooks(self) -> list[Effect]:
        """Have claims obey what is stored now."""
        effects = list[Effect]()
        for it in sorted(self._hooked, key=_hook_turn):
            effect = await HOOKS[it.change.ref.kind].apply(self._connection, it)
            if effect is not None:
                effects.append(effect)
        return effects

    async def _put(self, put: Put, standing: Record | None) -> Record:
        ref, due = put.ref, None if put.due is UNSET else put.due
        facts = (self._now, *ref, put.body.decode(), due)
        if standing is None:
            await self._admit(put)
            is_unique = KINDS[ref.kind].unique
            row = await self._connection.fetchrow(SQL.record_add, *facts, is_unique)
        else:
            row = await self._connection.fetchrow(SQL.record_set, *facts, put.due is UNSET)
        if row is None:
            raise _MadeMeanwhileError
        if ref.kind is Kind.TENANT:
            self._tenants.add(ref.name)
        return record_of(row)

    async def _admit(self, put: Put) -> None:
        """Return if the record may be made: its tenant is there, and has not too many."""
        ref = put.ref
        if ref.tenant and KINDS[ref.kind].needs_tenant and ref.tenant not in self._tenants:
            raise TenantNotFoundError(ref.tenant)
        if put.most is not None:
            one = (ref.tenant, [ref.kind.value])
            if await self._connection.fetchval(SQL.records_count, *one) >= put.most:
                raise cap_reached(ref.kind, put.most)

    async def _delete(self, change: Delete) -> None:
        ref = change.ref
        if ref.kind is Kind.TENANT:
            await self._empty(ref.name)
        await self._connection.execute(SQL.record_delete, *ref)

    async def _empty(self, tenant: str) -> None:
        """Remove all that a tenant has, or TenantInUseError."""
        counts = await self._connection.fetch(SQL.counts_of_tenant, tenant)
        jobs = sum(row["jobs"] for row in counts)
        refusing = await self._connection.fetchval(SQL.records_count, tenant, _REFUSING)
        if jobs or refusing:
            raise TenantInUseError(tenant, jobs, refusing)
        for row in await self._connection.fetch(SQL.records_of_tenant_delete, tenant):
            if row["kind"] in HOOKS:
                ref = Ref(Kind(row["kind"]), row["name"], tenant)
                self._hooked.append(Change(Delete(ref=ref), None, self._now))
        self._tenants.discard(tenant)
        self._emptied.add(tenant)


async def _until_decided(
    database: Database, body: Callable[[Connection], Awaitable[_Answer]]
) -> _Answer:
    for _ in range(_TRIES):
        with suppress(_MadeMeanwhileError):
            return await database.transact(body)
    raise EngineBusyError("others make and delete the same records; try again")


async def _write(
    clock: int | None,
    changes: Sequence[Put | Delete],
    audit: AuditRecord | None,
    connection: Connection,
) -> _Answer:
    if changes and audit is None and not any(KINDS[one.ref.kind].durable for one in changes):
        await connection.execute(SQL.commit_unsynced)
    held = await _hold(connection, changes)
    now: int = await connection.fetchval(SQL.clock, clock)
    found = [held.find(one.ref) for one in changes]
    refused = conflict(changes, found)
    if refused is not None:
        return Written(now, [], refused), []
    write, written = _Write(connection, now, held.tenants), dict[Ref, Record]()
    for change, record in sorted(zip(changes, found, strict=True), key=_turn):
        after = await write.apply(change, record)
        if isinstance(change, Put) and after is not None:
            written[change.ref] = after
    effects = await write.run_hooks()
    stateful = [ref for ref in written if ref.kind in _WITH_STATE]
    if stateful:
        for ref, row in zip(stateful, await _read(connection, stateful, now), strict=True):
            written[ref] = _stored(row) or written[ref]
    if audit is not None and (write.is_news or not changes):
        await record_order(connection, now, audit)
    records = [written[one.ref] for one in changes if isinstance(one, Put)]
    return Written(now, records), effects


async def _hold(connection: Connection, changes: Sequence[Put | Delete]) -> _Held:
    if not changes:
        return _Held([])
    refs = [sought(one.ref) for one in changes]
    puts = [one for one in changes if isinstance(one, Put)]
    # Only these may make a record.
    makers = [one for one in puts if one.expected in (ANY, 0)]
    staying = {one.ref.tenant for one in makers if one.ref.tenant and _must_stay(one.ref.kind)}
    leaving = [
        one.ref.name
        for one in changes
        if isinstance(one, Delete) and one.ref.kind is Kind.TENANT
    ]
    caps = {(one.ref.kind, one.ref.tenant) for one in makers if one.most is not None}
    rows = await connection.fetch(
        SQL.records_hold,
        *_columns(refs, 3),
        list(staying),
        leaving,
        *_columns(caps, 2),
    )
    return _Held(rows)


def _must_stay(kind: Kind) -> bool:
    """Whether a tenant is not to be deleted while a record of the kind is made for it."""
    rules = KINDS[kind]
    return rules.needs_tenant or rules.on_tenant_delete is OnTenantDelete.REFUSE


async def _read(
    database: Database | Connection,
    refs: Sequence[Ref],
    clock: int | None,
    *,
    with_tenants: bool = False,
) -> list[Row]:
    """A row for each of the refs, in their order."""
    columns = _columns(refs, 3)
    rows = await database.fetch(SQL.records_get, clock, *columns, with_tenants)
    return sorted(rows, key=lambda row: row["place"])


def _columns(rows: Iterable[Sequence[object]], width: int) -> list[list[object]]:
    found: list[list[object]] = [[] for _ in range(width)]
    for row in rows:
        for column, value in zip(found, row, strict=True):
            column.append(value)
    return found


def _turn(one: tuple[Put | Delete, Record | None]) -> tuple[int, Ref]:
    return turn(one[0])


def _hook_turn(it: Change) -> tuple[int, str]:
    return _HOOK_ORDER.index(it.change.ref.kind), it.name


def _start(which: RecordFilter, place: RecordPlace | None) -> tuple[int, str, str]:
    """The place from which a page is read, that one included; backwards: excluded."""
    if which.order is Order.NEWEST:
        return place or (_LATEST, "", "")
    if place is None:
        return -_LATEST, which.prefix if which.order is Order.NAME else "", ""
    # The next of all places: no text is between one and the same with this behind it.
    if which.tenant:
        return place.created_at, place.name + _NEXT, ""
    return place.created_at, place.name, place.tenant + _NEXT


def _tenants(rows: Iterable[Row]) -> dict[str, Record]:
    return {
        row["tenant"]: Record(
            kind=Kind.TENANT,
            name=row["tenant"],
            version=row["tenant_version"],
            body=row["tenant_body"].encode(),
            created_at=row["tenant_created_at"],
            changed_at=row["tenant_changed_at"],
        )
        for row in rows
        if row["tenant_version"] is not None
    }


def _stored(row: Row) -> Record | None:
    """The record in a row that has what the engine knows of it, too, if there is one."""
    if row["kind"] is None:
        return None
    match row["kind"]:
        case Kind.QUEUE:
            return record_of(row, _encode(QueueState(row["empty_at"])))
        case Kind.BREAKER if row["standing"] is not None:
            return record_of(row, row["standing"].encode())
        case _:
            return record_of(row)


def record_of(row: Row, state: bytes = _NO_STATE) -> Record:
    """The record of a row with all columns of the table."""
    last_job: bytes | None = row["last_job"]
    return Record(
        kind=Kind(row["kind"]),
        name=row["name"],
        tenant=row["tenant"],
        version=row["version"],
        body=row["body"].encode(),
        created_at=row["created_at"],
        changed_at=row["changed_at"],
        due=row["due"],
        last_due=row["last_due"],
        last_job=None if last_job is None else JobId(last_job),
        state=state,
    )
