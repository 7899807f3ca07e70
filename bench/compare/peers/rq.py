"""RQ on Valkey.

Settings: https://github.com/rq/rq/blob/master/docs/benchmark.md (SimpleWorker for jobs of
milliseconds: they run in the worker, and not in a process forked for each, which took 19 ms of
processor time per job), https://python-rq.org/docs/workers/ (a worker script of one's own, two
workers) and https://python-rq.org/docs/ (`enqueue_many`). `result_ttl` is the default: with 0,
the deletion of each job takes longer than all the rest.
"""

import logging
import sys
import time

from bench.compare.drive import TEXT, drive
from bench.compare.meter import Meter, url
from redis import Redis
from rq import Queue, SimpleWorker

meter = Meter()


def noop(text: str) -> None:
    """Do nothing."""
    meter.count()


def ping(text: str) -> None:
    """Say how long it took to begin."""
    meter.ping(text)


def hang(text: str) -> None:
    """Never return, the first time."""
    if meter.hangs():
        time.sleep(600)


def work() -> None:
    """One worker."""
    logging.getLogger("rq.worker").setLevel(logging.WARNING)
    connection = Redis.from_url(url())
    worker = SimpleWorker([Queue(connection=connection)], connection=connection)
    worker.work(logging_level="WARNING")


class Producer:
    """Submits on one connection."""

    bulk = 1_000

    async def open(self) -> None:
        """Connect."""
        self._connection = Redis.from_url(url())
        self._queue = Queue(connection=self._connection)

    async def setup(self) -> None:
        """Nothing to make."""

    async def one(self, task: str, text: str) -> None:
        """In the server's memory when it returns."""
        self._queue.enqueue(f"bench.compare.peers.rq.{task}", text)

    async def many(self, jobs: int) -> None:
        """One pipeline."""
        job = "bench.compare.peers.rq.noop"
        self._queue.enqueue_many([Queue.prepare_data(job, (TEXT,)) for _ in range(jobs)])

    async def close(self) -> None:
        """Disconnect."""
        self._connection.close()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        # The jobs name the functions of the imported module, which is not this one, `__main__`.
        from bench.compare.peers import rq

        rq.work()
    else:
        drive(Producer())
