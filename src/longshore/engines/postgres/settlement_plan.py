"""Decide what the settlements of a session change in the store, span by span.

A span whose last job has ended leaves the claims, and what succeeded in it becomes one row. Of
a span of which only some have ended, the journal tells, in one row per exchange for all of
them; after a while its finished part is moved out, so that the journal stays short.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from longshore.contract import Reference
from longshore.core import event
from longshore.core.event import Name
from longshore.core.job import Report, Settlement
from longshore.core.settle import heeding, outcome, yields
from longshore.core.state import TERMINAL, State, Verb, after
from longshore.engines.postgres.held_claims import ENDED, STARTED, SUCCEEDED, Book, HeldSpan
from longshore.engines.postgres.settlement_changes import Changes, Respan, few
from longshore.engines.postgres.span_masks import (
    ORDINAL_BITS,
    mask_bytes,
    mask_of,
)

__all__ = ["Plan"]

_ORDINAL = (1 << ORDINAL_BITS) - 1
_LATE = 5.0
"""Seconds after which the finished part of a claimed span is moved out."""
_SWEPT = 4
"""Old spans that one exchange looks at."""
_DELAYED = {Verb.RETRY, Verb.SNOOZE}
_APART_US = 250_000
"""How much longer a retry may wait for others to go with, where many are put off."""

_Ending = tuple[HeldSpan, list[Settlement]]


class Plan:
    """What one call changes in the store, and what the session's book keeps of it after."""

    def __init__(self, book: Book, moment: float) -> None:
        self.stale: list[Reference] = []
        self.soft: list[int] = []
        """Settled claims that a request to cancel, not heard of yet, would settle otherwise."""
        self._book = book
        self._moment = moment
        self._changes = Changes()
        self._popped: list[tuple[int, HeldSpan]] = []
        self._begun: dict[int, HeldSpan] = {}
        """Starts that are news, by handle."""
        self._mentioned: set[HeldSpan] = set()
        """The spans that the journal's new row tells of."""
        self._entry = 0
        """The number of that row."""
        self._accepted: list[Reference] = []
        """Settlements of jobs that were completed before."""
        self._over: list[HeldSpan] = []
        self._partly: list[tuple[HeldSpan, list[Settlement], int]] = []
        """Spans of which some jobs ended: those that plainly succeeded, and how many others."""
        self._trimmed: list[_Ending] = []

    def start(self, started: Sequence[Reference]) -> None:
        """Record starts that are news. One that is being completed is told of with its end."""
        held, under_way = self._book.held, self._book.completions.under_way
        for handle, delivery in started:
            span = held.get(handle)
            if span is None or span.delivery != delivery or handle in self._begun:
                continue
            place = handle & _ORDINAL
            if place not in span.begun and (handle, delivery) not in under_way:
                self._begun[handle] = span
                self._book.starting.add(handle)
                self._changes.tell(span, [place], Name.STARTED)

    def report(self, progress: Sequence[Report], *, tells: bool) -> None:
        """Keep how far held jobs say they are, and perhaps tell; who reports has started."""
        self.start([(one.handle, one.delivery) for one in progress])
        held, under_way = self._book.held, self._book.completions.under_way
        for one in progress:
            span = held.get(one.handle)
            is_held = span is not None and span.delivery == one.delivery
            if span is not None and is_held and (one.handle, one.delivery) not in under_way:
                self._changes.report(span, one, tells=tells)

    def settle(self, settlements: Iterable[Settlement]) -> None:
        """End claims. What is not held is stale."""
        held = self._book.held
        ending: dict[HeldSpan, list[Settlement]] = {}
        pop, popped = held.pop, self._popped
        for one in settlements:
            handle = one.handle
            span = pop(handle, None)
            if span is None or span.delivery != one.delivery:
                if span is not None:
                    held[handle] = span
                self._refuse((handle, one.delivery))
                continue
            popped.append((handle, span))
            found = ending.get(span)
            if found is None:
                found = ending[span] = []
            found.append(one)
        for span, found in ending.items():
            self._end(span, found)
        for span in self._book.emptied:
            self._let_go(span, [])

    def finish(self) -> None:
        """Tell the journal of starts, bring old spans up to date, and tidy up."""
        book, changes = self._book, self._changes
        for handle, span in self._begun.items():
            if handle in book.held:
                changes.journal.append((handle, span.delivery, STARTED, None, None))
                self._mentioned.add(span)
        touched = {one[0] for one in (*self._partly, *self._trimmed)}.union(self._over)
        for span in book.lagging:
            if span not in touched:
                touched.add(span)
                self._trim(span, [])
        for span in islice(book.spans.values(), _SWEPT):
            is_late = span.has_ended and self._moment - span.since > _LATE
            if is_late and span not in touched:
                self._trim(span, [])
        changes.forget = list(book.forgettable)
        changes.heard = [handle for handle, _ in book.requests if handle not in book.held]

    def holds(self) -> Counter[str]:
        """How many jobs of each queue are held once it is carried out."""
        found: Counter[str] = Counter()
        for span in self._book.spans.values():
            found[span.queue] += span.out
        for _, span in self._popped:
            found[span.queue] -= 1
        return found

    def settled(
        self, settlements: Iterable[Settlement]
    ) -> Iterator[tuple[str, str, Settlement]]:
        """Those of the settlements that it carries out, each with the job's type and tenant."""
        spans = dict(self._popped)
        for one in settlements:
            span = spans.get(one.handle)
            if span is not None and span.delivery == one.delivery:
                place = one.handle & _ORDINAL
                yield span.type_of(place), span.tenant_of(place), one

    @property
    def is_empty(self) -> bool:
        """Whether the store has nothing to do but claim."""
        return self._changes.is_empty

    def arguments(self) -> tuple[object, ...]:
        """The arguments of `longshore.settle` behind token, clock and worker."""
        if self._changes.journal:
            self._entry = self._book.reserve()
        return self._changes.arguments(self._entry)

    def undo(self) -> None:
        """Nothing happened: hold again what was to end."""
        self._book.held.update(self._popped)
        self._book.starting.difference_update(self._begun)

    def commit(self, now: int) -> None:
        """Remember that the store has it; `now` is when."""
        book = self._book
        if self._changes.journal:
            book.mention(self._entry, self._mentioned)
        if self._accepted:
            book.completions.ended.difference_update(self._accepted)
        forgotten = set(self._changes.forget)
        book.forgettable = [one for one in book.forgettable if one not in forgotten]
        for handle, span in self._begun.items():
            span.begun.setdefault(handle & _ORDINAL, now)
        book.starting.difference_update(self._begun)
        for span, plain, others in self._partly:
            span.out -= len(plain) + others
            span.has_ended = True
            span.done.update(map(_times, plain))
        for span, found in self._trimmed:
            span.out -= len(found)
            self._trimmed_is_stored(span)
        for span in self._over:
            span.out = 0
            del book.spans[span.number, span.part]
            book.unmention(span)
        book.lagging.clear()
        if book.emptied:
            book.emptied = [span for span in book.emptied if span not in self._over]

    def _trimmed_is_stored(self, span: HeldSpan) -> None:
        book = self._book
        out = book.still_out(span)
        span.stored_mask = mask_bytes(mask_of(out), span.hi)
        span.size = len(out)
        span.done.clear()
        span.purged.clear()
        span.has_ended = False
        span.since = self._moment
        book.unmention(span, keep=self._entry if span in self._mentioned else 0)
        book.spans[span.number, span.part] = book.spans.pop((span.number, span.part))

    def _end(self, span: HeldSpan, found: list[Settlement]) -> None:
        plain = [one for one in found if _is_plain(one)]
        others: list[Settlement] = []
        if len(plain) < len(found):
            others = [one for one in found if not _is_plain(one)]
            self._end_otherwise(span, others)
        if plain:
            self._tell(span, plain)
            self._changes.results += [
                (one.handle, one.result) for one in plain if one.result is not None
            ]
        if len(found) == span.out:
            self._let_go(span, plain)
        elif span.lines or self._moment - span.since > _LATE:
            # Whoever leaves a line is not told of by the journal: that would not say whether.
            self._trim(span, found)
        else:
            self._partly.append((span, plain, len(others)))
            self._mentioned.add(span)
            journal = self._changes.journal
            journal += [
                (one.handle, one.delivery, SUCCEEDED, one.started_at, one.finished_at)
                for one in plain
            ]
            journal += [(one.handle, one.delivery, ENDED, None, None) for one in others]

    def _let_go(self, span: HeldSpan, plain: list[Settlement]) -> None:
        self._over.append(span)
        self._changes.let_go(span)
        self._succeed(span, plain)

    def _refuse(self, reference: Reference) -> None:
        """It is not held: its claim is gone, or its handler's transaction has ended it."""
        if reference in self._book.completions.ended:
            self._accepted.append(reference)
        else:
            self.stale.append(reference)

    def _trim(self, span: HeldSpan, found: list[Settlement]) -> None:
        """Move out what has ended; what is still out keeps its recorded start."""
        out = self._book.still_out(span)
        self._trimmed.append((span, found))
        self._changes.shrink(span, mask_bytes(mask_of(out), span.hi), len(out))
        self._succeed(span, [one for one in found if _is_plain(one)])
        base = span.segment << ORDINAL_BITS
        begun = [
            (base + place, span.delivery, STARTED, span.begun[place], None)
            for place in out
            if place in span.begun
        ]
        if begun:
            self._changes.journal += begun
            self._mentioned.add(span)

    def _succeed(self, span: HeldSpan, plain: list[Settlement]) -> None:
        """One row for all of the span that succeeded since its row was last written."""
        if span.done:
            times = {**span.done, **dict(map(_times, plain))}
            places = sorted(times)
            started = [times[place][0] for place in places]
            finished = [times[place][1] for place in places]
        else:
            plain.sort(key=_by_handle)
            places = [one.handle & _ORDINAL for one in plain]
            started = [one.started_at or 0 for one in plain]
            finished = [one.finished_at or 0 for one in plain]
        if places:
            self._changes.succeed(span, places, (started, finished))
        if span.lines and (gone := {*places, *span.purged}):
            self._changes.leave(span, sorted(gone), State.SUCCEEDED)

    def _tell(self, span: HeldSpan, plain: list[Settlement]) -> None:
        tell = self._changes.tell
        places = [one.handle & _ORDINAL for one in plain]
        if not span.begun and not self._begun:
            tell(span, places, Name.STARTED, Name.SUCCEEDED)
            return
        news = [one.handle & _ORDINAL for one in plain if not self._is_begun(span, one.handle)]
        if news:
            tell(span, news, Name.STARTED)
        tell(span, places, Name.SUCCEEDED)

    def _is_begun(self, span: HeldSpan, handle: int) -> bool:
        return handle & _ORDINAL in span.begun or handle in self._begun

    def _end_otherwise(self, span: HeldSpan, found: list[Settlement]) -> None:
        again: dict[Respan, int] = {}
        for settlement in found:
            one = self._heeded(settlement)
            self._end_one(span, one)
            if after(State.RUNNING, one.verb) not in TERMINAL:
                is_begun = self._is_begun(span, one.handle) or one.started_at is not None
                key = Respan(
                    one.delay if one.verb in _DELAYED else None,
                    span.attempt + is_begun,
                    span.failures + one.charge,
                    span.crashes + one.crash,
                    span.lapses + one.lapse,
                )
                again[key] = again.get(key, 0) | 1 << (one.handle & _ORDINAL)
        # What the retry budget spread over seconds must not come back in fewer of them.
        most_apart = _APART_US if any(map(_is_put_off, found)) else None
        for key, mask in few(again, span.failures, most_apart=most_apart).items():
            self._changes.put_back(span, key, mask)

    def _heeded(self, one: Settlement) -> Settlement:
        reason = self._book.requests.get((one.handle, one.delivery))
        if reason is not None:
            return heeding(one, reason)
        if yields(one):
            self.soft.append(one.handle)
        return one

    def _end_one(self, span: HeldSpan, one: Settlement) -> None:
        changes, place = self._changes, one.handle & _ORDINAL
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
            changes.remember(facts, outcome(one), one)
        elif one.result is not None:
            changes.results.append((one.handle, one.result))
        if state in TERMINAL:
            changes.end(facts, span, one, state)
        names = event.names(one, start_is_known=is_begun)
        changes.tell_all(span, place, names, one)


def _is_plain(one: Settlement) -> bool:
    """The usual success: it needs no row of its own."""
    return (
        one.verb is Verb.SUCCEED and one.started_at is not None and one.finished_at is not None
    )


def _is_put_off(one: Settlement) -> bool:
    return one.failure is not None and one.failure.put_off is not msgspec.UNSET


def _times(one: Settlement) -> tuple[int, tuple[int, int]]:
    return one.handle & _ORDINAL, (one.started_at or 0, one.finished_at or 0)


def _by_handle(one: Settlement) -> int:
    return one.handle
