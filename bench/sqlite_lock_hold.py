"""How long a thread holds SQLite's write lock while other threads hog the interpreter.

    python bench/sqlite_lock_hold.py [--threads 40] [--switch 0.001] [--seconds 4]

One thread writes transactions of fifteen statements, as an exchange does; the others spin. The
switch interval is set for the time of the lock.
"""

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

_STATEMENTS = 15
_USUAL = 0.001


def hold(db: sqlite3.Connection, switch: float) -> float:
    """Milliseconds from the lock to the end of the commit."""
    db.execute("begin immediate")
    began = time.monotonic()
    sys.setswitchinterval(switch)
    for n in range(_STATEMENTS):
        db.execute("insert into written values (?)", (n,)).fetchall()
    db.execute("commit")
    sys.setswitchinterval(_USUAL)
    return (time.monotonic() - began) * 1e3


def measure(path: Path, threads: int, switch: float, seconds: float) -> list[float]:
    """Every hold, while so many threads spin."""
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            pass

    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("create table written (n integer)")
    for _ in range(threads):
        threading.Thread(target=spin, daemon=True).start()
    until = time.monotonic() + seconds
    holds: list[float] = []
    while not holds or time.monotonic() < until:
        holds.append(hold(db, switch))
    over.set()
    db.close()
    return holds


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the figures as a JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=40)
    parser.add_argument("--switch", type=float, default=_USUAL, help="the interval, in seconds")
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args(arguments)
    sys.setswitchinterval(_USUAL)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lock.db"
        holds = measure(path, options.threads, options.switch, options.seconds)
    figures = {"threads": options.threads, "switch_s": options.switch, "holds": len(holds)}
    times = {"median_ms": statistics.median(holds), "max_ms": max(holds)}
    figures |= {name: round(value, 1) for name, value in times.items()}
    sys.stdout.write(f"{json.dumps(figures)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
