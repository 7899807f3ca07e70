"""How much of the outbox is handed on at once, so that no batch is too large to be passed.

A consumer notes how far it has come batch by batch. So what it hands on again after a crash is
a portion, or, where a single batch is larger than that, the batch.
"""

from collections.abc import Sequence
from itertools import islice

import msgspec

from longshore.core.event import Event, EventBatch, expand

__all__ = ["Portion", "next_portion"]


class Portion(msgspec.Struct, frozen=True):
    """The next events of a consumer, and where it is once they are handed on."""

    events: list[Event]
    passed: int
    """So many batches are done with then."""
    into: int
    """So many events of the batch behind those were handed on."""


def next_portion(batches: Sequence[EventBatch], most: int, *, into: int = 0) -> Portion:
    """Up to `most` events of whole batches; of one that has more, a part, and nothing else.

    `into` tells how many of the first batch's events were handed on before.
    """
    first = batches[0]
    events = list(islice(expand(first, start=into), most))
    if into + len(events) < first.count:
        return Portion(events, 0, into + len(events))
    taken = 1
    # Behind the last part of a large batch nothing else goes along: a crash would hand on the
    # whole of that batch again, and more besides.
    while not into and taken < len(batches) and len(events) + batches[taken].count <= most:
        events += expand(batches[taken])
        taken += 1
    return Portion(events, taken, 0)
