"""The changes of one call, collected row by row and sent as columns."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from longshore.core import event
from longshore.core.event import Group, Name
from longshore.core.job import Report, Settlement
from longshore.core.state import State, Verb
from longshore.engines.postgres.array_literals import packed, packed_columns
from longshore.engines.postgres.held_claims import HeldSpan
from longshore.engines.postgres.span_masks import mask_of, ordinal, ordinals, stored_mask

__all__ = ["Changes", "Respan", "few"]

_MOST_DELAYS = 16
"""Different delays of one span's failures in one exchange."""
_json = msgspec.json.Encoder()


class Respan(msgspec.Struct, frozen=True, gc=False):
    """Where jobs go that will run again: those with the same answer share a span."""

    delay: int | None
    """None: they are ready at once."""
    attempt: int
    failures: int
    crashes: int
    lapses: int


class _Mixed(msgspec.Struct):
    """Jobs of several types or tenants to which the same happened."""

    ids: list[bytes]
    types: list[str]
    tenants: list[str]


class Changes:
    """The arguments of `longshore.settle`."""

    def __init__(self) -> None:
        self.journal: list[tuple[int, int, int, int | None, int | None]] = []
        """Handle, delivery, kind, started, finished."""
        self.results: list[tuple[int, bytes]] = []
        self.forget: list[int] = []
        self.heard: list[int] = []
        """Requests to cancel that concern nobody any more."""
        self._claims: list[tuple[int, int, bytes | None, int]] = []
        self._rows: list[tuple[int | bytes | None, ...]] = []
        self._started: list[int] = []
        self._finished: list[int] = []
        self._ready: list[dict[str, object]] = []
        self._scheduled: list[dict[str, object]] = []
        self._ended: list[dict[str, object]] = []
        self._attempts: list[dict[str, object]] = []
        self._reports: dict[int, Report] = {}
        """The last one of each job, by its handle."""
        self._told_reports: list[Group] = []
        self._groups: list[Group] = []
        self._ids: dict[tuple[Name, str, str, str, str | None], list[bytes]] = {}
        self._mixed: dict[tuple[Name, str, str | None], _Mixed] = {}
        self._lines: list[dict[str, object]] = []
        self._tally: Counter[tuple[str, str, str]] = Counter()
        """Jobs that finish, by queue, tenant and state."""

    @property
    def is_empty(self) -> bool:
        """Whether the store has nothing to do."""
        rows = self._claims or self.journal or self._attempts or self._reports
        return not (rows or self.forget or self.heard)

    def let_go(self, span: HeldSpan) -> None:
        """The last job of a claimed span has ended."""
        self._claims.append((span.number, span.part, None, 0))

    def shrink(self, span: HeldSpan, mask: bytes, size: int) -> None:
        """Only these jobs of a claimed span are left in it."""
        self._claims.append((span.number, span.part, mask, size))

    def succeed(
        self,
        span: HeldSpan,
        places: Sequence[int],
        times: tuple[list[int], list[int]],
    ) -> None:
        """These jobs of a span succeeded; their times stand in the order of ordinals."""
        started, finished = times
        mask = span.stored_mask
        if len(places) < span.size:
            mask = stored_mask(mask_of(places), span.lo, span.hi)
        if span.tenants is None:
            self._tally[span.queue, span.tenant, State.SUCCEEDED] += len(places)
        else:
            for place in places:
                self._tally[span.queue, span.tenant_of(place), State.SUCCEEDED] += 1
        begin = len(self._started)
        self._started += started
        self._finished += finished
        where = (span.segment, span.lo, span.hi, mask, span.run_at, span.delivery)
        counters = (span.attempt + 1, span.failures, span.crashes, span.lapses)
        self._rows.append((*where, *counters, begin, len(self._started)))

    def end(
        self, facts: dict[str, object], span: HeldSpan, one: Settlement, state: State
    ) -> None:
        """One job is finished in another way than most."""
        counters = {
            "failures": span.failures + one.charge,
            "crashes": span.crashes + one.crash,
            "lapses": span.lapses + one.lapse,
        }
        where = {"state": state, "run_at": span.run_at, "rank": span.rank}
        self._tally[span.queue, span.tenant_of(ordinal(one.handle)), state] += 1
        if span.lines:
            self.leave(span, [ordinal(one.handle)], state)
        self._ended.append({**facts, **counters, **where, "reason": one.reason})

    def leave(self, span: HeldSpan, places: Iterable[int], state: State) -> None:
        """These jobs of a span leave their lines."""
        keys = span.lines or {}
        found: list[dict[str, object]] = [
            {
                "queue": span.queue,
                "tenant": span.tenant_of(place),
                "key": keys[place],
                "id": span.id(place).hex(),
                "state": state,
            }
            for place in places
            if place in keys
        ]
        self._lines += found

    def remember(self, facts: dict[str, object], outcome: str, one: Settlement) -> None:
        """A delivery that did not succeed goes into the job's history."""
        self._attempts.append({**facts, "outcome": outcome, "failure": one.failure})

    def report(self, span: HeldSpan, one: Report, *, tells: bool) -> None:
        """A running job said how far it is."""
        place = ordinal(one.handle)
        where = (span.queue, span.type_of(place), span.tenant_of(place), span.id(place))
        self._reports[one.handle] = one
        if tells:
            said, trace = [event.progress(one)], span.trace_of(place)
            self._told_reports.append(Group(Name.PROGRESS, *where, said, trace=trace))

    def put_back(self, span: HeldSpan, key: Respan, mask: int) -> None:
        """These jobs of a span will run again."""
        lo, hi = (mask & -mask).bit_length() - 1, mask.bit_length()
        stored = stored_mask(mask, lo, hi)
        types = [span.type]
        if span.types is not None:
            types = sorted({span.type_of(place) for place in ordinals(mask)})
        row: dict[str, object] = {
            **msgspec.structs.asdict(key),
            "segment": span.segment,
            "lo": lo,
            "hi": hi,
            "size": mask.bit_count(),
            "weight": span.weight,
            "mask": stored.hex() if stored is not None else None,
            "queue": span.queue,
            "type": types[0] if len(types) == 1 else "",
            "types": types if len(types) > 1 else None,
            "rank": span.rank,
            "delivery": span.delivery,
            "run_at": span.run_at,
        }
        (self._ready if key.delay is None else self._scheduled).append(row)

    def tell(self, span: HeldSpan, places: Sequence[int], *names: Name) -> None:
        """Events without details, of one job or of many."""
        if span.traces is None:
            self._tell(span, places, names, None)
            return
        for trace, some in span.by_trace(places).items():
            self._tell(span, some, names, trace)

    def _tell(
        self, span: HeldSpan, places: Sequence[int], names: Sequence[Name], trace: str | None
    ) -> None:
        if len(places) == span.hi - span.lo:
            places = range(span.lo, span.hi)
        ids = span.joined_ids(places)
        if span.types is None and span.tenants is None:
            for name in names:
                key = (name, span.queue, span.type, span.tenant, trace)
                found = self._ids.get(key)
                if found is None:
                    found = self._ids[key] = []
                found.append(ids)
            return
        types = [span.type_of(place) for place in places]
        tenants = [span.tenant_of(place) for place in places]
        for name in names:
            mixed = self._mixed.get((name, span.queue, trace))
            if mixed is None:
                mixed = self._mixed[name, span.queue, trace] = _Mixed([], [], [])
            mixed.ids.append(ids)
            mixed.types += types
            mixed.tenants += tenants

    def tell_all(
        self, span: HeldSpan, place: int, names: Sequence[Name], one: Settlement
    ) -> None:
        """The events of one job's settlement."""
        details = [] if one.verb is Verb.SUCCEED else [event.details(one)]
        where = (span.queue, span.type_of(place), span.tenant_of(place), span.id(place))
        trace = span.trace_of(place)
        self._groups += [Group(name, *where, details, trace=trace) for name in names]

    def arguments(self, entry: int) -> tuple[object, ...]:
        """Everything behind token, clock and worker; the journal's row gets this number."""
        return (
            *packed_columns(self._claims, 4),
            *packed_columns(self._rows, 12),
            packed(self._started),
            packed(self._finished),
            entry if self.journal else None,
            *packed_columns(self.journal, 5),
            packed(self.forget),
            packed([handle for handle, _ in self.results]),
            [result for _, result in self.results],
            *self._counted(),
            self._rare(),
            self._body(),
        )

    def _counted(self) -> list[str]:
        columns = packed_columns(list(self._tally), 3)
        return [*columns, packed(list(self._tally.values()))]

    def _rare(self) -> str | None:
        found: dict[str, object] = {"lines": self._lines} if self._lines else {}
        if self._attempts or self._ended or self.heard or self._reports:
            found |= {
                "ready": self._ready,
                "scheduled": self._scheduled,
                "finished": self._ended,
                "attempts": self._attempts,
                "heard": self.heard,
                "progress": list(self._reports.values()),
            }
        return _json.encode(found).decode() if found else None

    def _body(self) -> bytes | None:
        groups = [
            Group(name, queue, type_name, tenant, b"".join(ids), trace=trace)
            for (name, queue, type_name, tenant, trace), ids in self._ids.items()
        ]
        groups += [
            Group(name, queue, "", "", b"".join(one.ids), [], one.types, one.tenants, trace)
            for (name, queue, trace), one in self._mixed.items()
        ]
        # A job's start stands before its end.
        groups.sort(key=lambda group: group.name is not Name.STARTED)
        if self._told_reports:
            starts = sum(group.name is Name.STARTED for group in groups)
            groups[starts:starts] = self._told_reports
        groups += self._groups
        return event.encode(groups) if groups else None


def few(
    groups: dict[Respan, int], failures: int, *, most_apart: int | None = None
) -> dict[Respan, int]:
    """The same with fewer delays: a retry waits up to a quarter longer, for others to go with.

    With a span for each, three rows would come and go for one attempt of one job. `failures`
    are those before: a job that has no more of them was snoozed, and waits as long as it said,
    unless there are too many. Decision 0052. With `most_apart` none waits so much longer.
    """
    fewer: dict[Respan, int] = {}
    alike: dict[tuple[int, ...], list[tuple[Respan, int]]] = {}
    for key, mask in groups.items():
        if key.delay is None:
            fewer[key] = mask
        else:
            counters = (key.failures, key.attempt, key.crashes, key.lapses)
            alike.setdefault(counters, []).append((key, mask))
    for (failed, *_), found in alike.items():
        found.sort(key=lambda one: -(one[0].delay or 0))
        fewest = -(-len(found) // _MOST_DELAYS)
        together, shortest, count = found[0][0], 0, 0
        for key, mask in found:
            delay = key.delay or 0
            is_far = most_apart is not None and (together.delay or 0) - delay >= most_apart
            if is_far or (count >= fewest and delay < shortest):
                together, count = key, 0
            if not count:
                shortest = delay * 4 // 5 if failed > failures else delay
            fewer[together] = fewer.get(together, 0) | mask
            count += 1
    return fewer
