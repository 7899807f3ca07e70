"""The model's record store, and what claims read of records."""

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter

import msgspec
from msgspec import UNSET

from longshore.contract import records
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
)
from longshore.core import limit_settings
from longshore.core.account import Tenant
from longshore.core.limit_settings import Order as QueueOrder
from longshore.core.limit_settings import QueueFlow, QueueState
from longshore.core.ordering_key import may_open
from longshore.core.view import Pause
from longshore.errors import TenantInUseError, TenantNotFoundError
from longshore.runtime.cursor import RecordPlace, read_record_cursor, write_record_cursor
from longshore.testing.model.store import Store

__all__ = ["ModelRecords"]

_encode = msgspec.json.Encoder().encode
_by_name = attrgetter("name", "tenant")
_by_age = attrgetter("created_at", "name", "tenant")


class ModelRecords:
    """See `longshore.contract.records.Records`."""

    _store: Store

    async def get_records(self, refs: Sequence[Ref], *, with_tenants: bool = False) -> Found:
        """See `longshore.contract.records.Records`."""
        for ref in refs:
            records.check_names(ref.name, ref.tenant)
        now = self._store.now()
        found = tuple(self._find(ref) for ref in refs)
        names = {one.tenant for one in found if one is not None and one.tenant}
        tenants = {name: self._find(Ref(Kind.TENANT, name)) for name in names}
        there = {name: one for name, one in tenants.items() if one is not None}
        return Found(now, found, there if with_tenants else {})

    async def list_records(
        self, which: RecordFilter, *, limit: int, cursor: str | None = None
    ) -> RecordPage:
        """See `longshore.contract.records.Records`."""
        records.check_names(which.prefix, which.tenant)
        now = self._store.now()
        is_newest = which.order is Order.NEWEST
        sort = _by_name if which.order is Order.NAME else _by_age
        found = sorted(
            (
                self._with_state(one)
                for one in self._store.records.values()
                if one.kind is which.kind
                and which.tenant in (None, one.tenant)
                and one.name.startswith(which.prefix)
            ),
            key=sort,
            reverse=is_newest,
        )
        if cursor is not None:
            place = sort(read_record_cursor(cursor, which))
            found = [
                one for one in found if (sort(one) < place if is_newest else sort(one) > place)
            ]
        if len(found) <= limit:
            return RecordPage(now, found, None)
        last = found[limit - 1]
        place = RecordPlace(last.created_at, last.name, last.tenant)
        return RecordPage(now, found[:limit], write_record_cursor(place, which))

    async def write_records(
        self, changes: Sequence[Put | Delete], *, audit: AuditRecord | None
    ) -> Written:
        """See `longshore.contract.records.Records`."""
        now = self._store.now()
        records.check(changes)
        found = [self._find(records.sought(change.ref)) for change in changes]
        if refused := records.conflict(changes, found):
            return Written(now, [], refused)
        met = sorted(zip(changes, found, strict=True), key=lambda one: records.turn(one[0]))
        undo = dict(self._store.records)
        try:
            is_news = [self._apply(change, records.before(change, one)) for change, one in met]
        except Exception:
            self._store.records.clear()
            self._store.records.update(undo)
            raise
        for ref in undo.keys() - self._store.records.keys():
            self._obey(Delete(ref=ref))
        for change, one in met:
            if not records.is_anothers(change, one):
                self._obey(change)
        if audit is not None and (any(is_news) or not changes):
            self._store.record(audit)
        self._store.commit()
        put = [self._find(one.ref) for one in changes if isinstance(one, Put)]
        return Written(now, [one for one in put if one is not None])

    def _find(self, ref: Ref) -> Record | None:
        found = [
            one
            for one in self._store.records.values()
            if (one.kind, one.name) == (ref.kind, ref.name) and ref.tenant in (None, one.tenant)
        ]
        return self._with_state(min(found, key=_by_name)) if found else None

    def _with_state(self, record: Record) -> Record:
        state: msgspec.Struct | None = None
        if record.kind is Kind.QUEUE:
            state = QueueState(self._store.queue_buckets.get(record.name))
        elif record.kind is Kind.BREAKER:
            state = self._store.standings.get(record.name)
        return (
            record if state is None else msgspec.structs.replace(record, state=_encode(state))
        )

    def _apply(self, change: Put | Delete, before: Record | None) -> bool:
        """Whether it is news."""
        if change.ref not in self._store.records:
            before = None  # it has gone with its tenant
        if records.stands(change, before):
            return False
        ref, now = change.ref, self._store.now()
        if isinstance(change, Delete):
            if ref.kind is Kind.TENANT:
                self._empty(ref.name)
            del self._store.records[ref]
            return True
        if before is None:
            self._admit(change)
            before = Record(
                kind=ref.kind,
                name=ref.name,
                tenant=ref.tenant or "",
                version=now - 1,
                body=b"",
                created_at=now,
                changed_at=now,
            )
        self._store.records[ref] = msgspec.structs.replace(
            before,
            version=before.version + 1,
            body=change.body,
            changed_at=now,
            due=before.due if change.due is UNSET else change.due,
            state=b"{}",
        )
        return True

    def _admit(self, change: Put) -> None:
        ref = change.ref
        owner = Ref(Kind.TENANT, ref.tenant or "")
        if ref.tenant and KINDS[ref.kind].needs_tenant and owner not in self._store.records:
            raise TenantNotFoundError(ref.tenant)
        count = sum(
            (one.kind, one.tenant) == (ref.kind, ref.tenant)
            for one in self._store.records.values()
        )
        if change.most is not None and count >= change.most:
            raise records.cap_reached(ref.kind, change.most)

    def _empty(self, tenant: str) -> None:
        """Remove a tenant's records, or TenantInUseError."""
        theirs = [one for one in self._store.records.values() if one.tenant == tenant]
        jobs = sum(row.job.tenant == tenant for row in self._store.rows.values())
        refusing = sum(
            KINDS[one.kind].on_tenant_delete is OnTenantDelete.REFUSE for one in theirs
        )
        if jobs or refusing:
            raise TenantInUseError(tenant, jobs, refusing)
        for one in theirs:
            del self._store.records[Ref(one.kind, one.name, one.tenant)]

    def _obey(self, change: Put | Delete) -> None:
        store, (kind, name, _) = self._store, change.ref
        body = change.body if isinstance(change, Put) else None
        if isinstance(change, Put) and change.resets:
            self._reset(kind, name)
        if kind is Kind.QUEUE:
            self._obey_queue(name, body)
        elif kind is Kind.BREAKER:
            if body is not None:
                store.breaker_flows[name] = limit_settings.read_breaker(name, body)
            else:
                store.breaker_flows.pop(name, None)
            if name not in store.breakers():
                store.standings.pop(name, None)
        elif kind is Kind.PAUSE:
            with suppress(ValueError):  # no pause can have a name that is deleted in vain
                pause = Pause.named(name)
                put = store.pauses.add if body is not None else store.pauses.discard
                put((pause.queue, pause.type))
        elif kind is Kind.TENANT:
            store.weights[name] = (
                1 if body is None else msgspec.json.decode(body, type=Tenant).weight
            )

    def _reset(self, kind: Kind, name: str) -> None:
        if kind is Kind.BREAKER:
            self._store.reset(name)
        elif kind is Kind.QUEUE:
            self._store.queue_buckets.pop(name, None)

    def _obey_queue(self, name: str, body: bytes | None) -> None:
        store = self._store
        before = store.effective(name)
        whole = QueueFlow(name) if body is None else limit_settings.read_queue(name, body)
        if whole == QueueFlow(name):
            store.flows.pop(name, None)
            store.queue_buckets.pop(name, None)
        else:
            store.flows[name] = whole
        now = store.effective(name)
        if may_open(before, now):
            store.lines.look_at(name)
        if now.order is not QueueOrder.FAIR:
            store.shares.forget(name)
