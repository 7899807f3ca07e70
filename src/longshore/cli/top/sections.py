"""The tables of the overview: queues, workers, breakers and dead jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from longshore.cli import tables
from longshore.cli.top import words
from longshore.cli.top.facts import Facts
from longshore.cli.top.view import Target
from longshore.core.instant import micros
from longshore.core.limit_settings import Phase
from longshore.operations.breakers import BreakerView
from longshore.operations.job_documents import JobDocument
from longshore.operations.queues import QueueView
from longshore.operations.rates import Rates
from longshore.operations.workers import WorkerView

__all__ = ["Cell", "Column", "Row", "Section", "jobs", "overview"]

_TREND = 16
_STYLES = {Phase.OPEN: "bold red", Phase.HALF_OPEN: "yellow"}

Cell = str | tuple[str, str]
"""Text, or text and its style."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and the width of the screen from which on there is room for it."""

    title: str
    is_number: bool = False
    from_width: int = 0
    share: int = 0
    """Takes this part of what is left; 0: as wide as its cells."""


@dataclass(frozen=True, slots=True)
class Row:
    """Cells, and what is chosen with them."""

    cells: Sequence[Cell]
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A table with a title in its first column."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    empty: str = ""
    """What to say when there are no rows; nothing: the section is left out."""
    least: int = 1
    """Rows that are worth showing it for."""
    most: int | None = None
    """Rows that are enough where nobody can scroll; None: all."""


def overview(facts: Facts, rates: Rates) -> list[Section]:
    """All of them, the most needed first."""
    return [
        _queues(facts, rates),
        _workers(facts),
        _breakers(facts),
        _dead(facts),
    ]


def jobs(found: Sequence[JobDocument], now: datetime, title: str) -> Section:
    """The jobs of one queue."""
    table = tables.jobs(found, now)
    return Section(
        columns=(
            Column(title),
            Column("TYPE", share=1, from_width=60),
            Column("STATE"),
            Column("WHEN", from_width=72),
        ),
        rows=[
            Row((row[0], row[1], (row[3], _state_style(one)), row[4]), (None, one.id))
            for one, row in zip(found, table.rows, strict=True)
        ],
        empty="no jobs",
    )


def _queues(facts: Facts, rates: Rates) -> Section:
    return Section(
        columns=(
            Column(_counted("QUEUE", facts.queues), share=1),
            Column("READY", is_number=True),
            Column("RUNNING", is_number=True, from_width=32),
            Column("SCHED", is_number=True, from_width=64),
            Column("DEAD", is_number=True, from_width=40),
            Column("IN/S", is_number=True, from_width=56),
            Column("OUT/S", is_number=True, from_width=48),
            Column("OLDEST", is_number=True, from_width=60),
            Column("OUT/S, LATELY", from_width=100),
        ),
        rows=[_queue(one, facts, rates) for one in facts.queues],
        empty="there are no jobs yet, and no worker",
        least=3,
    )


def _queue(one: QueueView, facts: Facts, rates: Rates) -> Row:
    rate = rates.of(one.queue)
    return Row(
        (
            _name(one),
            words.count(one.ready),
            words.count(one.running),
            words.count(one.scheduled),
            (words.count(one.dead), "bold red" if one.dead else ""),
            words.rate(rate.submitted),
            words.rate(rate.ended),
            _age(one.oldest_ready_at, facts.now),
            (words.bars(rate.trend, _TREND), "cyan"),
        ),
        (one.queue, None),
    )


def _name(one: QueueView) -> Cell:
    if one.is_paused:
        return f"{one.queue} (paused)", "yellow"
    if one.paused_types:
        return f"{one.queue} (paused: {', '.join(one.paused_types)})", "yellow"
    if one.parked:
        return f"{one.queue} ({words.count(one.parked)} parked)"
    return one.queue


def _workers(facts: Facts) -> Section:
    return Section(
        columns=(
            Column(_workers_title(facts), share=2),
            Column("QUEUES", from_width=60, share=1),
            Column("TASKS", is_number=True, from_width=72),
            Column("HOLDS", is_number=True),
            Column("UP", is_number=True, from_width=50),
            Column("RENEWED", is_number=True, from_width=40),
        ),
        rows=[_worker(one, facts.now) for one in facts.workers or ()],
        empty="" if facts.workers is None else "no worker is connected",
    )


def _workers_title(facts: Facts) -> str:
    if facts.crashes is None or not facts.crashes.workers:
        return _counted("WORKER", facts.workers)
    crashed = words.count(facts.crashes.workers)
    return f"WORKERS {len(facts.workers or ())}, {crashed} CRASHED SO FAR"


def _worker(one: WorkerView, now: datetime) -> Row:
    is_late = now - one.renewed_at > (one.expires_at - one.renewed_at) / 2
    renewed = _age(one.renewed_at, now)
    return Row(
        (
            (f"{one.worker} (draining)", "yellow") if one.is_quiet else one.worker,
            ", ".join(one.queues),
            words.count(len(one.types)),
            words.count(one.holding),
            _age(one.opened_at, now),
            (renewed, "bold red") if is_late else renewed,
        )
    )


def _breakers(facts: Facts) -> Section:
    """Those that keep jobs back; the others are counted."""
    known = facts.breakers or ()
    tripped = [one for one in known if one.phase is not Phase.CLOSED]
    return Section(
        columns=(
            Column(_counted("BREAKER", known), share=1),
            Column("STATE"),
            Column("SINCE", is_number=True, from_width=40),
            Column("TRIED AGAIN", from_width=60),
        ),
        rows=[_breaker(one, facts.now) for one in tripped],
        empty="all closed" if known else "",
    )


def _breaker(one: BreakerView, now: datetime) -> Row:
    return Row(
        (
            one.type,
            (one.phase.value.replace("_", "-"), _STYLES.get(one.phase, "")),
            _age(one.since, now),
            tables.ago(one.until, now) if one.phase is Phase.OPEN else "-",
        )
    )


def _dead(facts: Facts) -> Section:
    total = sum(one.dead for one in facts.queues)
    return Section(
        columns=(
            Column(f"DEAD {words.count(total)}" if total else "DEAD", share=1),
            Column("QUEUE", from_width=72),
            Column("DIED", is_number=True),
            Column("WHY", from_width=48, share=2),
        ),
        rows=[
            Row(
                (
                    one.type,
                    one.queue,
                    _age(one.finished_at or facts.now, facts.now),
                    _why(one),
                ),
                (None, one.id),
            )
            for one in facts.dead
        ],
        most=10,
    )


def _why(one: JobDocument) -> str:
    if one.failure is not None:
        return f"{one.failure.kind}: {one.failure.message}"
    return one.reason or one.id


def _age(moment: datetime | None, now: datetime) -> str:
    return words.age(None if moment is None else micros(now) - micros(moment))


def _counted(title: str, them: Sequence[object] | None) -> str:
    return f"{title}S {len(them)}" if them else title


def _state_style(one: JobDocument) -> str:
    return {"dead": "bold red", "running": "green", "cancelled": "yellow"}.get(one.state, "")
