"""What observing costs from submit to settled: metrics and logs on, against none, tracing off.

python bench/observing.py [URL] [--jobs 50000] [--pairs 7]

Pairs of processes by turns, each on a store of its own (with a URL, on that): no-op jobs are
submitted in batches and run until none is left. One of a pair is the product as it is, with a
line per success up to its limit, written to nowhere; the other counts and logs nothing, which
only this script can have. It prints the median of the ratios, of jobs/s and of CPU per job.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from time import perf_counter, process_time
from typing import Any

from longshore import Longshore, opening
from longshore.runtime import logs
from longshore.worker.meter import Meter

BATCH = 500


def main() -> None:
    """Run the pairs, or one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", choices=["observed", "bare"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only:
        sys.stdout.write(json.dumps(_one(asked.url, asked.jobs, asked.only)))
        return
    rates, costs = [], []
    for number in range(asked.pairs):
        order = ("observed", "bare") if number % 2 else ("bare", "observed")
        took = {kind: _apart(asked, kind) for kind in order}
        rates.append(took["observed"][0] / took["bare"][0])
        costs.append(took["observed"][1] / took["bare"][1])
        words = ", ".join(f"{kind} {took[kind][0]:,.0f} jobs/s" for kind in sorted(took))
        sys.stdout.write(f"{words}: {rates[-1]:.3f}, CPU {costs[-1]:.3f}\n")
    rate, cost = statistics.median(rates), statistics.median(costs)
    sys.stdout.write(
        f"observed against bare: {rate:.3f} of the jobs/s, {cost:.3f} of the CPU\n"
    )


def _apart(asked: Any, kind: str) -> list[float]:
    words = [sys.executable, __file__, "--only", kind, "--jobs", str(asked.jobs)]
    with tempfile.TemporaryDirectory() as folder:
        url = asked.url or f"sqlite:///{folder}/jobs.db"
        done = subprocess.run(
            [*words, url], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    return json.loads(done.stdout)


def _one(url: str, jobs: int, kind: str) -> tuple[float, float]:
    """Jobs per second, and µs of this process's CPU per job."""
    if kind == "bare":
        opening.observed = lambda engine, metrics: engine
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
