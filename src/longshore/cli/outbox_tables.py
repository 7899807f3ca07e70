"""Consumers of the outbox as people see them."""

from collections.abc import Sequence
from datetime import datetime

from longshore.cli import tables
from longshore.cli.render import Table
from longshore.operations.outbox import ConsumerView, QuarantinedView

__all__ = ["quarantined_table", "table"]


def table(found: Sequence[ConsumerView], now: datetime) -> Table:
    """One consumer per line."""
    return Table(
        columns=("consumer", "position#", "behind#", "lag", "holder", "seen"),
        rows=[
            (
                one.name,
                str(one.position),
                str(one.behind),
                f"{one.lag_seconds:.1f} s",
                "gone" if one.gone_at is not None else one.holder or "nobody",
                tables.ago(one.seen_at, now),
            )
            for one in found
        ],
        empty="nobody reads events; `longshore relay` ships them",
    )


def quarantined_table(found: Sequence[QuarantinedView], now: datetime) -> Table:
    """One event that was set aside per line."""
    return Table(
        columns=("event", "consumer", "name", "job", "bytes#", "when", "why"),
        rows=[
            (
                one.event_id,
                one.consumer,
                str(one.name),
                one.job_id or "-",
                str(one.size_bytes),
                tables.ago(one.at, now),
                one.reason,
            )
            for one in found
        ],
        empty="every event was handed on",
    )
