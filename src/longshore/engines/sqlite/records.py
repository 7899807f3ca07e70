"""Records on SQLite: one table and one writer, so compare-and-set is a read and a write."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from longshore.contract.records import (
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
    is_anothers,
    sought,
    stands,
    turn,
)
from longshore.core.job import JobId
from longshore.core.limit_settings import QueueState
from longshore.engines.sqlite.audit_records import record_order
from longshore.engines.sqlite.connection import Store
from longshore.engines.sqlite.record_hooks import HOOKS, Effect
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.writer import Writer
from longshore.errors import TenantInUseError, TenantNotFoundError
from longshore.runtime.backpressure import Depths
from longshore.runtime.cursor import RecordPlace, read_record_cursor, write_record_cursor

__all__ = ["SqliteRecords", "record_of", "store"]

T = TypeVar("T")

_json = msgspec.json.Encoder()
_Row = Sequence[Any]
_Scope = dict[str, object]
_BEHIND_ALL = b""
"""SQLite sorts what is no text behind all texts."""
_FARTHEST = 2**63 - 1
_REFUSING = [
    kind for kind, rules in KINDS.items() if rules.on_tenant_delete is OnTenantDelete.REFUSE
]
_PAGES = {
    Order.NAME: (SQL.records_by_name, SQL.tenant_records_by_name),
    Order.OLDEST: (SQL.records_oldest, SQL.tenant_records_oldest),
    Order.NEWEST: (SQL.records_newest, SQL.tenant_records_newest),
}
"""The statements for a page: of all tenants, and of one."""


class SqliteRecords:
    """Stores records."""

    _writer: Writer
    _store: Store
    _depths: Depths

    async def _read(self, body: Callable[[sqlite3.Connection], T]) -> T: ...

    async def get_records(self, refs: Sequence[Ref], *, with_tenants: bool = False) -> Found:
        """The records that these name, in one read."""
        for ref in refs:
            check_names(ref.name, ref.tenant)

        def read(db: sqlite3.Connection) -> Found:
            rows = _rows(db, refs, with_tenants=with_tenants)
            found = tuple(None if row is None else record_of(row) for row in rows)
            tenants = {
                row[2]: _tenant(row) for row in rows if row is not None and row[12] is not None
            }
            return Found(self._store.clock.now(), found, tenants)

        return await self._read(read)

    async def list_records(
        self, which: RecordFilter, *, limit: int, cursor: str | None = None
    ) -> RecordPage:
        """A page of the records of a kind."""
        check_names(which.prefix, which.tenant)
        of_all, of_one = _PAGES[which.order]
        statement = SQL.record_columns + (of_all if which.tenant is None else of_one)
        scope = {
            "kind": which.kind,
            "owner": which.tenant,
            "prefix": which.prefix,
            "end": end_of(which.prefix) or _BEHIND_ALL,
            "limit": limit + 1,
            **_start(which, cursor),
        }

        def read(db: sqlite3.Connection) -> RecordPage:
            found = [record_of(row) for row in db.execute(statement, scope)]
            page, more = found[:limit], None
            if len(found) > limit and page:
                last = page[-1]
                place = RecordPlace(last.created_at, last.name, last.tenant)
                more = write_record_cursor(place, which)
            return RecordPage(self._store.clock.now(), page, more)

        return await self._read(read)

    async def write_records(
        self, changes: Sequence[Put | Delete], *, audit: AuditRecord | None
    ) -> Written:
        """Apply all changes and store the audit record in one commit, or none of it."""
        check(changes)
        puts = [one for one in changes if isinstance(one, Put)]
        hooked = [(HOOKS[put.ref.kind], put) for put in puts if put.ref.kind in HOOKS]
        if not changes and audit is None:
            return Written(self._store.clock.now(), [])
        for hook, put in hooked:
            await hook.prepare(self._writer, put)
        durable = audit is not None or any(KINDS[one.ref.kind].durable for one in changes)
        body = partial(_write, changes, audit)
        written, effects = await self._writer.call(body, durable=durable)
        for effect in effects:
            await effect(self._writer, self._depths)
        return written


def _write(
    changes: Sequence[Put | Delete], audit: AuditRecord | None, transaction: Transaction
) -> tuple[Written, list[Effect]]:
    """What came of the changes, and what is to follow their commit."""
    db, now = transaction.db, transaction.now
    found = _records(db, [sought(one.ref) for one in changes])
    if refused := conflict(changes, found):
        return Written(now, [], refused), []
    effects: list[Effect] = []
    emptied: set[str] = set()
    is_news = not changes
    for change, standing in sorted(zip(changes, found, strict=True), key=_turn):
        mine = None if change.ref.tenant in emptied else before(change, standing)
        if not stands(change, mine):
            is_news = True
            _apply(transaction, change, mine)
            if isinstance(change, Delete) and change.ref.kind is Kind.TENANT:
                effects += _empty(transaction, change.ref.name)
                emptied.add(change.ref.name)
        if not is_anothers(change, standing):
            effects += _hook(transaction, change)
    if is_news and audit is not None:
        record_order(transaction, audit)
    puts = _records(db, [one.ref for one in changes if isinstance(one, Put)])
    return Written(now, [one for one in puts if one is not None]), effects


def _turn(one: tuple[Put | Delete, Record | None]) -> tuple[int, Ref]:
    return turn(one[0])


def _apply(transaction: Transaction, change: Put | Delete, standing: Record | None) -> None:
    db, ref = transaction.db, change.ref
    scope: _Scope = {"kind": ref.kind, "name": ref.name, "tenant": ref.tenant}
    if isinstance(change, Delete):
        db.execute(SQL.record_delete, scope)
        return
    if standing is None:
        _check_room(db, change)
    store(transaction, change)


def store(transaction: Transaction, put: Put) -> None:
    """Write the record, whatever is there, as the next version."""
    kind, name, tenant = put.ref
    keeps_due = put.due is UNSET
    scope: _Scope = {
        "kind": kind,
        "name": name,
        "tenant": tenant,
        "body": put.body.decode(),
        "now": transaction.now,
        "due": None if keeps_due else put.due,
        "keeps_due": keeps_due,
    }
    transaction.db.execute(SQL.record_put, scope)


def _check_room(db: sqlite3.Connection, put: Put) -> None:
    """Return if a new record may be made."""
    kind, _, tenant = put.ref
    if tenant and KINDS[kind].needs_tenant and _rows(db, [Ref(Kind.TENANT, tenant)]) == [None]:
        raise TenantNotFoundError(tenant)
    if put.most is not None and _count(db, kind, tenant) >= put.most:
        raise cap_reached(kind, put.most)


def _empty(transaction: Transaction, tenant: str) -> list[Effect]:
    """Remove all records of a tenant, or TenantInUseError; what is to follow the commit."""
    db = transaction.db
    jobs = sum(row[2] for row in db.execute(SQL.counts_of_tenant, {"tenant": tenant}))
    refusing = sum(_count(db, kind, tenant) for kind in _REFUSING)
    if jobs or refusing:
        raise TenantInUseError(tenant, jobs, refusing)
    gone = db.execute(SQL.records_delete, {"tenant": tenant}).fetchall()
    effects: list[Effect] = []
    for kind, name in gone:
        if kind in HOOKS:
            effects += _hook(transaction, Delete(ref=Ref(Kind(kind), name, tenant)))
    return effects


def _hook(transaction: Transaction, change: Put | Delete) -> list[Effect]:
    """Let claims obey the change; what is to follow the commit."""
    hook = HOOKS.get(change.ref.kind)
    effect = None if hook is None else hook.apply(transaction, change)
    return [] if effect is None else [effect]


def _count(db: sqlite3.Connection, kind: Kind, tenant: str | None) -> int:
    scope = {"kind": kind, "tenant": tenant}
    return db.execute(SQL.records_count, scope).fetchone()[0]


def _start(which: RecordFilter, cursor: str | None) -> _Scope:
    """Where a page begins."""
    place = None if cursor is None else read_record_cursor(cursor, which)
    if which.order is Order.NAME:
        if place is None:
            return {"name": which.prefix, "tenant": ""}
        # Behind a text, the next one is that with a null character: nothing is between them.
        if which.tenant is not None:
            return {"name": place.name + "\0"}
        return {"name": place.name, "tenant": place.tenant + "\0"}
    if place is not None:
        return place._asdict()
    edge = _FARTHEST if which.order is Order.NEWEST else -_FARTHEST
    return {"created_at": edge, "name": "", "tenant": ""}


def _records(db: sqlite3.Connection, refs: Sequence[Ref]) -> list[Record | None]:
    return [None if row is None else record_of(row) for row in _rows(db, refs)]


def _rows(
    db: sqlite3.Connection, refs: Sequence[Ref], *, with_tenants: bool = False
) -> list[_Row | None]:
    """The columns of each record, and those of its tenant's: all by one statement."""
    scope = {"refs": _json.encode(refs).decode(), "with_tenants": with_tenants}
    found = {row[0]: row[1:] for row in db.execute(SQL.record_get, scope)}
    return [found.get(place) for place in range(len(refs))]


def record_of(row: _Row) -> Record:
    """The record of a row with the columns that record_columns has."""
    kind, name, tenant, version, body, created_at, changed_at, due, last_due, job = row[:10]
    empty_at, standing = row[10:12]
    state = b"{}" if standing is None else standing.encode()
    if empty_at is not None:
        state = _json.encode(QueueState(empty_at))
    return Record(
        kind=Kind(kind),
        name=name,
        tenant=tenant,
        version=version,
        body=body.encode(),
        created_at=created_at,
        changed_at=changed_at,
        due=due,
        last_due=last_due,
        last_job=None if job is None else JobId(job),
        state=state,
    )


def _tenant(row: _Row) -> Record:
    """The tenant's record that was read with one of its records."""
    version, body, created_at, changed_at = row[12:]
    return Record(
        kind=Kind.TENANT,
        name=row[2],
        version=version,
        body=body.encode(),
        created_at=created_at,
        changed_at=changed_at,
    )
