"""The audit log: entries in a chain of hashes, and how to tell that it is whole.

Every entry's hash covers the entry and the hash before it. So whoever changes, removes, inserts
or moves an entry has to write all that come later anew, and then they end in another head than
the one that somebody noted.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from longshore.core import event
from longshore.core.audit_record import AuditRecord
from longshore.core.event import EXPENDABLE, EventBatch
from longshore.errors import ConfigError

__all__ = [
    "GENESIS",
    "PRUNE",
    "Chained",
    "Entry",
    "Fault",
    "Kind",
    "Mark",
    "Pending",
    "Standing",
    "Verifier",
    "append",
    "check_range",
    "cut",
    "of_batches",
    "of_records",
    "read_mark",
]

PRUNE = "audit.prune"
"""What the log says of itself when its old end was cut off."""
_DAY_US = 86_400_000_000

_pack = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode
_MARK = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


class Kind(StrEnum):
    """What an entry tells of."""

    ACTION = "action"
    """Somebody ordered something."""
    TRANSITIONS = "transitions"
    """What one transaction did to jobs."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One row of the log."""

    number: int
    """From 1, without a gap."""
    at: int
    """When it happened. Entries stand in the order in which they were chained."""
    kind: Kind
    tenant: str
    actor: str
    action: str
    subject: str
    body: bytes
    """What else there is to say: JSON of an action, packed groups of transitions."""
    hash: bytes = b""


class Mark(msgspec.Struct, frozen=True):
    """How far a log goes, and the hash that stands for all of it up to there."""

    number: int
    hash: bytes

    @property
    def text(self) -> str:
        """For people to note down: `57:` and 64 hexadecimal digits."""
        return f"{self.number}:{self.hash.hex()}"


GENESIS = Mark(0, bytes(32))
"""Where a log begins."""


class Standing(msgspec.Struct, frozen=True):
    """Where a log begins and ends."""

    anchor: Mark = GENESIS
    """The last entry that retention cut off."""
    head: Mark = GENESIS


def check_range(after: int | None, before: int | None, kind: Kind | None) -> None:
    """Return if entries can be read so, else a ConfigError."""
    if (after is None) is (before is None):
        raise ConfigError("say after or before which number")
    if after is not None and kind is not None:
        raise ConfigError("entries of one kind are read backwards")


class Chained(msgspec.Struct, frozen=True):
    """What came into the log."""

    entries: int
    position: int
    """Of the last batch of the outbox that is in it."""
    is_more: bool
    """There may be more to chain."""


class Pending(msgspec.Struct, frozen=True):
    """An audit record that is not chained yet."""

    number: int
    at: int
    record: AuditRecord


def read_mark(text: str) -> Mark:
    """The mark that this is the text of, or ConfigError."""
    found = _MARK.fullmatch(text.strip().lower())
    if found is None:
        raise ConfigError("a head is a number, a colon and 64 hexadecimal digits")
    return Mark(int(found[1]), bytes.fromhex(found[2]))


def of_records(found: Iterable[Pending]) -> list[Entry]:
    """The entries of what people ordered, not in the chain yet."""
    return [
        Entry(
            0,
            one.at,
            Kind.ACTION,
            one.record.tenant,
            one.record.actor,
            one.record.action,
            one.record.subject,
            one.record.facts.encode(),
        )
        for one in found
    ]


def of_batches(batches: Iterable[EventBatch]) -> list[Entry]:
    """The entries of what happened to jobs. Progress is no transition."""
    found: list[Entry] = []
    for batch in batches:
        groups = [group for group in batch.groups if group.name not in EXPENDABLE]
        if groups:
            body = event.encode(groups)
            where = ("", "", Kind.TRANSITIONS.value, str(batch.position))
            found.append(Entry(0, batch.at, Kind.TRANSITIONS, *where, body))
    return found


def append(head: Mark, entries: Sequence[Entry]) -> list[Entry]:
    """The entries as they follow the head, with their numbers and hashes."""
    chained: list[Entry] = []
    for entry in entries:
        numbered = replace(entry, number=head.number + 1)
        whole = replace(numbered, hash=_digest(head.hash, numbered))
        chained.append(whole)
        head = Mark(whole.number, whole.hash)
    return chained


def cut(anchor: Mark, *, at: int, before: int, actor: str) -> Entry:
    """The entry that records a pruning of the log: who cut off what, up to which time.

    A log without its old end and without this entry is forged.
    """
    facts = _Cut(anchor.number, anchor.hash.hex(), before)
    return Entry(0, at, Kind.ACTION, "", actor, PRUNE, str(anchor.number), _json(facts))


class Fault(msgspec.Struct, frozen=True):
    """Where a log is not what it was."""

    number: int
    """The first entry that is wrong, or missing."""
    words: str


class Verifier:
    """Reads a log from its old end to its head, and says where it is wrong."""

    def __init__(
        self, standing: Standing, known: Iterable[Mark] = (), *, keep: int | None = None
    ) -> None:
        """`known` are heads that somebody noted earlier: the log has to go through them.

        `keep` is how long entries are kept, in microseconds: a log whose beginning was cut
        off sooner has lost entries that should still be there.
        """
        self._standing = standing
        self._keep = keep
        self._known: dict[int, set[bytes]] = {}
        for mark in known:
            self._known.setdefault(mark.number, set()).add(mark.hash)
        self._last = standing.anchor
        self._cut: Entry | None = None
        self.count = 0

    @property
    def not_compared(self) -> list[Mark]:
        """Noted heads that are older than the log's beginning: nothing is left to compare."""
        begin = self._standing.anchor.number
        return [
            Mark(number, one)
            for number, hashes in sorted(self._known.items())
            for one in sorted(hashes)
            if 0 < number < begin
        ]

    @property
    def last(self) -> Mark:
        """The last entry that was found good."""
        return self._last

    def read(self, entries: Iterable[Entry]) -> Fault | None:
        """Look at the next entries; what is wrong with the first that is."""
        for entry in entries:
            fault = self._fault(entry)
            if fault is not None:
                return fault
            if entry.action == PRUNE and entry.kind is Kind.ACTION:
                self._cut = entry
            self._last = Mark(entry.number, entry.hash)
            self.count += 1
        return None

    def end(self) -> Fault | None:
        """There are no more entries: what is wrong with where it begins and ends."""
        anchor, head = self._standing.anchor, self._standing.head
        if self._last.number < head.number:
            after = self._last.number + 1
            return Fault(after, f"entries {after} to {head.number} are missing at the end")
        if self._last != head:
            return Fault(head.number, "the log's own head is another one")
        if anchor != GENESIS and (fault := self._fault_of_cut(anchor)):
            return fault
        for number, known in sorted(self._known.items()):
            if number > head.number:
                return Fault(head.number + 1, f"the log once went on to entry {number}")
            if number == anchor.number and known != {anchor.hash}:
                return Fault(number, "the log before its beginning was another one")
            if number == 0 and known != {GENESIS.hash}:
                return Fault(0, "no log begins with this head")
        return None

    def _fault_of_cut(self, anchor: Mark) -> Fault | None:
        made = None if self._cut is None else _read_cut(self._cut)
        if self._cut is None or made is None or made.anchor != anchor:
            return Fault(anchor.number, "nothing tells of the cut that the log begins with")
        if self._keep is None or made.before is None:
            return None
        kept = self._cut.at - made.before
        if kept >= self._keep:
            return None
        words = (
            f"entries up to this one should still be there: {self._cut.actor} cut them off"
            f" after {kept / _DAY_US:g} days, and {self._keep / _DAY_US:g} are kept"
        )
        return Fault(anchor.number, words)

    def _fault(self, entry: Entry) -> Fault | None:
        expected = self._last.number + 1
        if entry.number != expected:
            gap = expected if entry.number == expected + 1 else f"{expected} and more"
            what = f"entry {gap} is missing" if entry.number > expected else "it comes twice"
            return Fault(min(expected, entry.number), what)
        if entry.hash != _digest(self._last.hash, entry):
            return Fault(entry.number, "it was changed, or does not follow the one before")
        if self._known.get(entry.number, {entry.hash}) != {entry.hash}:
            return Fault(entry.number, "the log was another one when this head was noted")
        return None


class _Cut(msgspec.Struct, frozen=True):
    through: int
    hash: str
    before: int | None = None
    """Everything up to this time was to be cut off."""

    @property
    def anchor(self) -> Mark:
        return Mark(self.through, bytes.fromhex(self.hash))


def _read_cut(entry: Entry) -> _Cut | None:
    try:
        made = msgspec.json.decode(entry.body, type=_Cut)
        bytes.fromhex(made.hash)
    except ValueError:
        return None
    return made


def _digest(previous: bytes, it: Entry) -> bytes:
    facts = (it.number, it.at, it.kind, it.tenant, it.actor, it.action, it.subject, it.body)
    return hashlib.sha256(previous + _pack(facts)).digest()
