"""Decide what the settlements of a session change in the store, span by span.

A span whose last job has ended leaves the claims, and what succeeded in it becomes one row. Of
a span of which only some have ended, the journal tells, in one row per exchange for all of
them; after a while its finished part is moved out, so that the journal stays short.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from longshore.core import event
from longshore.core.event import Group, Name
from longshore.core.job import Settlement
from longshore.core.settle import heeding, outcome
from longshore.core.state import TERMINAL, State, Verb, after
from longshore.engine import Reference
from longshore.engines.postgres.holding import ENDED, STARTED, SUCCEEDED, Book, HeldSpan
from longshore.engines.postgres.spans import (
    ORDINAL_BITS,
    mask_bytes,
    mask_of,
    ordinal,
    stored_mask,
)

__all__ = ["Plan"]

_ORDINAL = (1 << ORDINAL_BITS) - 1
_LATE = 5.0
"""Seconds after which the finished part of a claimed span is moved out."""
_SWEPT = 4
"""Old spans that one exchange looks at."""
_MOST_DELAYS = 16
"""Different delays of one span's failures in one exchange."""
_DELAYED = {Verb.RETRY, Verb.SNOOZE}
_json = msgspec.json.Encoder()


class _Respan(msgspec.Struct, frozen=True, gc=False):
    """Where jobs go that will run again: those with the same answer share a span."""

    delay: int | None
    attempt: int
    failures: int
    crashes: int
    lapses: int


class Plan:
    """One call's changes: the arguments of `longshore.settle`, and what to remember after."""

    def __init__(self, book: Book, moment: float) -> None:
        self.stale: list[Reference] = []
        self.soft: list[int] = []
        """Settled claims that a request to cancel, not heard of yet, would settle otherwise."""
        self._book = book
        self._moment = moment
        self._popped: list[tuple[int, HeldSpan]] = []
        self._changes: list[tuple[int, int, bytes | None, int]] = []
        self._rows: list[tuple[object, ...]] = []
        self._counters: list[int] = []
        self._started: list[int] = []
        self._finished: list[int] = []
        self._journal: list[tuple[int, int, int, int | None, int | None]] = []
        self._mentions: set[HeldSpan] = set()
        self._results: list[tuple[int, bytes]] = []
        self._ready: list[dict[str, object]] = []
        self._scheduled: list[dict[str, object]] = []
        self._ended: list[dict[str, object]] = []
        self._attempts: list[dict[str, object]] = []
        self._groups: list[Group] = []
        self._ids: dict[tuple[Name, str, str, str], list[bytes]] = {}
        self._begun: dict[int, HeldSpan] = {}
        self._left: list[tuple[HeldSpan, list[Settlement]]] = []
        self._trimmed: list[HeldSpan] = []
        self._partly: list[tuple[HeldSpan, list[Settlement]]] = []
        self._forget = list(book.forgettable)
        self._heard: list[int] = []

    def start(self, started: Sequence[Reference]) -> None:
        """Record starts that are news."""
        held = self._book.held
        for handle, delivery in started:
            span = held.get(handle)
            if span is None or span.delivery != delivery or handle in self._begun:
                continue
            place = handle & _ORDINAL
            if place not in span.begun:
                self._begun[handle] = span
                self._event(Name.STARTED, span, span.id(place))

    def settle(self, settlements: Iterable[Settlement]) -> None:
        """End claims. What is not held is stale."""
        held, ending = self._book.held, {}
        pop, popped = held.pop, self._popped
        for one in settlements:
            handle = one.handle
            span = pop(handle, None)
            if span is None or span.delivery != one.delivery:
                if span is not None:
                    held[handle] = span
                self.stale.append((handle, one.delivery))
                continue
            popped.append((handle, span))
            found = ending.get(span)
            if found is None:
                found = ending[span] = []
            found.append(one)
        for span, found in ending.items():
            self._end(span, found)

    def finish(self) -> None:
        """Tell the journal, and bring old spans up to date."""
        for handle, span in self._begun.items():
            if handle in self._book.held:
                self._journal.append((handle, span.delivery, STARTED, None, None))
                self._mentions.add(span)
        touched = {span for span, _ in (*self._left, *self._partly)}
        for span in islice(self._book.spans.values(), _SWEPT):
            is_late = span.has_ended and self._moment - span.since > _LATE
            if is_late and span not in touched:
                self._trim(span, [])

    def _end(self, span: HeldSpan, found: list[Settlement]) -> None:
        plain = [one for one in found if _is_plain(one)]
        others = [one for one in found if not _is_plain(one)] if len(plain) < len(found) else []
        for one in others:
            self._end_otherwise(span, one)
        self._respan(span, others)
        if plain:
            self._tell(span, plain)
            self._results += [
                (one.handle, one.result) for one in plain if one.result is not None
            ]
        if len(found) == span.out:
            self._left.append((span, found))
            self._changes.append((span.number, span.part, None, 0))
            self._succeed(span, plain)
        elif self._moment - span.since > _LATE:
            self._trim(span, found)
        else:
            self._partly.append((span, found))
            self._mentions.add(span)
            self._journal += [
                (one.handle, one.delivery, SUCCEEDED, one.started_at, one.finished_at)
                if _is_plain(one)
                else (one.handle, one.delivery, ENDED, None, None)
                for one in found
            ]

    def _trim(self, span: HeldSpan, found: list[Settlement]) -> None:
        """Move out what has ended; what is still out keeps its recorded start."""
        base = span.segment << ORDINAL_BITS
        held = self._book.held
        out = [place for place in span.members() if held.get(base + place) is span]
        self._partly.append((span, found))
        self._trimmed.append(span)
        self._changes.append((span.number, span.part, mask_bytes(mask_of(out), span.hi), len(out)))
        self._succeed(span, [one for one in found if _is_plain(one)])
        begun = [(base + place, span.begun[place]) for place in out if place in span.begun]
        if begun:
            self._journal += [
                (handle, span.delivery, STARTED, at, None) for handle, at in begun
            ]
            self._mentions.add(span)

    def _succeed(self, span: HeldSpan, plain: list[Settlement]) -> None:
        """One row for all of the span that succeeded since its row was last written."""
        count = len(plain) + len(span.done)
        if not count:
            return
        begin = len(self._started)
        plain.sort(key=_by_handle)
        if not span.done:
            self._started += [one.started_at or 0 for one in plain]
            self._finished += [one.finished_at or 0 for one in plain]
        else:
            base = span.segment << ORDINAL_BITS
            times = dict(span.done)
            for one in plain:
                times[one.handle - base] = (one.started_at or 0, one.finished_at or 0)
            in_order = sorted(times)
            self._started += [times[place][0] for place in in_order]
            self._finished += [times[place][1] for place in in_order]
        if count == span.size:
            mask = span.stored_mask
        else:
            places = [ordinal(one.handle) for one in plain]
            mask = stored_mask(mask_of([*places, *span.done]), span.lo, span.hi)
        where = (span.segment, span.lo, span.hi, mask, span.run_at, span.delivery)
        self._rows.append((*where, begin, begin + count))
        self._counters += (span.attempt + 1, span.failures, span.crashes, span.lapses)

    def _tell(self, span: HeldSpan, plain: list[Settlement]) -> None:
        if not span.begun and not self._begun:
            ids = span.joined_ids([one.handle & _ORDINAL for one in plain])
            self._event(Name.STARTED, span, ids)
            self._event(Name.SUCCEEDED, span, ids)
            return
        for one in plain:
            job_id = span.id(one.handle & _ORDINAL)
            if not self._is_begun(span, one.handle):
                self._event(Name.STARTED, span, job_id)
            self._event(Name.SUCCEEDED, span, job_id)

    def _event(self, name: Name, span: HeldSpan, ids: bytes) -> None:
        key = (name, span.queue, span.type, span.tenant)
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = []
        found.append(ids)

    def _is_begun(self, span: HeldSpan, handle: int) -> bool:
        return handle & _ORDINAL in span.begun or handle in self._begun

    def _heeded(self, one: Settlement) -> Settlement:
        reason = self._book.requests.get((one.handle, one.delivery))
        if reason is not None:
            return heeding(one, reason)
        if one.verb is Verb.CANCEL or after(State.RUNNING, one.verb) not in TERMINAL:
            self.soft.append(one.handle)
        return one

    def _end_otherwise(self, span: HeldSpan, settlement: Settlement) -> None:
        one = self._heeded(settlement)
        place = one.handle & _ORDINAL
        is_begun = self._is_begun(span, one.handle)
        started_at = one.started_at if one.started_at is not None else span.begun.get(place)
        facts: dict[str, object] = {
            "handle": one.handle,
            "delivery": one.delivery,
            "attempt": span.attempt + (is_begun or one.started_at is not None),
            "started_at": started_at,
            "began_now": started_at is None and is_begun,
            "finished_at": one.finished_at,
        }
        state = after(State.RUNNING, one.verb)
        if one.verb is not Verb.SUCCEED:
            self._attempts.append({**facts, "outcome": outcome(one), "failure": one.failure})
        elif one.result is not None:
            self._results.append((one.handle, one.result))
        if state in TERMINAL:
            counters = {
                "failures": span.failures + one.charge,
                "crashes": span.crashes + one.crash,
                "lapses": span.lapses + one.lapse,
            }
            why = {
                "state": state,
                "run_at": span.run_at,
                "reason": one.reason,
                "rank": span.rank,
            }
            self._ended.append({**facts, **counters, **why})
        details = [_details(one)] if one.verb is not Verb.SUCCEED else []
        self._groups += [
            Group(name, span.queue, span.type, span.tenant, span.id(place), details)
            for name in event.names(one, start_is_known=is_begun)
        ]

    def _respan(self, span: HeldSpan, others: list[Settlement]) -> None:
        """The spans of those that will run again."""
        groups: dict[_Respan, int] = {}
        for settlement in others:
            reason = self._book.requests.get((settlement.handle, settlement.delivery))
            one = heeding(settlement, reason) if reason is not None else settlement
            if after(State.RUNNING, one.verb) in TERMINAL:
                continue
            is_begun = self._is_begun(span, one.handle) or one.started_at is not None
            key = _Respan(
                one.delay if one.verb in _DELAYED else None,
                span.attempt + is_begun,
                span.failures + one.charge,
                span.crashes + one.crash,
                span.lapses + one.lapse,
            )
            groups[key] = groups.get(key, 0) | 1 << (one.handle & _ORDINAL)
        for key, mask in _few(groups).items():
            lo, hi = (mask & -mask).bit_length() - 1, mask.bit_length()
            stored = stored_mask(mask, lo, hi)
            row: dict[str, object] = {
                **msgspec.structs.asdict(key),
                "segment": span.segment,
                "lo": lo,
                "hi": hi,
                "size": mask.bit_count(),
                "weight": span.weight,
                "mask": stored.hex() if stored is not None else None,
                "queue": span.queue,
                "type": span.type,
                "rank": span.rank,
                "delivery": span.delivery,
                "run_at": span.run_at,
            }
            (self._ready if key.delay is None else self._scheduled).append(row)

    @property
    def is_empty(self) -> bool:
        """Whether the store has nothing to do but claim."""
        return not (self._changes or self._journal or self._attempts or self._forget)

    @property
    def is_durable(self) -> bool:
        """Whether it holds anything that must not be lost."""
        return bool(self._popped)

    def arguments(self) -> tuple[object, ...]:
        """The arguments of `longshore.settle` behind token, clock and worker."""
        entry = self._book.entry + 1 if self._journal else None
        rows = _turned(self._rows, 8)
        handles, results = _turned(self._results, 2)
        return (
            *_turned(self._changes, 4),
            *rows[:6],
            self._counters,
            *rows[6:],
            self._started,
            self._finished,
            entry,
            *_turned(self._journal, 5),
            self._forget,
            handles,
            results,
            self._rare(),
            self._body(),
        )

    def commit(self, now: int) -> None:
        """Remember that the store has it; `now` is when."""
        book = self._book
        if self._journal:
            book.entry += 1
            book.mentions[book.entry] = len(self._mentions)
            for span in self._mentions:
                span.entries.add(book.entry)
        forgotten = set(self._forget)
        book.forgettable = [one for one in book.forgettable if one not in forgotten]
        for handle, span in self._begun.items():
            span.begun.setdefault(handle & _ORDINAL, now)
        trimmed = set(self._trimmed)
        for span, found in self._partly:
            span.out -= len(found)
            if span in trimmed:
                self._brought_up(span)
                continue
            span.has_ended = True
            for one in found:
                if _is_plain(one):
                    times = (one.started_at or 0, one.finished_at or 0)
                    span.done[one.handle & _ORDINAL] = times
        for span, _ in self._left:
            span.out = 0
            del book.spans[span.number, span.part]
            self._unmention(span, keep=None)

    def undo(self) -> None:
        """Nothing happened: hold again what was to end."""
        self._book.held.update(self._popped)

    def _brought_up(self, span: HeldSpan) -> None:
        book = self._book
        base = span.segment << ORDINAL_BITS
        out = [place for place in span.members() if book.held.get(base + place) is span]
        span.stored_mask = mask_bytes(mask_of(out), span.hi)
        span.size = len(out)
        span.done.clear()
        span.has_ended = False
        span.since = self._moment
        self._unmention(span, keep=book.entry if span in self._mentions else None)
        book.spans[span.number, span.part] = book.spans.pop((span.number, span.part))

    def _unmention(self, span: HeldSpan, keep: int | None) -> None:
        book = self._book
        for entry in span.entries - {keep}:
            book.mentions[entry] -= 1
            if not book.mentions[entry]:
                del book.mentions[entry]
                book.forgettable.append(entry)
        span.entries &= {keep} if keep is not None else set()

    def _rare(self) -> str | None:
        gone = [ref for ref in self._book.requests if ref[0] not in self._book.held]
        if not (self._attempts or self._ended or gone):
            return None
        rare = {
            "ready": self._ready,
            "scheduled": self._scheduled,
            "finished": self._ended,
            "attempts": self._attempts,
            "heard": [handle for handle, _ in gone],
        }
        return _json.encode(rare).decode()

    def _body(self) -> bytes | None:
        plain = [Group(*key, b"".join(ids)) for key, ids in self._ids.items()]
        begun = [group for group in plain if group.name is Name.STARTED]
        others = [group for group in plain if group.name is not Name.STARTED]
        groups = [*begun, *others, *self._groups]
        return event.encode(groups) if groups else None


def _is_plain(one: Settlement) -> bool:
    return (
        one.verb is Verb.SUCCEED and one.started_at is not None and one.finished_at is not None
    )


def _by_handle(one: Settlement) -> int:
    return one.handle


def _few(groups: dict[_Respan, int]) -> dict[_Respan, int]:
    """The same with at most so many different delays; those that wait longer, a little longer."""
    if len(groups) <= _MOST_DELAYS:
        return groups
    fewer: dict[_Respan, int] = {}
    alike: dict[tuple[int, ...], list[tuple[_Respan, int]]] = {}
    for key, mask in groups.items():
        if key.delay is None:
            fewer[key] = mask
        else:
            counters = (key.attempt, key.failures, key.crashes, key.lapses)
            alike.setdefault(counters, []).append((key, mask))
    for found in alike.values():
        found.sort(key=lambda one: one[0].delay or 0)
        step = -(-len(found) // _MOST_DELAYS)
        for begin in range(0, len(found), step):
            together = found[begin : begin + step]
            mask = 0
            for _, part in together:
                mask |= part
            fewer[together[-1][0]] = mask
    return fewer


def _details(one: Settlement) -> dict[str, object]:
    facts: dict[str, object] = {"delivery": one.delivery}
    if one.failure is not None:
        facts["error"] = {"kind": one.failure.kind, "message": one.failure.message}
    if one.reason is not None:
        facts["reason"] = one.reason
    if one.verb in _DELAYED:
        facts["delay_us"] = one.delay
    return facts


def _turned(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    """Rows as columns."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
