"""Consumers of the outbox, as people and programs see them."""

from collections.abc import Sequence

from longshore.cli import documents, tables
from longshore.cli.documents import Document
from longshore.cli.render import Table
from longshore.core import ids
from longshore.core.consumer import Consumer, Quarantined

__all__ = ["aside_document", "aside_table", "document", "table"]

_SECOND = 1_000_000


def table(found: Sequence[Consumer], now: int) -> Table:
    """One consumer per line."""
    return Table(
        columns=("consumer", "position#", "behind#", "lag", "holder", "seen"),
        rows=[
            (
                one.name,
                str(one.position),
                str(one.behind),
                f"{_lag(one, now):.1f} s",
                "gone" if one.gone_at is not None else one.holder or "nobody",
                tables.when(one.seen_at, now),
            )
            for one in found
        ],
        empty="nobody reads events; `longshore relay` ships them",
    )


def document(one: Consumer, now: int) -> Document:
    """The same for programs."""
    return {
        "name": one.name,
        "position": one.position,
        "behind": one.behind,
        "lag_seconds": _lag(one, now),
        "holder": one.holder,
        "seen_at": documents.instant(one.seen_at),
        "gone_at": documents.instant(one.gone_at),
    }


def aside_table(found: Sequence[Quarantined], now: int) -> Table:
    """One event per line."""
    return Table(
        columns=("event", "consumer", "name", "job", "bytes#", "when", "why"),
        rows=[
            (
                one.event_id,
                one.consumer,
                str(one.name),
                ids.text(one.job_id),
                str(len(one.body)),
                tables.when(one.at, now),
                one.reason,
            )
            for one in found
        ],
        empty="every event was handed on",
    )


def aside_document(one: Quarantined) -> Document:
    """The same for programs, with what was to be handed on."""
    return {
        "event_id": one.event_id,
        "consumer": one.consumer,
        "name": one.name,
        "job": ids.text(one.job_id),
        "reason": one.reason,
        "at": documents.instant(one.at),
        "body": one.body.decode(errors="replace"),
    }


def _lag(one: Consumer, now: int) -> float:
    return 0.0 if one.waits_since is None else max(now - one.waits_since, 0) / _SECOND
