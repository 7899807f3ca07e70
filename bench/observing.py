"""What observing costs from submit to settled: metrics and logs on, against none, tracing off.

    python bench/observing.py [URL | --postgres] [--jobs 50000] [--pairs 7]

Pairs of processes by turns, each on a store of its own (with a URL, on that): no-op jobs are
submitted in batches and run until none is left. One of a pair is the product as it is, with a
line per success up to its limit, written to nowhere; the other counts and logs nothing, which
only this script can have. It prints the median of the ratios, of jobs/s and of CPU per job. At
least 95 % of the jobs/s are to be left.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from time import perf_counter, process_time
from typing import Any

from longshore import Longshore, open_engine
from longshore.runtime import logs
from longshore.worker.job_metrics import Meter
from longshore_lab.bounds import Bound, conclude
from longshore_lab.servers import PostgresServer

BATCH = 500


def main() -> None:
    """Run the pairs, or one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--postgres", action="store_true", help="start a server")
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", choices=["observed", "bare"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only:
        sys.stdout.write(json.dumps(_one(asked.url, asked.jobs, asked.only)))
        return
    with ExitStack() as stack:
        rates, costs = _pairs(asked, _stores(asked, stack))
    rate, cost = statistics.median(rates), statistics.median(costs)
    figures = {
        "engine": "postgres" if asked.postgres else asked.url or "sqlite",
        "jobs": asked.jobs,
        "rates": [round(one, 3) for one in rates],
        "rate": round(rate, 3),
        "cpu": round(cost, 3),
    }
    left = Bound("observed against bare", round(100 * rate, 1), 95, " % of the jobs/s", True)
    sys.exit(conclude(figures, left))


def _pairs(asked: Any, stores: Callable[[], str]) -> tuple[list[float], list[float]]:
    """The ratios of jobs/s and of CPU per job."""
    rates, costs = [], []
    for number in range(asked.pairs):
        order = ("observed", "bare") if number % 2 else ("bare", "observed")
        took = {kind: _apart(stores(), asked.jobs, kind) for kind in order}
        rates.append(took["observed"][0] / took["bare"][0])
        costs.append(took["observed"][1] / took["bare"][1])
        words = ", ".join(f"{kind} {took[kind][0]:,.0f} jobs/s" for kind in sorted(took))
        sys.stdout.write(f"{words}: {rates[-1]:.3f}, CPU {costs[-1]:.3f}\n")
        sys.stdout.flush()
    return rates, costs


def _stores(asked: Any, stack: ExitStack) -> Callable[[], str]:
    """A new store at every call, or the one that was named."""
    numbers = count(1)
    if asked.url:
        return lambda: asked.url
    if asked.postgres:
        server = stack.enter_context(PostgresServer(durable=True))
        return lambda: server.create(f"observing{next(numbers)}")
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return lambda: f"sqlite:///{folder}/jobs{next(numbers)}.db"


def _apart(url: str, jobs: int, kind: str) -> list[float]:
    words = [sys.executable, __file__, url, "--only", kind, "--jobs", str(jobs)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def _one(url: str, jobs: int, kind: str) -> tuple[float, float]:
    """Jobs per second, and µs of this process's CPU per job."""
    if kind == "bare":
        open_engine.observed = lambda engine, metrics: engine
        Meter._succeeded = _uncounted  # there is no such setting
    else:
        logs.configure("info", as_json=True)
    return asyncio.run(_run(url, jobs))


def _uncounted(self: Any, line: tuple[str, str], claims: list[Any], _: list[Any]) -> None:
    self._budgets.succeeded(line[0], len(claims))


async def _run(url: str, jobs: int) -> tuple[float, float]:
    app = Longshore(url)
    async with app:
        await app.engine.migrate()
        began, cpu = perf_counter(), process_time()
        for _ in range(0, jobs, BATCH):
            await app.submit_many(app.spec("noop") for _ in range(BATCH))
        await app.work(until_idle=True)
        return jobs / (perf_counter() - began), (process_time() - cpu) / jobs * 1e6


if __name__ == "__main__":
    main()
