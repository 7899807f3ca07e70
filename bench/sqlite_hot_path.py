"""What a job costs the SQLite engine: inside the write lock, and for reading what was claimed.

    python bench/sqlite_hot_path.py [--jobs 60000] [--batch 800] [--statements]
    python bench/sqlite_hot_path.py --binding

A producer's and a worker's connection take turns on one file, in one thread: nobody waits for
a lock, and no event loop runs beside it. Processor time is counted, not what others use of it
meanwhile. So the figures differ by a few hundredths from run to run on a quiet machine, where
those of `longshore bench` differ by half. With `--binding` it says what one parameter costs
instead, by its type.
"""

import argparse
import asyncio
import sqlite3
import sys
import tempfile
import time
import timeit
from collections import Counter
from pathlib import Path
from typing import Any

from longshore.contract import Reference
from longshore.core.job import Claim, NewJob, Settlement
from longshore.core.state import Verb
from longshore.engines.sqlite import settlement
from longshore.engines.sqlite.claims import claim, claimed
from longshore.engines.sqlite.connection import Store, Synchronous
from longshore.engines.sqlite.engine import SqliteEngine
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.submission import submit
from longshore.engines.sqlite.transaction import Transaction
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource

_CLOCK = SystemClock()
_IDS = IdSource()
_QUEUE, _TYPE, _TOKEN = "longshore-bench", "bench.noop", 1
_PAYLOAD = b'{"at":0,"pad":"' + b"x" * 70 + b'"}'
_WAITING = 5
"""Batches that wait before the first is claimed."""


class _Timed:
    """A connection that adds up the seconds of each statement, by its first line."""

    def __init__(self, db: sqlite3.Connection, spent: Counter[str]) -> None:
        self._db = db
        self._spent = spent

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        began = time.thread_time()
        cursor = self._db.execute(statement, *parameters)
        self._spent[statement.split("\n", 1)[0]] += time.thread_time() - began
        return cursor

    def close(self) -> None:
        self._db.close()


class _Turns:
    """The two sides of the file, and the seconds that each part of their turns took."""

    def __init__(self, store: Store, batch: int, *, times_statements: bool) -> None:
        self.spent: Counter[str] = Counter()
        self.by_statement: Counter[str] = Counter()
        self._batch = batch
        self._held: dict[Reference, Claim] = {}
        self._ended: list[Settlement] = []
        sides: list[Any] = [store.connect(), store.connect()]
        if times_statements:
            sides = [_Timed(db, self.by_statement) for db in sides]
        self._producer, self._worker = sides
        self._since = 0.0

    def open(self) -> None:
        lease = {"worker": "w", "queues": "[]", "types": "[]", "lease": 10**12, "owner": ""}
        self._worker.execute(SQL.session_open, {**lease, "now": _CLOCK.now()})
        for _ in range(_WAITING):
            self.produce()
        self.spent.clear()
        self.by_statement.clear()

    def produce(self) -> None:
        jobs = [
            NewJob(id=_IDS.make(), type=_TYPE, queue=_QUEUE, payload=_PAYLOAD)
            for _ in range(self._batch)
        ]
        transaction = self._begin(self._producer)
        submit(transaction, jobs)
        self._lap("store")
        self._commit(transaction, "commit of the producer")

    def work(self, number: int) -> None:
        exchange = (_TOKEN, number)
        transaction = self._begin(self._worker)
        settlement.apply(transaction, (_TOKEN, "w"), self._ended, self._held, ())
        self._lap("settle")
        taken, _, _ = claim(
            transaction, exchange, self._batch, queues=[_QUEUE], types=frozenset({_TYPE})
        )
        self._lap("claim")
        self._commit(transaction, "commit of the worker")
        claims = claimed(self._worker, taken)
        self._lap("read, outside the lock")
        self._held = {(one.handle, one.delivery): one for one in claims}
        now = _CLOCK.now()
        self._ended = [
            Settlement(
                handle=one.handle,
                delivery=one.delivery,
                verb=Verb.SUCCEED,
                started_at=now,
                finished_at=now,
            )
            for one in claims
        ]

    def close(self) -> None:
        self._producer.close()
        self._worker.close()

    def _begin(self, db: Any) -> Transaction:
        self._since = time.thread_time()
        db.execute("begin immediate")
        return Transaction(db, _CLOCK.now())

    def _commit(self, transaction: Transaction, name: str) -> None:
        transaction.finish()
        transaction.db.execute("commit")
        self._lap(name)

    def _lap(self, name: str) -> None:
        now = time.thread_time()
        self.spent[name] += now - self._since
        self._since = now


async def _migrate(store: Store) -> None:
    engine = SqliteEngine(store)
    await engine.migrate()
    await engine.close()


def _binding() -> list[str]:
    parameters = 1_900
    statement = f"select {', '.join('?' * parameters)}"
    db = sqlite3.connect(":memory:")
    values = {"int": 5, "text": "default", "bytearray": bytearray(16), "bytes": bytes(16)}
    lines: list[str] = []
    for name, value in {**values, "None": None}.items():
        row = [value] * parameters
        seconds = min(
            timeit.repeat(lambda row=row: db.execute(statement, row), number=1, repeat=50)
        )
        lines.append(f"{name:10} {seconds / parameters * 1e9:4.0f} ns\n")
    db.close()
    return lines


def main() -> None:
    """Take turns, and say what each part cost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=60_000)
    parser.add_argument("--batch", type=int, default=800)
    parser.add_argument("--statements", action="store_true", help="say what each one takes")
    parser.add_argument("--binding", action="store_true", help="say what a parameter costs")
    options = parser.parse_args()
    if options.binding:
        sys.stdout.writelines(_binding())
        return
    rounds = max(options.jobs // options.batch, 1)
    with tempfile.TemporaryDirectory(prefix="longshore-hot-path-") as folder:
        store = Store(
            path=str(Path(folder) / "jobs.db"), clock=_CLOCK, synchronous=Synchronous.NORMAL
        )
        asyncio.run(_migrate(store))
        turns = _Turns(store, options.batch, times_statements=options.statements)
        turns.open()
        for number in range(1, rounds + 1):
            turns.produce()
            turns.work(number)
        turns.close()
    each = 1e6 / (rounds * options.batch)
    lines = [
        f"{name:26} {seconds * each:6.2f} µs per job\n"
        for name, seconds in [*turns.spent.items(), ("together", turns.spent.total())]
    ]
    lines += [
        f"  {name[:60]:60} {seconds * each:6.2f}\n"
        for name, seconds in turns.by_statement.most_common(12)
    ]
    sys.stdout.writelines(lines)


if __name__ == "__main__":
    main()
