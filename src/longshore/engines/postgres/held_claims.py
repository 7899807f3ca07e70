"""What a session holds, span by span."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat
from typing import Any, Protocol

import msgspec

from longshore.contract import Reference
from longshore.core.job import Claim, Held, JobId
from longshore.engines.postgres.completion_records import Completions
from longshore.engines.postgres.span_masks import ORDINAL_BITS, ordinals, read_mask

__all__ = ["ENDED", "STARTED", "SUCCEEDED", "Book", "HeldSpan", "Row", "of_each"]

STARTED, SUCCEEDED, ENDED, PURGED = 0, 1, 2, 3
"""The kinds of a journal entry."""

_attributes = msgspec.json.Decoder(dict[int, dict[str, Any]])


class Row(Protocol):
    """A row of an answer; the names are its columns."""

    def __getitem__(self, name: str, /) -> Any:
        """One column."""
        ...


class HeldSpan(msgspec.Struct, eq=False):
    """A claimed span: what the store says of it, and what became of its jobs since."""

    number: int
    part: int
    segment: int
    lo: int
    hi: int
    size: int
    weight: int
    stored_mask: bytes | None
    rank: int
    run_at: int
    delivery: int
    attempt: int
    failures: int
    crashes: int
    lapses: int
    queue: str
    type: str
    tenant: str
    types: list[str] | None
    """One per ordinal from `lo` on, where they differ; the same with the tenants."""
    tenants: list[str] | None
    max_attempts: int
    ids: bytes
    since: float
    """When its row was last brought up to date."""
    out: int
    """How many have not ended."""
    has_ended: bool = False
    """Whether the journal knows of jobs that ended in any way."""
    done: dict[int, tuple[int, int]] = {}
    """Ordinals that succeeded and stand in the journal, with their times."""
    begun: dict[int, int] = {}
    """Ordinals whose start is on record, and when."""
    entries: set[int] = set()
    """The journal entries that tell of this span."""
    lines: dict[int, str] | None = None
    """The ordering keys of its jobs, if they have any."""
    purged: set[int] = set()
    """Ordinals that succeeded and were deleted, and have not left their lines."""
    traces: dict[int, str] | None = None
    """The trace contexts of its jobs, if they have any."""

    def id(self, place: int) -> JobId:
        """The id of one job."""
        begin = (place - self.lo) * 16
        return JobId(self.ids[begin : begin + 16])

    def type_of(self, place: int) -> str:
        """The type of one job."""
        return self.type if self.types is None else self.types[place - self.lo]

    def tenant_of(self, place: int) -> str:
        """The tenant of one job."""
        return self.tenant if self.tenants is None else self.tenants[place - self.lo]

    def trace_of(self, place: int) -> str | None:
        """The trace context of one job."""
        return None if self.traces is None else self.traces.get(place)

    def by_trace(self, places: Sequence[int]) -> dict[str | None, list[int]]:
        """The same jobs, by their trace contexts."""
        found: dict[str | None, list[int]] = {}
        for place in places:
            found.setdefault(self.trace_of(place), []).append(place)
        return found

    def joined_ids(self, places: Sequence[int]) -> bytes:
        """The ids of these jobs, one behind the other."""
        if len(places) == self.hi - self.lo:
            return self.ids
        return b"".join(map(self.id, places))

    def members(self) -> Iterator[int]:
        """The ordinals that the span's row holds."""
        if self.stored_mask is None:
            return iter(range(self.lo, self.hi))
        return ordinals(read_mask(self.stored_mask, self.lo, self.hi))


class Book:
    """Everything a session holds. Changes are planned first and made when they are durable."""

    def __init__(self) -> None:
        self.held: dict[int, HeldSpan] = {}
        """The span of every job that has not ended, by its handle."""
        self.spans: dict[tuple[int, int], HeldSpan] = {}
        """The spans that are not over, oldest first; one that was brought up to date is new."""
        self.requests: dict[Reference, str] = {}
        """Who is to be cancelled, as far as the session has heard, and why."""
        self.starting: set[int] = set()
        """Whose start is being told, by handle."""
        self.emptied: list[HeldSpan] = []
        """Spans whose last job ended in its handler's transaction: nobody let go of them."""
        self.lagging: list[HeldSpan] = []
        """Spans with ordering keys of which jobs ended so: they have not left their lines."""
        self.completions = Completions()
        self.entry = 0
        """The last number of the journal that was given to anyone."""
        self.mentions: dict[int, int] = {}
        """How many spans each journal entry tells of."""
        self.forgettable: list[int] = []
        """Journal entries that tell of no span any more."""
        self.gone: set[Reference] = set()
        """References of jobs that the store has lost: no other job may get one of them."""

    def add(self, number: int, rows: Sequence[Row], since: float) -> list[Claim]:
        """Take over what exchange `number` claimed: its claims, in order."""
        claims: list[Claim] = []
        for row in rows:
            span = self.spans.get((number, row["part"]))
            if span is None:
                span = self.enter(number, row, since)
            claims += _claims(span, row, self.held)
        return claims

    def enter(self, number: int, row: Row, since: float) -> HeldSpan:
        """Hold one more span."""
        span = _held_span(number, row, since)
        self.spans[number, span.part] = span
        base = span.segment << ORDINAL_BITS
        if span.stored_mask is None:
            names = range(base + span.lo, base + span.hi)
        else:
            names = [base + place for place in span.members()]
        self.held.update(zip(names, repeat(span)))
        return span

    def job_id(self, handle: int) -> JobId:
        """The id of a held job."""
        span = self.held[handle]
        return span.id(handle - (span.segment << ORDINAL_BITS))

    @property
    def is_mistaken(self) -> bool:
        """Whether a reference of a job that is gone names one that is held.

        Its worker may still run the former one, and would settle this one with its outcome.
        """
        return any(
            (span := self.held.get(handle)) is not None and span.delivery == delivery
            for handle, delivery in self.gone
        )

    def recall(self, journal: Sequence[Row]) -> None:
        """Bring in what the journal of a session tells, oldest entry first."""
        spans = {
            (span.segment << ORDINAL_BITS | place, span.delivery): span
            for span in self.spans.values()
            for place in span.members()
        }
        columns = ("handles", "deliveries", "kinds", "started", "finished")
        for row in journal:
            entry = row["entry"]
            self.entry = max(entry, 0)
            told_of: set[HeldSpan] = set()
            told = zip(*(row[name] for name in columns), strict=True)
            for handle, delivery, kind, started, finished in told:
                span = spans.get((handle, delivery))
                if span is not None:
                    told_of.add(span)
                    at = started if started is not None else row["at"]
                    self._recall(span, handle, kind, (at, finished))
                    if kind != STARTED:
                        del spans[handle, delivery]
            if told_of:
                self.mentions[entry] = len(told_of)
                for span in told_of:
                    span.entries.add(entry)
            else:
                self.forgettable.append(entry)
        self.emptied = [span for span in self.spans.values() if not span.out]
        lined = [span for span in self.spans.values() if span.lines]
        self.lagging = [span for span in lined if span.done or span.purged]

    def take_over(self, other: "Book") -> None:
        """Go on where a book ended that was not read back from the store."""
        self.completions = other.completions
        self.entry = max(self.entry, other.entry)
        self.gone |= other.gone

    def land(self) -> None:
        """Enter the jobs that were completed since, but for those that were read back."""
        for one in self.completions.landed:
            span = self.held.get(one.handle)
            if span is None or span.delivery != one.delivery:
                continue
            times = one.started_at, one.finished_at
            self._recall(span, one.handle, SUCCEEDED, times)
            self.mention(one.entry, {span})
            if not span.out:
                self.emptied.append(span)
            elif span.lines:
                self.lagging.append(span)
        self.completions.landed.clear()

    def _recall(self, span: HeldSpan, handle: int, kind: int, times: tuple[int, int]) -> None:
        place = handle - (span.segment << ORDINAL_BITS)
        if kind == STARTED:
            span.begun.setdefault(place, times[0])
            return
        if self.held.get(handle) is span:
            del self.held[handle]
        span.out -= 1
        span.has_ended = True
        if kind == SUCCEEDED:
            span.done[place] = times
        elif kind == PURGED and span.lines:
            span.purged.add(place)

    def still_out(self, span: HeldSpan) -> list[int]:
        """The ordinals of a span that have not ended."""
        base, held = span.segment << ORDINAL_BITS, self.held
        return [place for place in span.members() if held.get(base + place) is span]

    def reserve(self) -> int:
        """The number of a new entry of the journal."""
        self.entry += 1
        return self.entry

    def mention(self, entry: int, spans: AbstractSet[HeldSpan]) -> None:
        """The journal has one more entry, which tells of these spans."""
        self.mentions[entry] = len(spans)
        for span in spans:
            span.entries.add(entry)

    def unmention(self, span: HeldSpan, keep: int = 0) -> None:
        """The journal's entries, but this one, need not tell of the span any more."""
        for entry in span.entries - {keep}:
            self.mentions[entry] -= 1
            if not self.mentions[entry]:
                del self.mentions[entry]
                self.forgettable.append(entry)
        span.entries &= {keep}

    def lost(self, *, alone: bool) -> list[Held]:
        """What the session holds, for whoever buries it."""
        return [self._held(handle, span, alone=alone) for handle, span in self.held.items()]

    def _held(self, handle: int, span: HeldSpan, *, alone: bool) -> Held:
        place = handle - (span.segment << ORDINAL_BITS)
        started_at = span.begun.get(place)
        return Held(
            handle,
            span.delivery,
            span.id(place),
            span.type_of(place),
            span.queue,
            span.tenant_of(place),
            started_at,
            span.attempt + (started_at is not None),
            span.failures,
            span.crashes,
            span.lapses,
            span.max_attempts,
            (handle, span.delivery) in self.requests,
            alone,
            span.trace_of(place),
        )


def _held_span(number: int, row: Row, since: float) -> HeldSpan:
    return HeldSpan(
        number,
        row["part"],
        row["segment"],
        row["lo"],
        row["hi"],
        row["size"],
        row["weight"],
        row["mask"],
        row["rank"],
        row["run_at"],
        row["delivery"],
        row["attempt"],
        row["failures"],
        row["crashes"],
        row["lapses"],
        row["queue"],
        row["type"],
        row["tenant"],
        row["types"],
        row["tenants"],
        row["max_attempts"],
        row["ids"],
        since,
        row["size"],
        lines=of_each(row, "line"),
        traces=of_each(row, "trace"),
    )


def of_each(row: Row, name: str) -> dict[int, str] | None:
    """What single jobs of the segment have under this name, by ordinal."""
    text: str | None = row["attributes"]
    if text is None or f'"{name}"' not in text:
        return None
    own = _attributes.decode(text)
    return {place: facts[name] for place, facts in own.items() if name in facts} or None


def _claims(span: HeldSpan, row: Row, held: Mapping[int, HeldSpan]) -> Iterator[Claim]:
    delivery, ids, lo = span.delivery, span.ids, span.lo
    payloads, bounds = row["payloads"], row["bounds"]
    skipped = bounds[0]
    type_name, queue, tenant, priority = span.type, span.queue, span.tenant, row["priority"]
    attempt, failures, crashes, lapses = span.attempt, span.failures, span.crashes, span.lapses
    most, timeout, created_at = span.max_attempts, row["timeout"], row["created_at"]
    run_at, base = span.run_at, span.segment << ORDINAL_BITS
    own = _attributes.decode(row["attributes"]) if row["attributes"] else None
    types, tenants = span.types, span.tenants
    for place in span.members():
        if base + place not in held:
            continue
        has = own.get(place) if own is not None else None
        at = place - lo
        yield Claim(
            base + place,
            delivery,
            JobId(ids[at * 16 : at * 16 + 16]),
            type_name if types is None else types[at],
            queue,
            tenant if tenants is None else tenants[at],
            payloads[bounds[at] - skipped : bounds[at + 1] - skipped],
            priority,
            attempt,
            failures,
            crashes,
            lapses,
            most,
            timeout,
            created_at,
            run_at,
            has.get("trace") if has else None,
            tuple(has.get("tags", ())) if has else (),
        )
