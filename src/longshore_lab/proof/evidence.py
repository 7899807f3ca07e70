"""The evidence of a proof as six small tables, and one query behind each count.

The tables are made from the ledgers and from what the queue shows in the end. Whoever doubts a
figure opens `evidence.db` with sqlite3 and counts again.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import msgspec

from longshore_lab.history import History
from longshore_lab.survey import Survey
from longshore_lab.verdict import Case

__all__ = ["QUESTIONS", "Question", "count", "write"]

_SCHEMA = """
create table accepted (job text primary key, seq integer, at_s real);
create table queue (
    job text primary key, seq integer, state text, reason text,
    attempt integer, failures integer, max_attempts integer, crashes integer, lapses integer
);
create table runs (
    job text, delivery integer, worker text, began_s real, ended_s real, outcome text
);
create table settled (
    job text, delivery integer, worker text, verb text, is_accepted integer, at_s real
);
create table effects (seq integer primary key, asked integer, applied integer);
create table faults (at_s real, target text, kind text);
create index runs_of on runs (job, delivery);
create index queue_of on queue (seq);
"""
_SECOND = 1_000_000


class Question(msgspec.Struct, frozen=True):
    """One figure: what it means, how it is counted, and whether it may be more than none."""

    name: str
    means: str
    sql: str
    is_forbidden: bool = False
    """More than none breaks a promise."""


QUESTIONS = (
    Question(
        "accepted",
        "jobs the queue said yes to",
        "select count(*) from accepted",
    ),
    Question(
        "succeeded",
        "the handler returned, the queue knows",
        "select count(*) from queue where state = 'succeeded'",
    ),
    Question(
        "dead",
        "poison: failed as often as allowed",
        "select count(*) from queue where state = 'dead'",
    ),
    Question(
        "lost",
        "accepted, and nowhere to be found",
        "select count(*) from accepted where job not in (select job from queue)",
        is_forbidden=True,
    ),
    Question(
        "unfinished",
        "neither succeeded nor dead in the end",
        "select count(*) from queue where state not in ('succeeded', 'dead', 'cancelled')",
        is_forbidden=True,
    ),
    Question(
        "double effects",
        "the outside world changed twice",
        "select count(*) from effects where applied > 1",
        is_forbidden=True,
    ),
    Question(
        "missing effects",
        "succeeded, and nothing changed",
        "select count(*) from queue left join effects using (seq)"
        " where state = 'succeeded' and coalesce(applied, 0) = 0",
        is_forbidden=True,
    ),
    Question(
        "wrongly dead",
        "dead too early or too late",
        "select count(*) from queue where state = 'dead' and failures <> max_attempts",
        is_forbidden=True,
    ),
    Question(
        "re-deliveries",
        "runs after one that was cut off",
        "select count(*) from (select lag(outcome, 1, 'first') over"
        " (partition by job order by delivery) as before from runs)"
        " where before not in ('first', 'raised')",
    ),
    Question(
        "retries",
        "runs after one that failed",
        "select count(*) from (select lag(outcome) over"
        " (partition by job order by delivery) as before from runs) where before = 'raised'",
    ),
    Question(
        "late results refused",
        "the worker had lost its lease",
        "select count(*) from settled where not is_accepted",
    ),
)
"""In the order in which they are told."""


def write(path: Path, case: Case) -> None:
    """Make the tables. The file must be new."""
    with closing(sqlite3.connect(path)) as store, store:
        store.executescript(_SCHEMA)
        for name, rows in _tables(case.history, case.survey).items():
            _fill(store, name, rows)


def count(path: Path) -> dict[str, int]:
    """What each question's query finds, by its name."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as store:
        return {one.name: store.execute(one.sql).fetchone()[0] for one in QUESTIONS}


def _fill(store: sqlite3.Connection, name: str, rows: Iterable[tuple[object, ...]]) -> None:
    found = list(rows)
    if found:
        places = ", ".join("?" * len(found[0]))
        store.executemany(f"insert into {name} values ({places})", found)


def _tables(history: History, survey: Survey) -> dict[str, Iterable[tuple[object, ...]]]:
    start = history.began_at

    def since(at: int | None) -> float | None:
        return None if at is None else round((at - start) / _SECOND, 6)

    accepted = {
        job: (job, sent.seq, since(sent.acknowledged_at))
        for sent in history.submissions.values()
        for job in sent.accepted_as
    }
    return {
        "accepted": accepted.values(),
        "queue": (
            (
                *(job, seen.seq, str(seen.state), seen.reason, seen.attempt, seen.failures),
                *(seen.max_attempts, seen.crashes, seen.lapses),
            )
            for job, seen in survey.jobs.items()
        ),
        "runs": (
            (
                *(job, run.delivery, run.actor, since(run.began), since(run.ended)),
                # Nobody wrote how it ended: its process was gone.
                str(run.outcome or "cut off"),
            )
            for job, runs in history.runs.items()
            for run in runs
        ),
        "settled": (
            (job, one.delivery, actor, one.verb, one.is_accepted, since(one.at))
            for job, settles in history.settles.items()
            for actor, one in settles
        ),
        "effects": (
            (seq, cell.asked, cell.applied) for seq, cell in survey.cells.items() if cell.asked
        ),
        "faults": (
            (since(one.at), one.target, str(one.kind))
            for faults in history.faults.values()
            for one in faults
        ),
    }
