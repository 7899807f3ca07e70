"""An application whose jobs write down when they ran, on the clock that nobody can set.

`python skew_app.py URL` submits the delayed jobs and the long ones, and writes down when.
"""

import asyncio
import os
import sys
import time
from datetime import timedelta

from longshore import Longshore, current_job

DELAYS = [0.3, 0.7, 1.5, 2.5]
LONG = float(os.environ.get("SKEW_LONG", "5"))
RETRY_BASE = 0.4
QUEUES = ["ahead", "behind"]

app = Longshore()


def write(*facts: object) -> None:
    """What happened, and when."""
    words = " ".join(map(str, [time.monotonic(), *facts]))
    file = os.open(os.environ["SKEW_LINES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{words}\n".encode())
    os.close(file)


@app.task
async def delayed(name: str) -> None:
    write("ran", name)


@app.task(retry_base=RETRY_BASE, retry_jitter="none")
async def fails_once(name: str) -> None:
    write("failed" if current_job().attempt == 1 else "ran", name)
    if current_job().attempt == 1:
        raise ValueError("as it should")


@app.task
async def takes_long(name: str) -> None:
    """Longer than two leases."""
    write("ran", name)
    await asyncio.sleep(LONG)


@app.schedule(every=timedelta(seconds=1), catch_up="all")
@app.task
async def tick() -> None:
    due = current_job().due
    write("ticked", due.timestamp() if due else None)


async def produce(url: str) -> None:
    with app.at(url):
        async with app:
            for queue in QUEUES:
                await takes_long.using(queue=queue).submit(f"long-{queue}")
                await fails_once.using(queue=queue).submit(f"failing-{queue}")
                for delay in DELAYS:
                    name = f"delayed-{queue}-{delay}"
                    write("submitting", name)
                    await delayed.using(queue=queue, delay=delay).submit(name)


if __name__ == "__main__":
    asyncio.run(produce(sys.argv[1]))
